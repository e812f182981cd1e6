//! Every crate takes the lints, versions and dependencies of the workspace.

use super::Violation;
use crate::tree::{TextFile, Tree};

const RULE: &str = "manifest";
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "publish"];
const TABLES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.files
        .iter()
        .filter(|file| is_member(&file.path))
        .flat_map(complaints)
        .collect()
}

/// Returns true if the manifest at `path` is one of the workspace's members.
fn is_member(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(
        parts.as_slice(),
        ["xtask", "Cargo.toml"] | ["crates", _, "Cargo.toml"]
    )
}

fn complaints(file: &TextFile) -> Vec<Violation> {
    let violation = |message: String| Violation::new(RULE, &file.path, message);
    let manifest: toml::Table = match file.text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![violation(format!("cannot be read: {error}"))],
    };
    let from_workspace = |value: Option<&toml::Value>| {
        value.and_then(|value| value.get("workspace")) == Some(&toml::Value::Boolean(true))
    };
    let mut messages = Vec::new();
    if !from_workspace(manifest.get("lints")) {
        messages.push("takes no workspace lints; add `[lints] workspace = true`".to_owned());
    }
    for key in INHERITED {
        if !from_workspace(manifest.get("package").and_then(|package| package.get(key))) {
            messages.push(format!(
                "`{key}` is not the workspace's; write `{key}.workspace = true`"
            ));
        }
    }
    for table in TABLES {
        let entries = manifest.get(*table).and_then(toml::Value::as_table);
        for (name, value) in entries.into_iter().flatten() {
            if !from_workspace(Some(value)) {
                messages.push(format!(
                    "`{name}` has a version of its own; list it in [workspace.dependencies]"
                ));
            }
        }
    }
    messages.into_iter().map(violation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\nedition.workspace = true\n\
        rust-version.workspace = true\nlicense.workspace = true\npublish.workspace = true\n\
        [dependencies]\nserde = { workspace = true, features = [\"rc\"] }\n[lints]\nworkspace = true\n";

    fn count(manifest: &str) -> usize {
        check(&Tree::of(&[("crates/a/Cargo.toml", manifest)])).len()
    }

    #[test]
    fn a_manifest_that_inherits_everything_passes() {
        assert_eq!(count(GOOD), 0);
    }

    #[test]
    fn each_thing_that_is_not_inherited_is_named() {
        assert_eq!(count(&GOOD.replace("[lints]\nworkspace = true", "")), 1);
        assert_eq!(
            count(&GOOD.replace("license.workspace = true", "license = \"MIT\"")),
            1
        );
        assert_eq!(
            count(&GOOD.replace("serde = { workspace = true", "serde = { version = \"1\"")),
            1
        );
        assert_eq!(count("not toml"), 1);
    }
}
