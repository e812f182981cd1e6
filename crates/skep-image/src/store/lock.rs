//! Locks between processes. The kernel gives them back when their holder dies.

use std::fs::File;
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
        let file = open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(LockOutcome::Held(Self { _file: file })),
            Err(Errno::WOULDBLOCK) => Ok(LockOutcome::Busy),
            Err(error) => Err(StoreError::files("lock", path)(error.into())),
        }
    }

    /// Takes the lock alone and waits until it can be had.
    pub(super) fn exclusive(path: &Path) -> Result<Self, StoreError> {
        let file = open(path)?;
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|error| StoreError::files("lock", path)(error.into()))?;
        Ok(Self { _file: file })
    }
}

fn open(path: &Path) -> Result<File, StoreError> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(StoreError::files("open", path))
}
