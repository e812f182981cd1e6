//! The binary puts parts together and is small: what decides something has a crate of its own.

use std::collections::BTreeSet;

use super::Violation;
use super::rust_tokens::code_lines;
use crate::tree::Tree;

const RULE: &str = "wiring";
const BINARY: &str = "crates/skep/src/";
/// Limit on the lines of code of the binary, without its tests.
const MOST: usize = 3_000;
/// First line of what is compiled for tests alone.
const TESTS: &str = "#[cfg(test)]";

pub(super) fn check(tree: &Tree) -> Option<Violation> {
    let files: Vec<_> = tree
        .rust_files()
        .filter(|file| file.path.starts_with(BINARY))
        .collect();
    let tests: BTreeSet<_> = files
        .iter()
        .flat_map(|file| test_modules(&file.path, &file.text))
        .collect();
    let product = files.iter().filter(|file| !tests.contains(&file.path));
    let lines: usize = product
        .filter_map(|file| code_lines(without_tests(&file.text)).ok())
        .sum();
    let message = format!("{lines} lines of code, {MOST} at most; move what decides to its crate");
    (lines > MOST).then(|| Violation::new(RULE, BINARY, message))
}

/// Files of modules that are compiled for tests alone.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let directory = match path.strip_suffix("/main.rs") {
        Some(directory) => directory,
        None => path.trim_end_matches(".rs"),
    };
    let lines: Vec<_> = text.lines().collect();
    lines
        .windows(2)
        .filter(|pair| pair[0] == TESTS)
        .filter_map(|pair| pair[1].strip_prefix("mod ")?.strip_suffix(';'))
        .map(|name| format!("{directory}/{name}.rs"))
        .collect()
}

/// Text before the module of tests at the end of a file.
fn without_tests(text: &str) -> &str {
    let end = text.find(&format!("\n{TESTS}\nmod tests {{"));
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_small(files: &[(&str, &str)]) -> bool {
        check(&Tree::of(files)).is_none()
    }

    #[test]
    fn the_binary_is_small_and_others_may_be_large() {
        let most = "fn f() {}\n// why\n".repeat(MOST);
        assert!(is_small(&[("crates/skep/src/a.rs", &most)]));
        let more = format!("{most}fn f() {{}}\n");
        assert!(!is_small(&[("crates/skep/src/a.rs", &more)]));
        let halves = [
            ("crates/skep/src/a.rs", &*most),
            ("crates/skep/src/b/c.rs", "fn f() {}"),
        ];
        assert!(!is_small(&halves));
        assert!(is_small(&[("crates/skep-api/src/a.rs", &more)]));
    }

    #[test]
    fn its_tests_do_not_count() {
        let most = "fn f() {}\n".repeat(MOST);
        let tested = format!("{most}\n#[cfg(test)]\nmod tests {{\n    fn g() {{}}\n}}\n");
        assert!(is_small(&[("crates/skep/src/a.rs", &tested)]));
        let parent = "#[cfg(test)]\nmod inner;\n";
        for (file, inner) in [
            ("crates/skep/src/a.rs", "crates/skep/src/a/inner.rs"),
            ("crates/skep/src/main.rs", "crates/skep/src/inner.rs"),
        ] {
            assert!(is_small(&[(file, parent), (inner, &most)]));
        }
    }
}
