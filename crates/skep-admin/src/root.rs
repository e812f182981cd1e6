//! Commands that only root can do say so before anything else.

use std::path::Path;

use skep_cli::CliError;

/// Fails unless this is root.
///
/// # Errors
///
/// With how to run `skep COMMAND` as root.
pub fn require(command: &str) -> Result<(), CliError> {
    if is_root() {
        return Ok(());
    }
    Err(needed(command))
}

/// Fails if this is not root, and `path` cannot be looked at without being root.
///
/// # Errors
///
/// With how to run `skep COMMAND` as root.
pub fn require_for(command: &str, path: &Path) -> Result<(), CliError> {
    let looked = std::fs::metadata(path).and_then(|found| {
        if found.is_dir() {
            std::fs::read_dir(path).map(drop)
        } else {
            std::fs::File::open(path).map(drop)
        }
    });
    match looked {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && !is_root() => {
            Err(needed(command))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn needed(command: &str) -> CliError {
    CliError::input(
        format!("`skep {command}` needs root"),
        format!("run `sudo skep {command}`"),
    )
}
