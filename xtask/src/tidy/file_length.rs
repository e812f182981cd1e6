//! A file that asks to be two.

use super::Violation;
use super::rust_tokens::code_lines;
use crate::tree::Tree;

const RULE: &str = "file-length";
/// Above this a file is named, so that somebody looks.
const WORTH_A_LOOK: usize = 500;
/// Above this it must be split.
const TOO_LONG: usize = 700;

/// Code that a tool wrote is not read by people.
const GENERATED: &[&str] = &["/generated/"];

pub(super) struct Lengths {
    pub(super) violations: Vec<Violation>,
    pub(super) remarks: Vec<String>,
}

pub(super) fn check(tree: &Tree) -> Lengths {
    let mut lengths = Lengths {
        violations: Vec::new(),
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

#[cfg(test)]
mod tests {
    use super::*;

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
