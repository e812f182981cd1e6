//! A lease for the doctor: all that can be lent without an installation.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::directory::SandboxDirectory;
use crate::disk::Disks;
use crate::instance;
use crate::lease::{Link, Source};

const DISK_MIB: u32 = 16;
/// The last addresses of the sandboxes' range, which no server gives to a sandbox.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 253);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 254);

/// A lease for the trial of a launch: a directory, a disk, ids and a link that no server uses.
///
/// It claims no instance number and has no cgroups, so that it disturbs no server that runs.
/// Everything is removed when it is dropped.
#[derive(Debug)]
pub struct TrialLease {
    directory: SandboxDirectory,
}

impl TrialLease {
    /// Makes the directory, below `data_dir`, and the disk. Blocks.
    ///
    /// # Errors
    ///
    /// If the data directory is missing and cannot be made, or has no space.
    pub fn acquire(data_dir: &Path) -> Result<Self, Source> {
        fs::create_dir_all(data_dir)?;
        let path = data_dir.join(format!("probe-{}", std::process::id()));
        let lease = Self {
            directory: SandboxDirectory::at(path),
        };
        lease.directory.create()?;
        fs::create_dir(lease.layer())?;
        let disks = Disks::new(lease.directory.path().join("disks"), 0, None)?;
        disks.make(&lease.image(), DISK_MIB)?;
        Ok(lease)
    }

    /// An empty directory on which mounts can be put together.
    pub fn staging(&self) -> PathBuf {
        self.directory.staging()
    }

    /// An empty directory that serves as a layer.
    pub fn layer(&self) -> PathBuf {
        self.directory.path().join("layer")
    }

    /// The file of the disk, which is mounted in the trial: that is part of it.
    pub fn image(&self) -> PathBuf {
        self.directory.image()
    }

    /// The host's id for user and group 0.
    pub fn first_id(&self) -> u32 {
        *instance::all_ids().start()
    }

    /// The host's end of the link.
    pub fn link(&self) -> Link {
        Link {
            interface: format!("skepprobe{}", std::process::id() % 100_000),
            group: 0,
        }
    }

    /// Address of the sandbox.
    pub fn address(&self) -> Ipv4Addr {
        ADDRESS
    }

    /// Address of the default gateway.
    pub fn gateway(&self) -> Ipv4Addr {
        GATEWAY
    }
}

impl Drop for TrialLease {
    fn drop(&mut self) {
        if let Err(error) = self.directory.remove() {
            let path = self.directory.path().display();
            tracing::warn!(%error, directory = %path, "a directory of the probe is left");
        }
    }
}
