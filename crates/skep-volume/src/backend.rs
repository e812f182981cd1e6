//! Store of volumes.

use std::collections::HashSet;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use skep_types::VolumeId;

use crate::{Content, VolumeError};

/// A place for volumes. Every call blocks.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Makes an empty volume on which `mebibytes` can be written.
    ///
    /// # Errors
    ///
    /// [`VolumeError`]; nothing of it is left.
    fn make(&self, volume: VolumeId, mebibytes: u32) -> Result<(), VolumeError>;

    /// Makes a volume with what is in another at one moment. Whoever writes to that one waits
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`VolumeError`]; nothing of the new one is left.
    fn copy(&self, from: VolumeId, to: VolumeId) -> Result<(), VolumeError>;

    /// Removes a volume that no sandbox has. What is not there is removed already.
    ///
    /// # Errors
    ///
    /// [`VolumeError`].
    fn remove(&self, volume: VolumeId) -> Result<(), VolumeError>;

    /// Returns true if the files of a volume are there. An operator may have lost or moved them.
    fn is_there(&self, volume: VolumeId) -> bool;

    /// The space that a volume has and takes.
    ///
    /// # Errors
    ///
    /// [`VolumeError`].
    fn usage(&self, volume: VolumeId) -> Result<VolumeUsage, VolumeError>;

    /// The files of a volume.
    ///
    /// # Errors
    ///
    /// [`VolumeError`].
    fn content(&self, volume: VolumeId) -> Result<Arc<Content>, VolumeError>;

    /// A mount for a sandbox, attached nowhere yet; the volume is its directory [`Backend::SHOWN`].
    /// The volume stays in use for as long as that mount, or a copy of it, is somewhere.
    ///
    /// # Errors
    ///
    /// [`VolumeError`].
    fn mount(&self, volume: VolumeId) -> Result<OwnedFd, VolumeError>;

    /// Checks that the place has room for so many bytes more, beside what is reserved.
    ///
    /// # Errors
    ///
    /// [`VolumeError::NoRoom`].
    fn check_room(&self, bytes: u64) -> Result<(), VolumeError>;

    /// Removes what no living volume has: an earlier server was killed in between.
    ///
    /// # Errors
    ///
    /// [`VolumeError`].
    fn sweep(&self, living: &HashSet<VolumeId>) -> Result<(), VolumeError>;

    /// Lets go of what was held open for volumes that nobody has asked for lately.
    fn rest(&self);

    /// Bytes of the host's disk that all volumes take.
    fn bytes(&self) -> u64;
}

impl dyn Backend {
    /// Directory of a mount that is the volume. What is beside it is the server's.
    pub const SHOWN: &'static str = "data";
}

/// Space of a volume, as `df` in a sandbox shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeUsage {
    /// Bytes that can be written to an empty one.
    pub size: u64,
    /// Bytes that are taken.
    pub used: u64,
}
