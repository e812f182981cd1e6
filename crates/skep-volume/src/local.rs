//! Volumes on this host: a file for each, which holds a filesystem.
//!
//! The file is sparse, so it takes as much of the host's disk as was written. Its filesystem is
//! mounted while somebody uses it: by the server, nowhere, to handle files; and in sandboxes. All of
//! them use one loop device, because the kernel's view of a filesystem belongs to its device. Sandboxes
//! outlive the server, so a new server looks for the device before it makes one.

mod image;
mod sweeps;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use skep_linux::{FrozenFilesystem, LoopDevice};
use skep_types::{Reserve, VolumeId};

use crate::{Backend, Content, VolumeError, VolumeUsage};

use sweeps::Sweeps;

/// Time for which a volume that nobody asks for stays mounted.
const IDLE: Duration = Duration::from_mins(1);
/// Name of the directory beside the volume in which the server works.
const STAGING: &str = "staging";
const EXTENSION: &str = "ext4";
const UNFINISHED: &str = "making";
const BLOCK: u64 = 512;

/// Volumes in a directory of this host.
#[derive(Debug)]
pub struct LocalVolumes {
    directory: PathBuf,
    /// The part of the host's disk that is left free; `None` if nothing is.
    reserve: Option<Reserve>,
    /// Volumes that are mounted for the server, or may be. Never held while anything waits.
    mounted: Mutex<HashMap<VolumeId, Place>>,
    sweeps: Sweeps,
    /// Set when the server stops.
    stopping: Arc<AtomicBool>,
}

/// The place of one volume. Held while it is mounted, so that it gets one device; whoever works on
/// another volume does not wait for what sandboxes have left in this one.
type Place = Arc<Mutex<Option<Mounted>>>;

/// A volume that the server has mounted.
#[derive(Debug)]
struct Mounted {
    device: LoopDevice,
    mount: OwnedFd,
    content: Arc<Content>,
    used_at: Instant,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.content.close();
    }
}

impl LocalVolumes {
    /// Volumes in this directory, which is made if need be.
    ///
    /// # Errors
    ///
    /// If the directory cannot be made.
    pub fn new(directory: PathBuf, reserve: Option<Reserve>) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&directory)?;
        Ok(Self {
            directory,
            reserve,
            mounted: Mutex::default(),
            sweeps: Sweeps::default(),
            stopping: Arc::default(),
        })
    }

    /// Ends removals that go on, because the server stops. What they leave is out of sight, and
    /// removed when its volume is next opened.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    fn image(&self, volume: VolumeId) -> PathBuf {
        self.directory.join(format!("{volume}.{EXTENSION}"))
    }

    fn place(&self, volume: VolumeId) -> Place {
        Arc::clone(self.mounted.lock().entry(volume).or_default())
    }

    /// Works on a volume that is mounted, or is now.
    fn with<T>(
        &self,
        volume: VolumeId,
        work: impl FnOnce(&Mounted) -> Result<T, VolumeError>,
    ) -> Result<T, VolumeError> {
        let place = self.place(volume);
        let mut place = place.lock();
        let mounted = match place.as_mut() {
            Some(mounted) => mounted,
            None => {
                let mounted = self.open(volume);
                place.insert(mounted.map_err(VolumeError::host("mount a volume"))?)
            }
        };
        mounted.used_at = Instant::now();
        work(mounted)
    }

    /// Mounts a volume. What earlier servers left in it is removed beside its use: it may be much, and
    /// whoever makes a sandbox with the volume does not wait for it.
    fn open(&self, volume: VolumeId) -> io::Result<Mounted> {
        let mounted = mount(&self.image(volume), Arc::clone(&self.stopping))?;
        if mounted.content.needs_sweep()? {
            self.sweeps.begin(&mounted.content);
        }
        Ok(mounted)
    }

    /// Makes the file of a volume under another name first, so that a crash leaves no half.
    fn make_with(
        &self,
        volume: VolumeId,
        work: impl FnOnce(&Path) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let path = self.image(volume);
        let unfinished = path.with_extension(UNFINISHED);
        let made = work(&unfinished).and_then(|()| {
            let rename = || {
                fs::rename(&unfinished, &path)?;
                fs::File::open(&self.directory)?.sync_all()
            };
            rename().map_err(VolumeError::host("name a volume"))
        });
        made.inspect_err(|_| {
            if let Err(error) = fs::remove_file(&unfinished)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, %volume, "cannot remove incomplete volume until the next start");
            }
        })
    }

    fn files(&self) -> io::Result<Vec<fs::DirEntry>> {
        fs::read_dir(&self.directory)?.collect()
    }
}

impl Backend for LocalVolumes {
    fn make(&self, volume: VolumeId, mebibytes: u32) -> Result<(), VolumeError> {
        self.check_room(0)?;
        self.make_with(volume, |path| image::make(path, mebibytes))
    }

    fn copy(&self, from: VolumeId, to: VolumeId) -> Result<(), VolumeError> {
        let source = self.image(from);
        let used = fs::metadata(&source).map_err(VolumeError::host("look at a volume"))?;
        self.check_room(used.blocks() * BLOCK)?;
        // Held until the end, so that it stays mounted: to mount what is frozen would wait.
        let (directory, _content) = self.with(from, |mounted| {
            let opened =
                open_directory(&mounted.mount).map_err(VolumeError::host("open a volume"))?;
            Ok((opened, Arc::clone(&mounted.content)))
        })?;
        self.make_with(to, |path| {
            let copy = || {
                let target = image::create(path)?;
                let frozen = FrozenFilesystem::freeze(directory.into())?;
                let copied = skep_linux::copy_sparse(&fs::File::open(&source)?, &target);
                drop(frozen);
                copied?;
                target.sync_all()
            };
            copy().map_err(VolumeError::host("copy a volume"))
        })
    }

