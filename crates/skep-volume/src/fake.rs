//! Volumes for tests: directories without a size.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use skep_types::VolumeId;

use crate::{Backend, Content, VolumeError, VolumeUsage};

/// Volumes that are plain directories. No sandbox can have one.
#[derive(Debug)]
pub struct FakeVolumes {
    directory: PathBuf,
}

impl Default for FakeVolumes {
    fn default() -> Self {
        let name = format!("skep-fake-volumes-{}", VolumeId::random());
        let directory = std::env::temp_dir().join(name);
        Self { directory }
    }
}

impl Drop for FakeVolumes {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.directory).ok();
    }
}

impl FakeVolumes {
    /// The directory that a sandbox would see.
    pub fn shown(&self, volume: VolumeId) -> PathBuf {
        self.place(volume).join(<dyn Backend>::SHOWN)
    }

    fn place(&self, volume: VolumeId) -> PathBuf {
        self.directory.join(volume.to_string())
    }
}

impl Backend for FakeVolumes {
    fn make(&self, volume: VolumeId, _mebibytes: u32) -> Result<(), VolumeError> {
        let make = || {
            fs::create_dir_all(self.place(volume).join(<dyn Backend>::SHOWN))?;
            fs::create_dir_all(self.place(volume).join("staging"))
        };
        make().map_err(VolumeError::host("make a volume"))
    }

    fn copy(&self, from: VolumeId, to: VolumeId) -> Result<(), VolumeError> {
        self.make(to, 0)?;
        let copy = || -> io::Result<()> {
            for file in fs::read_dir(self.place(from).join(<dyn Backend>::SHOWN))? {
                let file = file?;
                let target = self.place(to).join(<dyn Backend>::SHOWN);
                fs::copy(file.path(), target.join(file.file_name()))?;
            }
            Ok(())
        };
        copy().map_err(VolumeError::host("copy a volume"))
    }

    fn remove(&self, volume: VolumeId) -> Result<(), VolumeError> {
        fs::remove_dir_all(self.place(volume)).map_err(VolumeError::host("remove a volume"))
    }

    fn is_there(&self, volume: VolumeId) -> bool {
        self.place(volume).is_dir()
    }

    fn usage(&self, _volume: VolumeId) -> Result<VolumeUsage, VolumeError> {
        Ok(VolumeUsage {
            size: 1 << 30,
            used: 4096,
        })
    }

    fn content(&self, volume: VolumeId) -> Result<Arc<Content>, VolumeError> {
        let open = |name: &str| -> io::Result<OwnedFd> {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(rustix::fs::open(
                self.place(volume).join(name),
                flags,
                Mode::empty(),
            )?)
        };
        let content = || {
            let (root, staging) = (open(<dyn Backend>::SHOWN)?, open("staging")?);
            Ok::<_, io::Error>(Content::new(root, staging, Arc::default()))
        };
        Ok(Arc::new(
            content().map_err(VolumeError::host("open a volume"))?,
        ))
    }

    fn mount(&self, _volume: VolumeId) -> Result<OwnedFd, VolumeError> {
        let error = io::ErrorKind::Unsupported.into();
        Err(VolumeError::host("mount a volume of a test")(error))
    }

    fn check_room(&self, _bytes: u64) -> Result<(), VolumeError> {
        Ok(())
    }

    fn sweep(&self, _living: &HashSet<VolumeId>) -> Result<(), VolumeError> {
        Ok(())
    }

    fn rest(&self) {}

    fn bytes(&self) -> u64 {
        0
    }
}
