//! A file that asks to be two.

use super::Violation;
use super::rust_tokens::code_lines;
use crate::tree::Tree;

const RULE: &str = "file-length";
/// Above this a file is named, so that somebody looks.
const WORTH_A_LOOK: usize = 500;
/// Above this it must be split.
const TOO_LONG: usize = 700;

/// The page for people who see the project for the first time. What they do not need on the
/// first day is in `docs/`.
const FIRST_PAGE: &str = "README.md";
const LONGEST_FIRST_PAGE: usize = 180;

/// Code that a tool wrote is not read by people.
const GENERATED: &[&str] = &["/generated/"];

pub(super) struct Lengths {
    pub(super) violations: Vec<Violation>,
    pub(super) remarks: Vec<String>,
}

pub(super) fn check(tree: &Tree) -> Lengths {
    let mut lengths = Lengths {
        violations: first_page(tree).into_iter().collect(),
        remarks: Vec::new(),
    };
    let written = tree
        .rust_files()
        .filter(|file| !GENERATED.iter().any(|part| file.path.contains(part)));
    for file in written {
        // `unsafe-code` reports a file that cannot be read.
        let Ok(lines) = code_lines(&file.text) else {
            continue;
        };
        if lines > TOO_LONG {
            let message = format!("{lines} lines of code, {TOO_LONG} at most; make it two files");
            lengths
                .violations
                .push(Violation::new(RULE, &file.path, message));
        } else if lines > WORTH_A_LOOK {
            lengths
                .remarks
                .push(format!("{} has {lines} lines of code", file.path));
        }
    }
    lengths
}

fn first_page(tree: &Tree) -> Option<Violation> {
    let lines = tree.find(FIRST_PAGE)?.text.lines().count();
    let message = format!("{lines} lines, {LONGEST_FIRST_PAGE} at most; move some to docs/");
    (lines > LONGEST_FIRST_PAGE).then(|| Violation::new(RULE, FIRST_PAGE, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_page_is_short_and_others_may_be_long() {
        let violations = |path, lines| {
            check(&Tree::of(&[(path, &"x\n".repeat(lines))]))
                .violations
                .len()
        };
        assert_eq!(violations(FIRST_PAGE, LONGEST_FIRST_PAGE), 0);
        assert_eq!(violations(FIRST_PAGE, LONGEST_FIRST_PAGE + 1), 1);
        assert_eq!(violations("docs/README.md", LONGEST_FIRST_PAGE + 1), 0);
    }

    fn lengths(path: &str, lines: usize) -> (usize, usize) {
        let lengths = check(&Tree::of(&[(path, &"fn f() {}\n// why\n".repeat(lines))]));
        (lengths.violations.len(), lengths.remarks.len())
    }

    #[test]
    fn long_files_are_named_and_longer_ones_refused() {
        assert_eq!(lengths("src/a.rs", 500), (0, 0));
        assert_eq!(lengths("src/a.rs", 501), (0, 1));
        assert_eq!(lengths("src/a.rs", 700), (0, 1));
        assert_eq!(lengths("src/a.rs", 701), (1, 0));
    }

    #[test]
    fn generated_code_may_be_long() {
        assert_eq!(lengths("src/generated/a.rs", 5000), (0, 0));
    }
}
