//! Listings of directories in volumes.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{Dir, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::{Content, DIRECTORY, Entry, EntryKind, RESOLVE};
use crate::{ContentError, VolumePath};

/// Limit on the entries of a listing, which is held in memory.
pub const MOST_ENTRIES: usize = 50_000;
/// Time of a processor for following the links of a listing: most take some microseconds, but a
/// sandbox can nest them so that each takes some milliseconds.
const FOLLOWING: Duration = Duration::from_secs(1);

impl Content {
    /// The entries of a directory, each directory followed by its own down to `depth` levels, by
    /// their names. Names that are no text are left out: no path of the contract leads to them. Links
    /// are followed while that takes no longer than a second for all of them; the others are told as
    /// links. It breaks off when `is_wanted` says no.
    ///
    /// # Errors
    ///
    /// [`ContentError`].
    pub fn list(
        &self,
        path: &VolumePath,
        depth: u32,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Vec<Entry>, ContentError> {
        let failed = || ContentError::of("list", path);
        let directory = self.directory(path).map_err(|error| {
            // The contract knows no other word for what is no directory.
            match Errno::from_io_error(&error) {
                Some(Errno::NOTDIR) => ContentError::NotFound(path.clone()),
                Some(_) | None => failed()(error),
            }
        })?;
        let mut listing = Listing {
            content: self,
            is_wanted,
            following: FOLLOWING,
            entries: Vec::new(),
        };
        listing.collect(&directory, path, depth)?;
        Ok(listing.entries)
    }
}

/// A listing that is made.
struct Listing<'a, W> {
    content: &'a Content,
    is_wanted: W,
    /// Time that is left for links.
    following: Duration,
    entries: Vec<Entry>,
}

impl<W: Fn() -> bool> Listing<'_, W> {
    fn collect(
        &mut self,
        directory: &OwnedFd,
        path: &VolumePath,
        depth: u32,
    ) -> Result<(), ContentError> {
        let failed = || ContentError::of("list", path);
        let left = MOST_ENTRIES.saturating_sub(self.entries.len());
        let mut names = names(directory, left, &self.is_wanted).map_err(failed())?;
        if names.len() > left {
            return Err(ContentError::TooMany {
                path: path.clone(),
                most: MOST_ENTRIES,
            });
        }
        names.sort_unstable();
        for name in names {
            if !(self.is_wanted)() {
                return Err(failed()(Errno::CANCELED.into()));
            }
            let below = path.join(&name);
            let content = self.content;
            let entry = match content.entry(directory, &name, &below, || self.follow(&below)) {
                Ok(entry) => entry,
                // Sandboxes delete while we look.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed()(error)),
            };
            let is_entered =
                depth > 1 && entry.kind == EntryKind::Directory && entry.target.is_none();
            self.entries.push(entry);
            if is_entered {
                match enter(directory, &name) {
                    Ok(inside) => self.collect(&inside, &below, depth - 1)?,
                    Err(errno) if is_gone(errno) => {}
                    Err(errno) => return Err(failed()(errno.into())),
                }
            }
        }
        Ok(())
    }

    /// Opens what a link leads to, if there is time left for that.
    fn follow(&mut self, path: &VolumePath) -> io::Result<OwnedFd> {
        let (root, path) = (&self.content.root, path.relative());
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        loop {
            if self.following.is_zero() || !(self.is_wanted)() {
                return Err(Errno::CANCELED.into());
            }
            let began = time_of_thread();
            let found = openat2(root, path.as_str(), flags, Mode::empty(), RESOLVE);
            let taken = time_of_thread().saturating_sub(began);
            self.following = self.following.saturating_sub(taken);
            // The kernel wants to be asked again, because somebody has renamed something.
            if !matches!(found, Err(Errno::AGAIN | Errno::INTR)) {
                return Ok(found?);
            }
        }
    }
}

/// Time that this thread has had of a processor.
fn time_of_thread() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Opens a directory that is in another, where that is now. Unlike the way from the root, this one
/// takes no time, whatever links the path has.
fn enter(directory: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = RESOLVE | ResolveFlags::NO_SYMLINKS;
    openat2(directory, name, flags, Mode::empty(), resolve)
}

fn is_gone(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP
    )
}

/// The names in a directory, and no more than one beyond `most`.
fn names(
    directory: &OwnedFd,
    most: usize,
    is_wanted: &impl Fn() -> bool,
) -> io::Result<Vec<String>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut reading = Dir::new(rustix::fs::openat(directory, ".", flags, Mode::empty())?)?;
    let mut names = Vec::new();
    while let Some(found) = reading.read() {
        if !is_wanted() {
            return Err(Errno::CANCELED.into());
        }
        let found = found?;
        let Ok(name) = found.file_name().to_str() else {
            continue;
        };
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
        if names.len() > most {
            break;
        }
    }
    Ok(names)
}
