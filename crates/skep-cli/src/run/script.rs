//! Conversion of a file or a piece of code into cells of an interpreter.
//!
//! Nothing that a person names is pasted into code: what goes there is constant, and finds
//! arguments and paths in a variable that it removes at once.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::json;

use super::source::Source;
use crate::CliError;
use crate::code::{Language, Shows};

/// Environment variable that passes paths and arguments to constant code.
const VARIABLE: &str = "_RUN_ORDER";

/// The cells that are run, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Script<'a> {
    /// The cell that sets the arguments; prints nothing.
    pub(super) preparation: Option<Cell<'a>>,
    /// The code itself.
    pub(super) main: Cell<'a>,
    /// Selection of results shown beside the output.
    pub(super) shows: Shows,
}

/// Code with a variable of its own.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cell<'a> {
    pub(super) code: Cow<'a, str>,
    pub(super) variables: BTreeMap<String, String>,
}

impl<'a> Script<'a> {
    /// The cells that run `source` with `arguments`. A file lies at `path` in the sandbox.
    ///
    /// # Errors
    ///
    /// If the language takes no arguments.
    pub(super) fn new(
        source: &'a Source,
        path: Option<&str>,
        arguments: &[String],
        language: &Language,
    ) -> Result<Self, CliError> {
        if let ("python", Some(path)) = (language.name(), path) {
            let order = json!({ "path": path, "arguments": arguments });
            return Ok(Self {
                preparation: None,
                main: Cell::with(include_str!("script.py"), order.to_string()),
                shows: Shows::Displays,
            });
        }
        let name = path.unwrap_or("-c");
        // A file of Node.js is told its name by them; what is no file has none.
        let knows_its_file = matches!(language.name(), "javascript" | "typescript");
        let preparation = match arguments {
            [] if path.is_none() || !knows_its_file => None,
            arguments => Some(preparation(language, name, arguments)?),
        };
        Ok(Self {
            preparation,
            main: Cell {
                code: without_interpreter_line(&source.text, language),
                variables: BTreeMap::new(),
            },
            shows: match path {
                Some(_) => Shows::Displays,
                None => Shows::Values,
            },
        })
    }
}

impl<'a> Cell<'a> {
    /// Code as it is.
    pub(super) fn of(code: &'a str) -> Self {
        Self {
            code: Cow::Borrowed(code),
            variables: BTreeMap::new(),
        }
    }
}

impl Cell<'static> {
    fn with(code: &'static str, value: String) -> Self {
        Self {
            code: Cow::Borrowed(code),
            variables: BTreeMap::from([(VARIABLE.to_owned(), value)]),
        }
    }
}

fn preparation(
    language: &Language,
    name: &str,
    arguments: &[String],
) -> Result<Cell<'static>, CliError> {
    let all: Vec<&str> = [name].into_iter().chain(strings(arguments)).collect();
    match language.name() {
        "python" => Ok(Cell::with(
            include_str!("arguments.py"),
            json!(all).to_string(),
        )),
        "javascript" | "typescript" => Ok(Cell::with(
            include_str!("arguments.js"),
            json!(all).to_string(),
        )),
        "bash" => {
            let words: Vec<String> = strings(arguments).map(bash_word).collect();
            Ok(Cell::with(include_str!("arguments.sh"), words.join(" ")))
        }
        _ => Err(CliError::input(
            format!("{} code takes no arguments here", language.title()),
            "give values with `--env NAME=VALUE`, or files with `--with PATH`",
        )),
    }
}

fn strings(arguments: &[String]) -> impl Iterator<Item = &str> {
    arguments.iter().map(String::as_str)
}

/// A word that Bash reads as `text`: within single quotes everything is itself but these.
fn bash_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The line that names the interpreter is no code where `#` begins no comment.
fn without_interpreter_line<'a>(text: &'a str, language: &Language) -> Cow<'a, str> {
    let is_comment = !matches!(language.name(), "javascript" | "typescript" | "java");
    match text.strip_prefix("#!") {
        Some(rest) if !is_comment => Cow::Owned(format!("//{rest}")),
        Some(_) | None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn source(text: &str) -> Source {
        Source {
            text: text.to_owned(),
            file: None,
            notebook: None,
        }
    }

    fn script<'a>(
        source: &'a Source,
        path: Option<&str>,
        arguments: &[&str],
        language: &str,
    ) -> Result<Script<'a>, CliError> {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        Script::new(source, path, &arguments, &Language::named(language))
    }

    #[test]
    fn a_python_file_is_run_by_its_path_and_code_as_it_is() {
        let source = source("print(1)");
        let file = script(&source, Some("/home/user/a.py"), &["x"], "python").unwrap();
        assert_eq!(
            file.main.variables[VARIABLE],
            r#"{"arguments":["x"],"path":"/home/user/a.py"}"#
        );
        assert_eq!(file.shows, Shows::Displays);
        let code = script(&source, None, &[], "python").unwrap();
        assert_eq!((&*code.main.code, code.shows), ("print(1)", Shows::Values));
        assert!(code.preparation.is_none() && code.main.variables.is_empty());
    }

    #[test]
    fn a_file_of_node_knows_its_name_without_arguments_and_code_has_none() {
        let source = source("1");
        for language in ["javascript", "typescript"] {
            let file = script(&source, Some("/home/user/a.mjs"), &[], language).unwrap();
            let preparation = file.preparation.unwrap();
            assert_eq!(preparation.variables[VARIABLE], r#"["/home/user/a.mjs"]"#);
            let code = script(&source, None, &[], language).unwrap();
            assert!(code.preparation.is_none());
        }
        for language in ["java", "bash"] {
            let file = script(&source, Some("/home/user/a"), &[], language).unwrap();
            assert!(file.preparation.is_none(), "{language}");
        }
    }

    #[test]
    fn arguments_never_become_code() {
        let source = source("");
        for language in ["python", "javascript", "bash"] {
            let script = script(&source, None, &["'; rm -rf /"], language).unwrap();
            let preparation = script.preparation.unwrap();
            assert!(!preparation.code.contains("rm -rf"), "{language}");
        }
        let refused = script(&source, None, &["x"], "java").unwrap_err();
        assert!(refused.source.to_string().contains("Java"));
    }

    #[test]
    fn the_line_of_an_interpreter_keeps_its_place_and_becomes_a_comment() {
        let source = source("#!/usr/bin/env node\nx");
        let javascript = script(&source, Some("/a.js"), &[], "js").unwrap();
        assert_eq!(javascript.main.code, "///usr/bin/env node\nx");
        let bash = script(&source, Some("/a.sh"), &[], "bash").unwrap();
        assert_eq!(bash.main.code, source.text);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn bash_reads_every_argument_as_it_was(text in "[^\0]{0,40}") {
            let command = format!("printf %s {}", bash_word(&text));
            let output = Command::new("bash").args(["-c", &command]).output().unwrap();
            prop_assert_eq!(output.stdout, text.into_bytes());
        }
    }
}
