//! Volumes of this host, with loop devices and filesystems as they are.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod attacks;
mod files;
mod volumes;

use std::io::Read as _;
use std::sync::Arc;

use skep_types::VolumeId;
use skep_volume::{
    Backend, Content, ContentError, Entry, LocalVolumes, Ownership, VolumePath, WriteMode,
};

/// Owner and mode as the contract has them for files.
pub(crate) const OWNER: Ownership = Ownership {
    uid: 1000,
    gid: 1000,
    mode: 0o666,
};

/// A volume in a directory of its own.
pub(crate) struct Bed {
    pub(crate) volumes: LocalVolumes,
    pub(crate) volume: VolumeId,
    pub(crate) content: Arc<Content>,
    pub(crate) directory: tempfile::TempDir,
}

impl Bed {
    pub(crate) fn new(mebibytes: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let volumes = LocalVolumes::new(directory.path().join("volumes"), None).unwrap();
        let volume = VolumeId::random();
        volumes.make(volume, mebibytes).unwrap();
        let content = volumes.content(volume).unwrap();
        Self {
            volumes,
            volume,
            content,
            directory,
        }
    }
}

pub(crate) fn path(text: &str) -> VolumePath {
    text.parse().unwrap()
}

pub(crate) fn write(
    content: &Arc<Content>,
    at: &str,
    bytes: &[u8],
    mode: WriteMode,
) -> Result<Entry, ContentError> {
    let mut upload = content.write(&path(at), OWNER, mode)?;
    upload.write(bytes)?;
    upload.finish()
}

pub(crate) fn read(content: &Content, at: &str) -> Result<Vec<u8>, ContentError> {
    let mut download = content.read(&path(at))?;
    let mut bytes = Vec::new();
    download.file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, download.size);
    Ok(bytes)
}
