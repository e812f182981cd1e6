//! Rule that a doc comment begins with a noun or a verb, so that it says what a thing is and not what is asked about it.

use super::Violation;
use crate::tree::Tree;

const RULE: &str = "doc-comments";
const QUESTIONS: &[&str] = &[
    "How", "What", "Whatever", "When", "Where", "Whether", "Which", "Who", "Whoever", "Whom",
    "Whose", "Why",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let rust = tree.files.iter().filter(|file| file.path.ends_with(".rs"));
    let mut violations = Vec::new();
    for file in rust {
        let mut is_inside = false;
        for (number, line) in file.numbered_lines() {
            let text = text(line);
            if !is_inside && text.is_some_and(asks) {
                violations.push(Violation::new(
                    RULE,
                    format!("{}:{number}", file.path),
                    "a doc comment begins with a noun or a verb: `Base of a build.`, `True if it is ready.`",
                ));
            }
            is_inside = text.is_some();
        }
    }
    violations
}

/// The words of a line of a doc comment.
fn text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or(line.strip_prefix("//!"))
}

fn asks(text: &str) -> bool {
    let first = text.split_whitespace().next();
    first.is_some_and(|first| QUESTIONS.contains(&first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(lines: &str) -> usize {
        check(&Tree::of(&[("a.rs", lines)])).len()
    }

    #[test]
    fn the_first_word_of_a_doc_comment_is_no_question() {
        assert_eq!(count("    /// What it holds.\n    held: u8,"), 1);
        assert_eq!(count("//! How it works."), 1);
        assert_eq!(count("/// Bytes that it holds."), 0);
    }

    #[test]
    fn later_lines_and_plain_comments_begin_as_they_like() {
        assert_eq!(count("/// Holds bytes.\n/// What else it holds."), 0);
        assert_eq!(count("// What follows is hard."), 0);
    }
}
