//! Rule that what is left to do is an issue, not a comment that nobody finds.

use super::Violation;
use crate::tree::Tree;

const RULE: &str = "todo";
// Written in parts, or this file would break its own rule.
const WORDS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &tree.files {
        for (number, line) in file.numbered_lines() {
            if WORDS.iter().any(|word| lacks_issue(line, word)) {
                violations.push(Violation::new(
                    RULE,
                    format!("{}:{number}", file.path),
                    "what is left to do names its issue: `(#12)` behind the word",
                ));
            }
        }
    }
    violations
}

/// Returns true if `word` stands in `line` without `(#number)` right behind it.
fn lacks_issue(line: &str, word: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = &line[start + word.len()..];
        let stands_alone = !before.is_some_and(is_letter) && !after.starts_with(is_letter);
        stands_alone && !names_issue(after)
    })
}

fn names_issue(after: &str) -> bool {
    after
        .strip_prefix("(#")
        .and_then(|rest| rest.split_once(')'))
        .is_some_and(|(number, _)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(line: &str) -> usize {
        let line = line.replace("LATER", WORDS[0]);
        check(&Tree::of(&[("a.rs", &line)])).len()
    }

    #[test]
    fn an_issue_number_is_needed() {
        assert_eq!(count("// LATER: faster"), 1);
        assert_eq!(count("// LATER(soon): faster"), 1);
        assert_eq!(count("// LATER(#): faster"), 1);
        assert_eq!(count("// LATER(#12): faster"), 0);
        assert_eq!(count("# LATER(#12) and LATER"), 1);
    }

    #[test]
    fn part_of_a_name_is_not_the_word() {
        assert_eq!(count("const NO_LATER_LEFT: u8 = 0; // aLATERb"), 0);
    }
}
