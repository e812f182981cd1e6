//! Removal of what earlier servers have left in the staging directory.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstatvfs, openat, unlinkat};
use rustix::io::Errno;

use super::Content;

/// Names that are removed beside twice the number of the volume's files.
const SPARE_NAMES: u64 = 100_000;

impl Content {
    /// Says whether what begins now removes one name more: no more than a volume with as many files can
    /// have had, some with more names than one, and none when the server stops.
    pub(super) fn bound(&self) -> io::Result<impl FnMut() -> bool> {
        let volume = fstatvfs(&self.staging)?;
        let files = volume.f_files.saturating_sub(volume.f_ffree);
        let mut left = files.saturating_mul(2).saturating_add(SPARE_NAMES);
        Ok(move || {
            left = left.saturating_sub(1);
            left > 0 && !self.stopping.load(Ordering::Relaxed)
        })
    }

    /// Returns true if something is left of earlier servers.
    pub(crate) fn needs_sweep(&self) -> io::Result<bool> {
        let mut names = self.staged()?;
        Ok(names.next().transpose()?.is_some())
    }

    /// Removes what earlier servers have left, or as much of it as can be, while the volume is in use:
    /// names of this server's own are not touched. Ends early when the volume is let go of.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        let mut bound = self.bound()?;
        let mut goes_on = || bound() && !self.is_closed.load(Ordering::Relaxed);
        for name in self.staged()? {
            let name = name?;
            if !goes_on() {
                tell_of_rest();
                return Ok(());
            }
            match unlinkat(&self.staging, name.as_str(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(Errno::ISDIR | Errno::PERM) => {}
                Err(errno) => return Err(errno.into()),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let directory = openat(&self.staging, name.as_str(), flags, Mode::empty())?;
            if empty(directory, &self.staged_name(), &mut goes_on)? {
                self.remove_emptied(&name)?;
            }
        }
        Ok(())
    }

    /// Has a sweep end that goes on, because nobody uses the volume any more.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn remove_emptied(&self, staged: &str) -> io::Result<()> {
        match unlinkat(&self.staging, staged, AtFlags::REMOVEDIR) {
            // Somebody was faster once more.
            Ok(()) | Err(Errno::NOTEMPTY | Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Names in the staging directory that this server has not given.
    fn staged(&self) -> io::Result<impl Iterator<Item = io::Result<String>>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(&self.staging, ".", flags, Mode::empty())?;
        let names = Dir::new(directory)?.map(|entry| {
            let entry = entry?;
            Ok(entry.file_name().to_string_lossy().into_owned())
        });
        let is_of_others =
            |name: &String| name != "." && name != ".." && !name.starts_with(self.prefix.as_str());
        Ok(names.filter(move |name| name.as_ref().map_or(true, is_of_others)))
    }
}

/// Empties a directory of the staging directory. Returns false if something is left there, for the
/// next time that the volume is opened: sandboxes that work in a directory go on to do so when it is
/// moved here, and may make files for ever.
pub(super) fn empty(
    directory: OwnedFd,
    prefix: &str,
    goes_on: impl FnMut() -> bool,
) -> io::Result<bool> {
    match skep_linux::empty_directory_while(directory, format!("lifted-{prefix}"), goes_on) {
        Ok(()) => Ok(true),
        Err(Errno::CANCELED | Errno::NOTEMPTY) => {
            tell_of_rest();
            Ok(false)
        }
        Err(errno) => Err(errno.into()),
    }
}

fn tell_of_rest() {
    tracing::info!("a part of what was deleted in a volume is left until it is next opened");
}
