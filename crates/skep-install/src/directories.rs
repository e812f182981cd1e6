//! The directories of an installation, and how to be sure that they are that.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::InstallError;

/// A file that only a data directory has.
const NUMBER: &str = "instance";
/// Entries by which a template cache is recognized: all of them must exist.
const CACHE_PARTS: [&str; 3] = ["layers", "images", "builds.lock"];
const BLOCK: u64 = 512;

/// Refuses a directory in which no server ever ran: its content is somebody's.
pub(crate) fn check_data_dir(path: &Path) -> Result<(), InstallError> {
    if !path.exists() || path.join(NUMBER).is_file() {
        return Ok(());
    }
    let mut entries = fs::read_dir(path).map_err(InstallError::failure)?;
    if entries.next().is_none() {
        return Ok(());
    }
    Err(InstallError::input(
        format!("`{}` is no data directory of Skep", path.display()),
        "`--data-dir` takes the one that the server was started with",
    ))
}

pub(crate) fn is_cache(path: &Path) -> bool {
    CACHE_PARTS.iter().all(|part| path.join(part).exists())
}

/// Removes a file, or a directory with everything in it. What is gone already is no error.
pub(crate) fn remove(path: &Path) -> Result<(), InstallError> {
    if is_cache(path) {
        check_no_build(path)?;
    }
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|error| {
            InstallError::failure(error)
                .hint(format!("cannot remove `{}`; run it again", path.display()))
        }),
    }
}

fn check_no_build(cache: &Path) -> Result<(), InstallError> {
    let lock = fs::File::open(cache.join("builds.lock")).map_err(InstallError::failure)?;
    lock.try_lock().map_err(|_| {
        InstallError::input(
            format!("a template is being built in `{}`", cache.display()),
            "wait for it, and run this again",
        )
    })
}

/// Disk usage of a directory, for display.
pub(crate) fn size(path: &Path) -> Result<String, InstallError> {
    let bytes = disk_use(path).map_err(InstallError::failure)?;
    let mebibytes = bytes.div_ceil(1 << 20);
    Ok(if mebibytes < 10 * 1024 {
        format!("{mebibytes} MiB")
    } else {
        format!("{} GiB", mebibytes / 1024)
    })
}

fn disk_use(path: &Path) -> io::Result<u64> {
    let metadata = match fs::symlink_metadata(path) {
        // A file that was there a moment ago.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        metadata => metadata?,
    };
    let mut bytes = metadata.blocks() * BLOCK;
    if metadata.is_dir() {
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(bytes),
            entries => entries?,
        };
        for entry in entries {
            bytes += disk_use(&entry?.path())?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_which_no_server_ran_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        check_data_dir(&path.join("missing")).unwrap();
        check_data_dir(path).unwrap();
        fs::write(path.join("thesis.tex"), "").unwrap();
        let refused = check_data_dir(path).unwrap_err();
        assert_eq!(refused.cause, crate::Cause::Operator);
        fs::write(path.join(NUMBER), "3").unwrap();
        check_data_dir(path).unwrap();
    }

    #[test]
    fn a_cache_in_which_something_is_built_stays() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("cache");
        for part in CACHE_PARTS {
            assert!(!is_cache(&cache));
            fs::create_dir_all(&cache).unwrap();
            fs::write(cache.join(part), "").unwrap();
        }
        let lock = fs::File::open(cache.join("builds.lock")).unwrap();
        lock.lock().unwrap();
        remove(&cache).unwrap_err();
        assert!(is_cache(&cache));
        drop(lock);
        remove(&cache).unwrap();
        remove(&cache).unwrap();
        assert!(!cache.exists());
    }
}
