//! The local operator's key.
//!
//! The database keeps only hashes, but `skep up` must print the same key every time. So this one
//! key also lies in a file that only the owner of the data directory can read.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use skep_cli::CliError;
use skep_control::{ApiKey, Control, KeyError, MalformedKey};

/// Name of the key in the list of keys.
pub const NAME: &str = "local operator";

/// Path of the local operator's key.
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("local-key")
}

/// Reads the local key below `data_dir`.
///
/// # Errors
///
/// If there is none or it cannot be read.
pub fn read(data_dir: &Path) -> anyhow::Result<String> {
    let path = path(data_dir);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("cannot read the local key `{}`", path.display()))?;
    Ok(text.trim().to_owned())
}

/// Reads the local key, or keeps the one that `make` makes.
///
/// # Errors
///
/// If it can be neither read nor written.
pub fn read_or_create(data_dir: &Path, make: impl FnOnce() -> String) -> anyhow::Result<String> {
    let path = path(data_dir);
    let new = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    match new {
        Ok(mut file) => {
            let key = make();
            writeln!(file, "{key}")
                .with_context(|| format!("cannot write the local key `{}`", path.display()))?;
            Ok(key)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(data_dir),
        Err(error) => {
            Err(error).with_context(|| format!("cannot create the local key `{}`", path.display()))
        }
    }
}

/// Puts another key in the place of the local key. Whoever reads it finds the old or the new one.
///
/// # Errors
///
/// If it cannot be written; the old one is still there then.
pub fn replace(data_dir: &Path, key: &str) -> anyhow::Result<()> {
    let path = path(data_dir);
    let replaced = || -> io::Result<()> {
        // Its mode is that of a file that only its owner reads.
        let mut draft = tempfile::NamedTempFile::new_in(data_dir)?;
        writeln!(draft, "{key}")?;
        draft.as_file().sync_all()?;
        draft.persist(&path)?;
        Ok(())
    };
    replaced().with_context(|| format!("cannot write the local key `{}`", path.display()))
}

/// Returns the key in the data directory, which is made on the first start, and makes it known to the database.
///
/// # Errors
///
/// If it can be neither read, made nor registered.
pub async fn register(data_dir: &Path, control: &Control) -> Result<String, CliError> {
    let make = || ApiKey::random().reveal().to_owned();
    let text = read_or_create(data_dir, make).map_err(CliError::failure)?;
    let key = text.parse().map_err(|error: MalformedKey| {
        let path = path(data_dir);
        CliError::failure(error).hint(format!("remove `{}`; a new key is made", path.display()))
    })?;
    let team = control.default_team().await.map_err(CliError::failure)?;
    match control.register_key(&team, NAME, &key).await {
        Ok(()) => return Ok(text),
        Err(KeyError::Revoked) => {}
        Err(error) => return Err(CliError::failure(error)),
    }
    // Whoever revoked it wanted it dead, and the operator is not to be locked out.
    let new = ApiKey::random();
    let registering = control.register_key(&team, NAME, &new);
    registering.await.map_err(CliError::failure)?;
    replace(data_dir, new.reveal()).map_err(CliError::failure)?;
    tracing::warn!("the local operator's key was revoked, and a new one is in its place");
    Ok(new.reveal().to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_key_is_made_once_and_only_its_owner_can_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let first = read_or_create(directory.path(), || "e2b_1".to_owned()).unwrap();
        let second = read_or_create(directory.path(), || "e2b_2".to_owned()).unwrap();
        assert_eq!((first.as_str(), second.as_str()), ("e2b_1", "e2b_1"));
        let mode = fs::metadata(path(directory.path()))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn another_key_takes_its_place_and_is_as_private() {
        let directory = tempfile::tempdir().unwrap();
        read_or_create(directory.path(), || "e2b_1".to_owned()).unwrap();
        replace(directory.path(), "e2b_2").unwrap();
        assert_eq!(read(directory.path()).unwrap(), "e2b_2");
        let mode = fs::metadata(path(directory.path()))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let files = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, 1, "no draft is left");
    }
}
