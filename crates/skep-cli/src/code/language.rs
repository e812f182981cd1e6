//! Languages: what they are called, and how to tell what a file is written in.

use std::path::Path;

use crate::CliError;

/// A language, by the name that interpreters know it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Language(String);

/// The template that the SDKs ask for when nobody names one; smaller ones stand in for it.
pub(crate) const USUAL_TEMPLATE: &str = "code-interpreter-v1";
/// The templates that have a recipe of ours.
pub const TEMPLATES: &[&str] = &[
    "base",
    "code-interpreter-slim",
    "code-interpreter-languages",
    "code-interpreter-v1",
    "mcp-gateway",
];
/// The template with the languages that need a runtime of their own.
const LANGUAGES_TEMPLATE: &str = "code-interpreter-languages";

/// Extensions of files whose language is known, for people.
const EXTENSIONS: &[&str] = &[
    "py", "js", "mjs", "cjs", "ts", "mts", "cts", "tsx", "sh", "bash", "R", "java", "jsh", "ipynb",
];

/// Names that are offered where one is asked for.
pub(crate) const LANGUAGES: &[&str] = &["python", "javascript", "typescript", "bash", "r", "java"];

/// Other names, among them what files and interpreters are called.
const NAMES: &[(&str, &[&str])] = &[
    ("python", &["py", "python3", "ipython"]),
    ("javascript", &["js", "mjs", "cjs", "node", "nodejs"]),
    ("typescript", &["ts", "mts", "cts", "deno", "bun", "tsx"]),
    ("bash", &["sh", "shell"]),
    ("r", &["rscript"]),
    ("java", &["jsh", "jshell"]),
];

impl Language {
    /// The language that somebody names. What is not known here may be known to a template.
    pub(crate) fn named(text: &str) -> Self {
        let text = text.trim().to_lowercase();
        let known = NAMES.iter().find(|(_, others)| others.contains(&&*text));
        Self(known.map_or(text, |(name, _)| (*name).to_owned()))
    }

    /// Python, unless somebody says otherwise.
    pub(crate) fn usual() -> Self {
        Self::named("python")
    }

    /// Language by the file's extension, else by its first line; `None` for a file without either.
    ///
    /// # Errors
    ///
    /// If the extension says that it is written in something else.
    pub(crate) fn of_file(path: &Path, text: &str) -> Result<Option<Self>, CliError> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let by_extension = extension.map(Self::named).filter(Self::is_known);
        if let Some(language) = by_extension.or_else(|| Self::of_first_line(text)) {
            return Ok(Some(language));
        }
        match extension {
            None => Ok(None),
            Some(extension) => Err(CliError::input(
                format!("no language is known by the extension `.{extension}`"),
                format!(
                    "`--lang` names the language; known are the extensions {}",
                    Self::extensions()
                ),
            )),
        }
    }

    /// The extensions of files whose language is known.
    fn extensions() -> String {
        let names: Vec<_> = EXTENSIONS.iter().map(|name| format!(".{name}")).collect();
        names.join(", ")
    }

    /// Language by a first line such as `#!/usr/bin/env python3`.
    fn of_first_line(text: &str) -> Option<Self> {
        let command = text.lines().next()?.strip_prefix("#!")?;
        let mut words = command.split_whitespace();
        let name = |path: &str| path.rsplit('/').next().map(str::to_owned);
        let mut program = name(words.next()?)?;
        if program == "env" {
            program = name(words.find(|word| !word.starts_with('-') && !word.contains('='))?)?;
        }
        let unversioned = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        Some(Self::named(unversioned)).filter(Self::is_known)
    }

    fn is_known(&self) -> bool {
        NAMES.iter().any(|(name, _)| *name == self.0)
    }

    /// The name that interpreters know.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Name of the language as people write it.
    pub(crate) fn title(&self) -> &str {
        match self.name() {
            "python" => "Python",
            "javascript" => "JavaScript",
            "typescript" => "TypeScript",
            "bash" => "Bash",
            "r" => "R",
            "java" => "Java",
            other => other,
        }
    }

    /// Short name shown in the prompt, before the cursor.
    pub(crate) fn prompt(&self) -> &str {
        match self.name() {
            "python" => "py",
            "javascript" => "js",
            "typescript" => "ts",
            "bash" => "sh",
            other => other,
        }
    }

    /// Templates that may have a kernel for it, in the order in which they are tried. A smaller
    /// template may stand in for the usual one, and have no kernel for it.
    pub(crate) fn templates(&self) -> &'static [&'static str] {
        match self.name() {
            "r" | "java" => &[USUAL_TEMPLATE, LANGUAGES_TEMPLATE],
            _ => &[USUAL_TEMPLATE],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: Option<&str>) {
        let found = Language::of_file(Path::new(path), text).unwrap();
        assert_eq!(found.as_ref().map(Language::name), expected, "{path}");
    }

    #[test]
    fn a_file_tells_its_language_by_its_name_and_then_by_its_first_line() {
        check("a/plot.py", "", Some("python"));
        check("server.mjs", "", Some("javascript"));
        check("x.ts", "#!/bin/sh", Some("typescript"));
        check("tool", "#!/usr/bin/env python3\nprint(1)", Some("python"));
        check("tool", "#!/usr/bin/python3.13 -O", Some("python"));
        check("tool", "#!/usr/bin/env -S A=1 node", Some("javascript"));
        check("tool.txt", "#!/bin/bash", Some("bash"));
        check("tool", "#!/usr/bin/perl", None);
        check("notes", "hello", None);
    }

    #[test]
    fn a_file_of_another_language_is_refused_with_what_there_is() {
        for path in ["a.rb", "a.go", "notes.txt"] {
            let error = Language::of_file(Path::new(path), "x = 1").unwrap_err();
            assert!(error.hints[0].contains(".py, .js"), "{error:?}");
        }
        for name in EXTENSIONS.iter().filter(|name| **name != "ipynb") {
            assert!(Language::named(name).is_known(), "{name}");
        }
        for name in LANGUAGES {
            assert_eq!(Language::named(name).name(), *name);
        }
    }

    #[test]
    fn a_language_that_nobody_here_knows_keeps_its_name() {
        assert_eq!(Language::named(" Julia ").name(), "julia");
        assert_eq!(Language::named("JS").name(), "javascript");
    }
}
