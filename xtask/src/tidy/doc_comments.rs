//! Rule that a doc comment begins with a noun or a verb, so that it says what a thing is and not what is asked about it;
//! and that it has more than one word, which would only be the name again.

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
        let lines: Vec<_> = file.numbered_lines().collect();
        for (index, (number, line)) in lines.iter().enumerate() {
            let Some(first) = text(line) else { continue };
            let is_text = |index: Option<usize>| {
                let line = index.and_then(|index| lines.get(index));
                line.is_some_and(|(_, line)| text(line).is_some())
            };
            if is_text(index.checked_sub(1)) {
                continue;
            }
            let reason = if asks(first) {
                "a doc comment begins with a noun or a verb: `Base of a build.`, `True if it is ready.`"
            } else if is_one_word(first) && !is_text(Some(index + 1)) {
                "a doc comment says what the name does not: `Size in MiB, as df shows it.`, not `Size.`"
            } else {
                continue;
            };
            violations.push(Violation::new(
                RULE,
                format!("{}:{number}", file.path),
                reason,
            ));
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

/// True for a word alone. A name in code, such as the route or the tool that a file is about, is none.
fn is_one_word(text: &str) -> bool {
    let text = text.trim();
    let word = text.strip_suffix('.').unwrap_or(text);
    !word.is_empty() && word.chars().all(char::is_alphabetic)
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

    #[test]
    fn a_doc_comment_has_more_than_one_word() {
        assert_eq!(count("    /// Size.\n    size: u64,"), 1);
        assert_eq!(count("//! Listings\n\nuse std::io;"), 1);
        assert_eq!(count("/// Size in bytes."), 0);
        assert_eq!(count("/// Names.\n///\n/// One may come twice."), 0);
        assert_eq!(
            count("/// What it holds, and until when it is\n/// kept."),
            1
        );
        assert_eq!(count("/// Holds bytes of\n/// others."), 0);
        assert_eq!(count("//! `/volumes`"), 0);
        assert_eq!(count("// Memory.\nconst ROWS: u8 = 3;"), 0);
    }
}
