//! Languages: what they are called, and how to tell what a file is written in.

use std::path::Path;

/// A language, by the name that interpreters know it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Language(String);

/// The template that the SDKs ask for when nobody names one; smaller ones stand in for it.
const USUAL_TEMPLATE: &str = "code-interpreter-v1";
/// The template with the languages that need a runtime of their own.
const LANGUAGES_TEMPLATE: &str = "code-interpreter-languages";

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

    /// Language by the file's extension, else by its first line.
    pub(crate) fn of_file(path: &Path, text: &str) -> Option<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let by_extension = extension.map(Self::named).filter(Self::is_known);
        by_extension.or_else(|| Self::of_first_line(text))
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

    /// A template that has a kernel for it.
    pub(crate) fn template(&self) -> &'static str {
        match self.name() {
            "r" | "java" => LANGUAGES_TEMPLATE,
            _ => USUAL_TEMPLATE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: Option<&str>) {
        let found = Language::of_file(Path::new(path), text);
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
    fn a_language_that_nobody_here_knows_keeps_its_name() {
        assert_eq!(Language::named(" Julia ").name(), "julia");
        assert_eq!(Language::named("JS").name(), "javascript");
    }
}
