//! Commands to the prompt itself, rather than code.

use std::path::PathBuf;

use crate::code::Language;

/// The names, for completion.
pub(super) const NAMES: &[&str] = &[
    ":back",
    ":checkpoint",
    ":context",
    ":files",
    ":fork",
    ":help",
    ":lang",
    ":quit",
    ":reset",
    ":save",
    ":save-dir",
];

/// Text of `:help`.
pub(super) const HELP: &str = "\
:lang NAME     go on in another language; the first one keeps its variables
:reset         forget all variables of this language
:checkpoint    keep the variables of now, so that they can be gone back to
:back [NUMBER] go back to the last checkpoint, or to this one
:fork          go on in a copy of this context; the original stays as it is
:context ID    go on in another context of the sandbox
:files [PATH]  list files of the sandbox
:save FILE     write what happened in this language until now as a notebook
:save-dir DIR  keep pictures and HTML from now on in this directory
:quit          leave, as Ctrl-D does
Ctrl-C         interrupts the code; what it has set until then stays
NAME?          explains a name, NAME?? with its source
Tab            completes names that the kernel knows; → takes the grey suggestion
Up, Ctrl-R     what was entered before, also in other sessions";

/// A command to the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Leave,
    Reset,
    Fork,
    Checkpoint,
    Back(Option<String>),
    Context(String),
    Language(Language),
    Files(Option<String>),
    Save(PathBuf),
    SaveDirectory(PathBuf),
}

impl Command {
    /// The command in `text`; `None` if it is code. What is wrong with it is told in words.
    pub(super) fn parse(text: &str) -> Option<Result<Self, String>> {
        let text = text.trim();
        // As every prompt is left.
        if matches!(text, "exit" | "quit" | "exit()" | "quit()" | ".exit") {
            return Some(Ok(Self::Leave));
        }
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = Some(rest.trim()).filter(|rest| !rest.is_empty());
        // `: > file` is Bash, and `::` is R.
        let is_ours = name
            .strip_prefix(':')?
            .starts_with(|c: char| c.is_ascii_lowercase());
        is_ours.then(|| match (name, rest) {
            (":help", _) => Ok(Self::Help),
            (":quit" | ":q" | ":exit", _) => Ok(Self::Leave),
            (":reset", _) => Ok(Self::Reset),
            (":fork", _) => Ok(Self::Fork),
            (":checkpoint", _) => Ok(Self::Checkpoint),
            (":back", checkpoint) => Ok(Self::Back(checkpoint.map(str::to_owned))),
            (":context", Some(id)) => Ok(Self::Context(id.to_owned())),
            (":context", None) => Err(":context needs an ID, which :fork has told".to_owned()),
            (":lang", Some(name)) => Ok(Self::Language(Language::named(name))),
            (":lang", None) => Err(":lang needs a name, such as python or javascript".to_owned()),
            (":files" | ":ls", path) => Ok(Self::Files(path.map(str::to_owned))),
            (":save", Some(path)) => Ok(Self::Save(PathBuf::from(path))),
            (":save-dir", Some(path)) => Ok(Self::SaveDirectory(PathBuf::from(path))),
            (":save-dir", None) => Err(":save-dir needs a directory, such as plots".to_owned()),
            (":save", None) => Err(":save needs a file, such as work.ipynb".to_owned()),
            (other, _) => Err(format!("there is no {other}; :help says what there is")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_a_colon_and_a_letter_is_for_the_prompt() {
        let parse = |text| Command::parse(text).map(Result::ok);
        assert_eq!(parse(":help"), Some(Some(Command::Help)));
        assert_eq!(
            parse(" :files data "),
            Some(Some(Command::Files(Some("data".to_owned()))))
        );
        assert_eq!(
            parse(":lang js"),
            Some(Some(Command::Language(Language::named("javascript"))))
        );
        assert_eq!(
            parse(":save a b.ipynb"),
            Some(Some(Command::Save("a b.ipynb".into())))
        );
        assert_eq!(
            parse(":save-dir plots"),
            Some(Some(Command::SaveDirectory("plots".into())))
        );
        assert_eq!(parse(":back"), Some(Some(Command::Back(None))));
        let second = Command::Back(Some("2".to_owned()));
        assert_eq!(parse(":back 2"), Some(Some(second)));
        assert_eq!(parse(":context"), Some(None));
        assert_eq!(parse("exit()"), Some(Some(Command::Leave)));
        assert_eq!(parse(":lang"), Some(None));
        assert_eq!(parse(":nonsense"), Some(None));
        assert_eq!(parse("x = 1"), None);
        assert_eq!(parse(": > file"), None);
    }
}