    fn remove(&self, volume: VolumeId) -> Result<(), VolumeError> {
        // Held until the file is gone, so that nobody mounts it once more.
        let place = self.place(volume);
        let mut place = place.lock();
        *place = None;
        match fs::remove_file(self.image(volume)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(VolumeError::host("remove a volume")(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn is_there(&self, volume: VolumeId) -> bool {
        self.image(volume).is_file()
    }

    fn usage(&self, volume: VolumeId) -> Result<VolumeUsage, VolumeError> {
        let found = self.with(volume, |mounted| {
            let found = rustix::fs::fstatvfs(&mounted.mount);
            found.map_err(|errno| VolumeError::host("look at a volume")(errno.into()))
        })?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(VolumeUsage {
            size: bytes(found.f_blocks),
            used: bytes(found.f_blocks.saturating_sub(found.f_bfree)),
        })
    }

    fn content(&self, volume: VolumeId) -> Result<Arc<Content>, VolumeError> {
        self.with(volume, |mounted| Ok(Arc::clone(&mounted.content)))
    }

    fn mount(&self, volume: VolumeId) -> Result<OwnedFd, VolumeError> {
        self.with(volume, |mounted| {
            let mount = skep_linux::mount_data_disk(&mounted.device);
            mount.map_err(VolumeError::host("mount a volume for a sandbox"))
        })
    }

    fn check_room(&self, bytes: u64) -> Result<(), VolumeError> {
        let Some(reserve) = self.reserve else {
            return Ok(());
        };
        let found = rustix::fs::statvfs(&self.directory)
            .map_err(|errno| VolumeError::host("look at the disk")(errno.into()))?;
        let total = found.f_blocks.saturating_mul(found.f_frsize);
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        if bytes.saturating_add(reserve.of(total)) <= free {
            Ok(())
        } else {
            Err(VolumeError::NoRoom(bytes))
        }
    }

    fn sweep(&self, living: &HashSet<VolumeId>) -> Result<(), VolumeError> {
        let files = self
            .files()
            .map_err(VolumeError::host("list the volumes"))?;
        for file in files {
            let path = file.path();
            let volume = path
                .file_stem()
                .and_then(|stem| stem.to_str()?.parse().ok());
            let is_finished = path.extension().is_some_and(|found| found == EXTENSION);
            if is_finished && volume.is_some_and(|volume| living.contains(&volume)) {
                thaw(&path);
                continue;
            }
            tracing::info!(path = %path.display(), "removing what is left of a volume");
            fs::remove_file(&path).map_err(VolumeError::host("remove what is left of a volume"))?;
        }
        Ok(())
    }

    fn rest(&self) {
        let places: Vec<Place> = self.mounted.lock().values().cloned().collect();
        for place in places {
            // Whoever has it uses it.
            if let Some(mut mounted) = place.try_lock() {
                mounted.take_if(|mounted| {
                    mounted.used_at.elapsed() >= IDLE && Arc::strong_count(&mounted.content) == 1
                });
            }
        }
        (self.mounted.lock()).retain(|_, place| {
            Arc::strong_count(place) > 1 || place.try_lock().is_none_or(|found| found.is_some())
        });
    }

    fn bytes(&self) -> u64 {
        let sizes = self
            .files()
            .unwrap_or_default()
            .into_iter()
            .filter_map(|file| Some(file.metadata().ok()?.blocks() * BLOCK));
        sizes.sum()
    }
}

/// Mounts a volume nowhere, with the device that it has already, or a new one.
fn mount(path: &Path, stopping: Arc<AtomicBool>) -> io::Result<Mounted> {
    let device = match skep_linux::attached_loop_device(path)? {
        Some(device) => device,
        None => {
            let image = fs::File::options().read(true).write(true).open(path)?;
            skep_linux::attach_loop_device(image.as_fd())?
        }
    };
    let mount = skep_linux::mount_data_disk(&device)?;
    let place = |name: &str, mode: u32, owner: u32| -> io::Result<OwnedFd> {
        use rustix::fs::{AtFlags, Gid, Uid, chmodat, chownat, mkdirat, openat};
        use rustix::io::Errno;
        match mkdirat(&mount, name, Mode::RWXU) {
            Ok(()) => {
                let (uid, gid) = (Uid::from_raw(owner), Gid::from_raw(owner));
                chownat(&mount, name, Some(uid), Some(gid), AtFlags::empty())?;
                chmodat(&mount, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&mount, name, flags, Mode::empty())?)
    };
    // Everybody in a sandbox may write to a new volume, as the contract has it.
    let root = place(<dyn Backend>::SHOWN, 0o777, image::OWNER)?;
    let staging = place(STAGING, 0o700, 0)?;
    Ok(Mounted {
        content: Arc::new(Content::new(root, staging, stopping)),
        device,
        mount,
        used_at: Instant::now(),
    })
}

fn open_directory(mount: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(mount, ".", flags, Mode::empty())?)
}

/// Lets sandboxes write again to a volume that a killed server was copying.
fn thaw(path: &Path) {
    let thaw = || -> io::Result<()> {
        if let Some(device) = skep_linux::attached_loop_device(path)? {
            let directory = open_directory(&skep_linux::mount_data_disk(&device)?)?;
            match skep_linux::thaw_filesystem(directory.as_fd()) {
                // It was not frozen.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                thawed => thawed?,
            }
        }
        Ok(())
    };
    if let Err(error) = thaw() {
        tracing::warn!(path = %path.display(), %error, "cannot look whether a volume is frozen");
    }
}
