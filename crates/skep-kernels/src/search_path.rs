//! The directories that may hold the kernels of a sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::contexts::FALLBACK_DIRECTORY;

/// The kernels that a template brings.
const OURS: &str = "/usr/local/share/skep/kernels";

/// Jupyter's kernels in an environment, a home or the system.
const IN_PREFIX: &str = "share/jupyter/kernels";

/// Prefixes of the whole system.
const OF_SYSTEM: [&str; 2] = ["/usr/local", "/usr"];

/// Returns true if there is a directory for kernels where one can look before the variables of
/// the sandbox, and its user, are known.
pub fn has_kernels() -> bool {
    search_path(&BTreeMap::new(), Path::new(FALLBACK_DIRECTORY))
        .iter()
        .any(|directory| directory.is_dir())
}

/// Lists the directories to look into, those that win first: ours, what the variables of the
/// sandbox name, its user's, the system's.
pub(crate) fn search_path(environment: &BTreeMap<String, String>, home: &Path) -> Vec<PathBuf> {
    let named = environment
        .get("JUPYTER_PATH")
        .into_iter()
        .flat_map(|paths| std::env::split_paths(paths))
        .map(|path| path.join("kernels"));
    let in_prefixes = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(|name| environment.get(name))
        .map(PathBuf::from)
        .chain([home.join(".local")])
        .chain(OF_SYSTEM.map(PathBuf::from))
        .map(|prefix| prefix.join(IN_PREFIX));
    [PathBuf::from(OURS)]
        .into_iter()
        .chain(named)
        .chain(in_prefixes)
        // A relative path would depend on where the agent happens to be.
        .filter(|directory| directory.is_absolute())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_come_first_and_the_systems_last() {
        let environment = BTreeMap::from(
            [
                ("VIRTUAL_ENV", "/opt/venv"),
                ("JUPYTER_PATH", "/a:/b:relative"),
                ("CONDA_PREFIX", ""),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        assert_eq!(
            search_path(&environment, Path::new("/home/user")),
            [
                "/usr/local/share/skep/kernels",
                "/a/kernels",
                "/b/kernels",
                "/opt/venv/share/jupyter/kernels",
                "/home/user/.local/share/jupyter/kernels",
                "/usr/local/share/jupyter/kernels",
                "/usr/share/jupyter/kernels",
            ]
            .map(PathBuf::from)
        );
    }
}
