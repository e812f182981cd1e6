//! Every variable of ours is in the registry, and the page made from it is up to date.

use super::Violation;
use crate::environment::{PAGE, REGISTRY, page, read_registry};
use crate::tree::Tree;

const RULE: &str = "environment";
const PREFIX: &str = "SKEP_";

/// Variables that the executable does not read: what we hand to programs we start, and what
/// people tell the tests.
const NOT_READ: &[&str] = &[
    "SKEP_BLESS",
    "SKEP_GUEST",
    "SKEP_ATTACKS_RESTORED",
    "SKEP_CHAOS_ROUNDS",
    "SKEP_CHAOS_SEED",
    "SKEP_SCRATCH",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let variables = match tree.find(REGISTRY).map(|file| read_registry(&file.text)) {
        None => Vec::new(),
        Some(Ok(variables)) => variables,
        Some(Err(error)) => return vec![Violation::new(RULE, REGISTRY, error)],
    };
    let mut violations = Vec::new();
    // Tests make up variables to set and find again.
    let is_real = |path: &str| path != REGISTRY && !path.contains("/tests/");
    for file in tree.files.iter().filter(|file| is_real(&file.path)) {
        for (number, line) in file.numbered_lines() {
            for name in names(line) {
                let is_known = variables.iter().any(|variable| variable.name == name);
                if !is_known && !NOT_READ.contains(&name) {
                    let message = format!("{name} is not in {REGISTRY}");
                    violations.push(Violation::new(
                        RULE,
                        format!("{}:{number}", file.path),
                        message,
                    ));
                }
            }
        }
    }
    for variable in variables.iter().filter(|variable| variable.help.is_empty()) {
        violations.push(Violation::new(
            RULE,
            REGISTRY,
            format!("{} has no help", variable.name),
        ));
    }
    let written = tree.find(PAGE).map(|file| file.text.as_str());
    if !variables.is_empty() && written != Some(page(&variables).as_str()) {
        violations.push(Violation::new(
            RULE,
            PAGE,
            "is not what the registry says; run `cargo xtask docs`",
        ));
    }
    violations
}

/// The variables of ours that `line` names.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    line.match_indices(PREFIX).filter_map(move |(start, _)| {
        if line[..start].ends_with(is_letter) {
            return None;
        }
        let rest = &line[start..];
        let end = rest.find(|letter| !is_letter(letter)).unwrap_or(rest.len());
        // The bare prefix, as in `SKEP_*`, names no variable.
        (end > PREFIX.len()).then_some(&rest[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        r#"const ALL: &[V] = &[V { name: "SKEP_LISTEN", key: "listen", help: "where" }];"#;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files))
            .into_iter()
            .map(|violation| violation.message)
            .collect()
    }

    fn up_to_date_page() -> String {
        page(&read_registry(SOURCE).unwrap())
    }

    #[test]
    fn a_registered_variable_may_be_used_anywhere() {
        let files = [
            (REGISTRY, SOURCE),
            (PAGE, &up_to_date_page()),
            ("Makefile", "export SKEP_LISTEN=1 # SKEP_*"),
        ];
        assert_eq!(messages(&files), [""; 0]);
    }

    #[test]
    fn an_unregistered_variable_is_named() {
        let used = concat!("env(\"SKEP_", "SECRET\")");
        let files = [
            (REGISTRY, SOURCE),
            (PAGE, &up_to_date_page()),
            ("a.rs", used),
        ];
        assert_eq!(
            messages(&files),
            [format!("{PREFIX}SECRET is not in {REGISTRY}")]
        );
    }

    #[test]
    fn a_stale_page_and_a_variable_without_meaning_are_refused() {
        assert_eq!(messages(&[(REGISTRY, SOURCE), (PAGE, "old")]).len(), 1);
        let silent = SOURCE.replace("where", "");
        assert_eq!(messages(&[(REGISTRY, &silent), (PAGE, "old")]).len(), 2);
        assert_eq!(messages(&[(REGISTRY, "fn f() {}")]).len(), 1);
    }
}
