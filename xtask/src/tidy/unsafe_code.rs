//! `unsafe` occurs in `skep-linux` and nowhere else, tests included.

use super::Violation;
use super::rust_tokens::{Kind, tokens};
use crate::tree::Tree;

const RULE: &str = "unsafe-code";
const HOME: &str = "crates/skep-linux/";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust_files() {
        let tokens = match tokens(&file.text) {
            Ok(tokens) => tokens,
            Err(error) => {
                violations.push(Violation::new(
                    RULE,
                    &file.path,
                    format!("cannot be read: {error}"),
                ));
                continue;
            }
        };
        if file.path.starts_with(HOME) {
            continue;
        }
        let unsafe_tokens = tokens
            .iter()
            .filter(|token| token.kind == Kind::Word("unsafe".to_owned()));
        violations.extend(unsafe_tokens.map(|token| {
            Violation::new(
                RULE,
                format!("{}:{}", file.path, token.line),
                "`unsafe` lives in skep-linux; put a safe wrapper there",
            )
        }));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(files: &[(&str, &str)]) -> Vec<String> {
        let violations = check(&Tree::of(files)).into_iter();
        violations.map(|violation| violation.place).collect()
    }

    #[test]
    fn unsafe_is_found_in_code_tests_and_macros() {
        let source = "fn f() {\n    unsafe { g() }\n}\nmacro_rules! m { () => {\n unsafe {} } }\n";
        assert_eq!(
            places(&[("crates/a/src/lib.rs", source)]),
            ["crates/a/src/lib.rs:2", "crates/a/src/lib.rs:5"]
        );
        assert_eq!(
            places(&[("crates/a/tests/it/main.rs", "unsafe fn f() {}")]),
            ["crates/a/tests/it/main.rs:1"]
        );
    }

    #[test]
    fn the_word_in_a_comment_a_text_or_a_lint_name_is_not_unsafe_code() {
        let source = "//! unsafe\n#![deny(unsafe_code)]\n/// unsafe { }\nfn f() -> &'static str { \"unsafe {}\" }\n";
        assert_eq!(places(&[("crates/a/src/lib.rs", source)]), [""; 0]);
    }

    #[test]
    fn one_crate_may() {
        assert_eq!(
            places(&[("crates/skep-linux/src/lib.rs", "unsafe fn f() {}")]),
            [""; 0]
        );
        assert_eq!(
            places(&[("crates/skep-linux2/src/lib.rs", "unsafe fn f() {}")]).len(),
            1
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_passed_over() {
        assert_eq!(
            places(&[("crates/a/src/lib.rs", "fn f() {")]),
            ["crates/a/src/lib.rs"]
        );
    }
}
