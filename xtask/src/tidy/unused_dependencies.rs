//! A dependency that nothing names is not listed.
//!
//! The compiler warns of an unused import, but not of an unused crate: it is still fetched, built
//! and audited. A crate counts as named where its name begins a path.

use std::collections::BTreeSet;

use super::Violation;
use super::rust_tokens::path_heads;
use crate::tree::Tree;

const RULE: &str = "unused-dependency";
const WORKSPACE: &str = "Cargo.toml";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut listed_by_members = BTreeSet::new();
    for file in &tree.files {
        let Some(directory) = member_folder(&file.path) else {
            continue;
        };
        let Ok(manifest) = file.text.parse::<toml::Table>() else {
            // The rule for manifests says so.
            continue;
        };
        let product = heads_below(
            tree,
            &[format!("{directory}/src/"), format!("{directory}/build.rs")],
        );
        let tests = heads_below(
            tree,
            &[
                format!("{directory}/tests/"),
                format!("{directory}/benches/"),
            ],
        );
        for name in names(&manifest, "dependencies") {
            let identifier = name.replace('-', "_");
            if product.contains(&identifier) {
                continue;
            }
            let cure = if tests.contains(&identifier) {
                "only tests name it; move it to [dev-dependencies]"
            } else {
                "nothing names it; remove it"
            };
            violations.push(Violation::new(
                RULE,
                &file.path,
                format!("`{name}`: {cure}"),
            ));
        }
        for name in names(&manifest, "dev-dependencies") {
            let identifier = name.replace('-', "_");
            if !product.contains(&identifier) && !tests.contains(&identifier) {
                let message = format!("`{name}`: nothing names it; remove it");
                violations.push(Violation::new(RULE, &file.path, message));
            }
        }
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            listed_by_members.extend(names(&manifest, table));
        }
    }
    violations.extend(unused_by_all(tree, &listed_by_members));
    violations
}

/// The directory of the member whose manifest is at `path`.
fn member_folder(path: &str) -> Option<&str> {
    let directory = path.strip_suffix("/Cargo.toml")?;
    (directory == "xtask" || directory.starts_with("crates/")).then_some(directory)
}

fn unused_by_all(tree: &Tree, listed: &BTreeSet<String>) -> Vec<Violation> {
    let workspace = tree.files.iter().find(|file| file.path == WORKSPACE);
    let manifest = workspace.and_then(|file| file.text.parse::<toml::Table>().ok());
    let Some(manifest) = manifest else {
        return Vec::new();
    };
    let offered = manifest.get("workspace").and_then(toml::Value::as_table);
    offered
        .map(|table| names(table, "dependencies"))
        .unwrap_or_default()
        .into_iter()
        .filter(|name| !listed.contains(name))
        .map(|name| {
            let message = format!("`{name}`: no member lists it; remove it");
            Violation::new(RULE, WORKSPACE, message)
        })
        .collect()
}

fn names(manifest: &toml::Table, table: &str) -> Vec<String> {
    let entries = manifest.get(table).and_then(toml::Value::as_table);
    entries
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect()
}

fn heads_below(tree: &Tree, prefixes: &[String]) -> BTreeSet<String> {
    tree.files
        .iter()
        .filter(|file| {
            file.is_rust() && prefixes.iter().any(|prefix| file.path.starts_with(prefix))
        })
        .flat_map(|file| path_heads(&file.text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files))
            .into_iter()
            .map(|violation| violation.message)
            .collect()
    }

    #[test]
    fn a_dependency_is_named_where_it_is_listed_for() {
        let manifest = "[dependencies]\nfutures-util.workspace = true\n[dev-dependencies]\ninsta.workspace = true\n";
        let found = messages(&[
            ("crates/a/Cargo.toml", manifest),
            ("crates/a/src/lib.rs", "use futures_util::StreamExt;"),
            ("crates/a/tests/it/main.rs", "insta::assert_snapshot!(1);"),
            ("crates/b/src/lib.rs", "use other::Thing;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn an_unused_one_is_found_and_so_is_one_that_only_tests_use() {
        let manifest = "[dependencies]\nbytes.workspace = true\nhttp.workspace = true\n";
        let found = messages(&[
            (
                "Cargo.toml",
                "[workspace.dependencies]\nbytes = \"1\"\nhttp = \"1\"\nnix = \"1\"\n",
            ),
            ("crates/a/Cargo.toml", manifest),
            (
                "crates/a/src/lib.rs",
                "// bytes are counted elsewhere\nfn bytes_of() {}",
            ),
            ("crates/a/tests/it.rs", "use http::Uri;"),
        ]);
        assert_eq!(
            found,
            [
                "`bytes`: nothing names it; remove it",
                "`http`: only tests name it; move it to [dev-dependencies]",
                "`nix`: no member lists it; remove it",
            ]
        );
    }
}
