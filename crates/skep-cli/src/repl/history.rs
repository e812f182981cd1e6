//! History of the prompt, in a file.

use std::path::PathBuf;

use crate::code::Language;

/// The directory of the user's state, if the environment says where that is.
pub(super) fn directory(environment: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |path: String| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let state = environment("XDG_STATE_HOME").and_then(absolute);
    let home = || Some(environment("HOME").and_then(absolute)?.join(".local/state"));
    Some(state.or_else(home)?.join("skep"))
}

/// The file of one language.
pub(super) fn file(directory: &std::path::Path, language: &Language) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    let name: String = language.name().chars().filter(|c| is_plain(*c)).collect();
    directory.join(format!("history-{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_lies_in_the_users_state_and_cannot_leave_it() {
        let home = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
        let found = directory(home).unwrap();
        assert_eq!(found, PathBuf::from("/home/me/.local/state/skep"));
        let odd = Language::named("../../etc/passwd");
        assert_eq!(file(&found, &odd), found.join("history-etcpasswd"));
        let relative = |name: &str| (name == "XDG_STATE_HOME").then(|| "here".to_owned());
        assert_eq!(directory(relative), None);
    }
}
