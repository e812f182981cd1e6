//! Files are called after the thing they hold.

use super::Violation;
use crate::tree::Tree;

const RULE: &str = "file-name";
/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &[
    "util", "utils", "helper", "helpers", "common", "manager", "misc",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust_files()
        .filter_map(|file| {
            let message = complaint(&file.path)?;
            Some(Violation::new(RULE, &file.path, message))
        })
        .collect()
}

fn complaint(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    let stem = parts.last()?.strip_suffix(".rs")?;
    if stem == "mod" {
        return Some("no mod.rs: write `foo.rs` beside the directory `foo`".to_owned());
    }
    let empty = parts
        .iter()
        .map(|part| part.strip_suffix(".rs").unwrap_or(part))
        .find(|part| EMPTY_NAMES.contains(part));
    if let Some(name) = empty {
        return Some(format!(
            "`{name}` says nothing; name it after the thing or the operation"
        ));
    }
    // Every file directly in `tests/` is a program of its own to link.
    if let ["crates", _, "tests", _] = parts.as_slice() {
        return Some("one test program per crate: make it a module of tests/it/main.rs".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(path: &str) -> bool {
        !check(&Tree::of(&[(path, "")])).is_empty()
    }

    #[test]
    fn mod_rs_and_empty_names_are_refused() {
        assert!(is_refused("crates/a/src/b/mod.rs"));
        assert!(is_refused("crates/a/src/utils.rs"));
        assert!(is_refused("crates/a/src/common/wait.rs"));
        assert!(!is_refused("crates/a/src/b/model.rs"));
        assert!(!is_refused("crates/a/src/utility_belt.rs"));
    }

    #[test]
    fn a_second_test_program_is_refused() {
        assert!(is_refused("crates/a/tests/launch.rs"));
        assert!(!is_refused("crates/a/tests/it/main.rs"));
    }
}
