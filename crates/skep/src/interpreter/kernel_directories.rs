//! Directories that may hold the kernels of a sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The kernels of a template.
const OURS: &str = "/usr/local/share/skep/kernels";

/// Jupyter's kernels in an environment, a home or the system.
const IN_PREFIX: &str = "share/jupyter/kernels";

/// Prefixes of the whole system.
const OF_SYSTEM: [&str; 2] = ["/usr/local", "/usr"];

/// The directories to look into, those that win first: ours, what the variables of the sandbox
/// name, its user's, the system's.
pub(super) fn kernel_directories(
    environment: &BTreeMap<String, String>,
    home: &Path,
) -> Vec<PathBuf> {
    let named = environment.get("JUPYTER_PATH").into_iter();
    let named = named.flat_map(|paths| std::env::split_paths(paths));
    let named = named.map(|path| path.join("kernels"));
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"];
    let environments = environments
        .into_iter()
        .filter_map(|name| environment.get(name));
    let prefixes = environments.map(PathBuf::from).chain([home.join(".local")]);
    let prefixes = prefixes.chain(OF_SYSTEM.map(PathBuf::from));
    let directories = [PathBuf::from(OURS)].into_iter().chain(named);
    let directories = directories.chain(prefixes.map(|prefix| prefix.join(IN_PREFIX)));
    // A relative path would depend on where the agent happens to be.
    directories
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
        let directories = kernel_directories(&environment, Path::new("/home/user"));
        assert_eq!(
            directories,
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
