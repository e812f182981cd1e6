//! Lock files of workspaces beside the main one, which no build of the main one looks at.
//!
//! The fuzz targets depend on our crates by path. A dependency that one of these gains makes their lock file stale,
//! and without this rule nobody would hear of it before the step of CI that builds them.

use std::path::Path;

use cargo_metadata::MetadataCommand;

use super::Violation;
use crate::tree::Tree;

const RULE: &str = "lock-file";

/// Asks cargo about each workspace of the tree but the main one.
pub(crate) fn check(tree: &Tree, root: &Path) -> Vec<Violation> {
    let locks = tree.files.iter().filter_map(|file| {
        let directory = file.path.strip_suffix("/Cargo.lock")?;
        (!directory.is_empty()).then_some(directory)
    });
    locks
        .filter_map(|directory| stale(&root.join(directory)).map(|why| (directory, why)))
        .map(|(directory, why)| {
            let message = format!(
                "`cargo metadata --locked` refuses it; run `cargo update --workspace` there: {why}"
            );
            Violation::new(RULE, format!("{directory}/Cargo.lock"), message)
        })
        .collect()
}

/// Cargo's reason for not taking the lock file of a workspace, if it has one.
fn stale(directory: &Path) -> Option<String> {
    let asked = MetadataCommand::new()
        .manifest_path(directory.join("Cargo.toml"))
        .other_options(["--locked".to_owned()])
        .exec();
    asked.err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_that_lacks_a_dependency_is_stale() {
        let workspace = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = workspace.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let manifest = "[package]\nname = \"a\"\nversion = \"0.0.0\"\nedition = \"2024\"\n";
        write("Cargo.toml", &format!("{manifest}[workspace]\n"));
        write("src/lib.rs", "");
        let package = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"0.0.0\"\n";
        write("Cargo.lock", package);
        assert_eq!(stale(workspace.path()), None);
        write(
            "Cargo.toml",
            &format!("{manifest}[workspace]\n[dependencies]\nb = {{ path = \"b\" }}\n"),
        );
        write(
            "b/Cargo.toml",
            &manifest.replace("name = \"a\"", "name = \"b\""),
        );
        write("b/src/lib.rs", "");
        let why = stale(workspace.path()).unwrap();
        assert!(why.contains("--locked"), "{why}");
    }
}
