//! Locks between processes. The kernel gives them back when their holder dies.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::StoreError;

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Result of an attempt to take a lock.
#[derive(Debug)]
pub(crate) enum LockOutcome {
    /// It is ours.
    Held(Lock),
    /// Somebody else has it.
    Busy,
}

impl Lock {
    /// Takes the lock alone if nobody has it.
    pub(super) fn try_exclusive(path: &Path) -> Result<LockOutcome, StoreError> {
        loop {
            let file = open(path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_at(&file, path)? => {
                    return Ok(LockOutcome::Held(Self { _file: file }));
                }
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(LockOutcome::Busy),
                Err(error) => return Err(StoreError::files("lock", path)(error.into())),
            }
        }
    }

    /// Takes the lock alone and waits until it can be had.
    pub(super) fn exclusive(path: &Path) -> Result<Self, StoreError> {
        loop {
            let file = open(path)?;
            flock(&file, FlockOperation::LockExclusive)
                .map_err(|error| StoreError::files("lock", path)(error.into()))?;
            if is_at(&file, path)? {
                return Ok(Self { _file: file });
            }
        }
    }
}

/// Returns true if a file is still the one at a path. Its holder removes it together with the layer,
/// and the lock of one that is gone keeps nobody out.
fn is_at(file: &File, path: &Path) -> Result<bool, StoreError> {
    let look = || {
        let (ours, there) = (file.metadata()?, std::fs::metadata(path));
        match there {
            Ok(there) => Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    };
    look().map_err(StoreError::files("look at", path))
}

fn open(path: &Path) -> Result<File, StoreError> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(StoreError::files("open", path))
}
