//! The directories of one watch, and what has happened in them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::FileType;
use rustix::fs::inotify::{ReadFlags, WatchFlags, remove_watch};
use rustix::io::Errno;
use skep_wire::rpc::filesystem::{EntryInfo, EventType, FilesystemEvent};

use super::kernel_event::KernelEvent;
use super::{Gap, Wanted};
use crate::filesystem::entry;
use crate::path;
use crate::rootfs::{Directory, Name};
use crate::users::Accounts;

/// Events that wait to be taken; the kernel's own queue is as long.
const MAX_PENDING: usize = 16_384;

#[derive(Debug)]
pub(super) struct Tree {
    /// The watched directory. What is below it is reached from here, and not through links.
    root: Directory,
    wanted: Wanted,
    accounts: Accounts,
    /// Paths by the kernel's number, relative to the watched directory, which is empty itself.
    directories: HashMap<i32, String>,
    /// Told from a look inside; if the kernel tells of it too, that is the same event.
    announced: HashSet<(i32, String)>,
    pending: Vec<FilesystemEvent>,
    gap: Option<Gap>,
}

impl Tree {
    pub(super) fn new(root: Directory, wanted: Wanted, accounts: Accounts) -> Self {
        Self {
            root,
            wanted,
            accounts,
            directories: HashMap::new(),
            announced: HashSet::new(),
            pending: Vec::new(),
            gap: None,
        }
    }

    /// Watches the directory and, if wanted, all below.
    pub(super) fn plant(&mut self, queue: &OwnedFd) -> Result<(), Errno> {
        self.watch(queue, "")?;
        if self.wanted.recursive {
            self.follow(queue, "", Look::Silent);
        }
        match self.gap.take() {
            Some(_) => Err(Errno::NOSPC),
            None => Ok(()),
        }
    }

    /// What has happened since the last time, or that something of it is not known.
    pub(super) fn take(&mut self) -> Result<Vec<FilesystemEvent>, Gap> {
        match self.gap.take() {
            Some(gap) => Err(gap),
            None => Ok(std::mem::take(&mut self.pending)),
        }
    }

    /// Interprets a note of the kernel.
    pub(super) fn apply(&mut self, queue: &OwnedFd, event: &KernelEvent) {
        if event.what.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.gap = Some(Gap::Overflow);
        }
        if event.what.contains(ReadFlags::IGNORED) {
            self.directories.remove(&event.watch);
            self.announced.retain(|(watch, _)| *watch != event.watch);
            return;
        }
        let Some(directory) = self.directories.get(&event.watch) else {
            return;
        };
        let name = match &event.name {
            Some(name) if directory.is_empty() => name.clone(),
            Some(name) => path::join(directory, name),
            None if directory.is_empty() => ".".to_owned(),
            // What happens to a directory below is told by the one above it.
            None => return,
        };
        self.tell(event, &name);
        if self.wanted.recursive && event.what.contains(ReadFlags::ISDIR) && event.name.is_some() {
            self.rearrange(queue, event.what, &name);
        }
    }

    fn tell(&mut self, event: &KernelEvent, name: &str) {
        let happened = |flags: ReadFlags| event.what.intersects(flags);
        let known = event.name.as_ref().map(|name| (event.watch, name.clone()));
        let announced = known.is_some_and(|known| {
            let gone = happened(ReadFlags::DELETE | ReadFlags::MOVED_FROM | ReadFlags::CREATE);
            if gone {
                self.announced.remove(&known)
            } else {
                false
            }
        });
        if happened(ReadFlags::CREATE | ReadFlags::MOVED_TO) && !announced {
            self.push(name, EventType::EVENT_TYPE_CREATE);
        }
        if happened(ReadFlags::MOVED_FROM | ReadFlags::MOVE_SELF) {
            self.push(name, EventType::EVENT_TYPE_RENAME);
        }
        if happened(ReadFlags::ATTRIB) {
            self.push(name, EventType::EVENT_TYPE_CHMOD);
        }
        if happened(ReadFlags::MODIFY) {
            self.push(name, EventType::EVENT_TYPE_WRITE);
        }
        if happened(ReadFlags::DELETE | ReadFlags::DELETE_SELF) {
            self.push(name, EventType::EVENT_TYPE_REMOVE);
        }
    }

    /// Follows a directory that came, and lets go of one that was moved away.
    fn rearrange(&mut self, queue: &OwnedFd, what: ReadFlags, name: &str) {
        if what.contains(ReadFlags::MOVED_FROM) {
            let below = format!("{name}/");
            let gone = |path: &String| path == name || path.starts_with(&below);
            let gone: Vec<i32> = self
                .directories
                .iter()
                .filter(|(_, path)| gone(path))
                .map(|(watch, _)| *watch)
                .collect();
            for watch in gone {
                self.directories.remove(&watch);
                if let Err(error) = remove_watch(queue, watch) {
                    tracing::debug!(%error, "a watch was gone already");
                }
            }
        }
        let look = if what.contains(ReadFlags::CREATE) {
            Look::Announce
        } else if what.contains(ReadFlags::MOVED_TO) {
            Look::Silent
        } else {
            return;
        };
        match self.watch(queue, name) {
            Ok(_) => self.follow(queue, name, look),
            Err(Errno::NOSPC | Errno::NOMEM) => self.gap = Some(Gap::Limit),
            // It is gone again.
            Err(error) => tracing::debug!(%error, "a new directory cannot be watched"),
        }
    }

    fn watch(&mut self, queue: &OwnedFd, relative: &str) -> Result<i32, Errno> {
        let failed = |error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let directory = self.root.below(relative).map_err(failed)?;
        // What the kernel makes up does not tell of changes, and there is much of it under `/`.
        if !relative.is_empty() && directory.is_virtual().unwrap_or(true) {
            return Err(Errno::OPNOTSUPP);
        }
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::ATTRIB
            | WatchFlags::MODIFY
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let watch = directory.watch(queue, flags)?;
        self.directories.insert(watch, relative.to_owned());
        Ok(watch)
    }

    /// Watches all directories below one that is watched, and tells what is in them if it may
    /// have come before the watch.
    fn follow(&mut self, queue: &OwnedFd, relative: &str, look: Look) {
        let mut pending = vec![relative.to_owned()];
        while let Some(directory) = pending.pop() {
            for (name, is_directory) in self.children(&directory) {
                let child = if directory.is_empty() {
                    name.clone()
                } else {
                    path::join(&directory, &name)
                };
                if let Look::Announce = look {
                    self.announce(&directory, &name, &child);
                }
                if !is_directory {
                    continue;
                }
                match self.watch(queue, &child) {
                    Ok(_) => pending.push(child),
                    Err(Errno::NOSPC | Errno::NOMEM) => self.gap = Some(Gap::Limit),
                    Err(error) => tracing::debug!(%error, "a directory left before it was watched"),
                }
            }
        }
    }

    fn announce(&mut self, directory: &str, name: &str, child: &str) {
        let watch = self
            .directories
            .iter()
            .find(|(_, path)| *path == directory)
            .map(|(watch, _)| *watch);
        if let Some(watch) = watch
            && self.announced.insert((watch, name.to_owned()))
        {
            self.push(child, EventType::EVENT_TYPE_CREATE);
        }
    }

    fn push(&mut self, name: &str, kind: EventType) {
        if self.pending.len() >= MAX_PENDING {
            self.pending.clear();
            self.gap = Some(Gap::Overflow);
        }
        let describable = !matches!(
            kind,
            EventType::EVENT_TYPE_REMOVE | EventType::EVENT_TYPE_RENAME
        );
        let entry = (self.wanted.include_entry && describable)
            .then(|| self.describe(name).ok())
            .flatten();
        self.pending.push(FilesystemEvent {
            name: name.to_owned(),
            r#type: kind.into(),
            entry: entry.into(),
        });
    }

    fn describe(&self, relative: &str) -> io::Result<EntryInfo> {
        let path = match relative {
            "." => self.wanted.path.clone(),
            relative => path::join(&self.wanted.path, relative),
        };
        let (above, name) = relative.rsplit_once('/').unwrap_or(("", relative));
        let (directory, names) = (self.root.below(above)?, self.accounts.names());
        entry::describe_in(&directory, &Name::new(name)?, &path, &names)
    }

    /// What is in a directory; nothing if it is gone.
    fn children(&self, relative: &str) -> Vec<(String, bool)> {
        let entries = self.root.below(relative);
        let Ok(entries) = entries.and_then(|directory| directory.entries()) else {
            return Vec::new();
        };
        entries
            .filter_map(Result::ok)
            .map(|entry| (entry.name.shown(), entry.kind == FileType::Directory))
            .collect()
    }
}

/// Whether what is found inside a directory is news.
#[derive(Debug, Clone, Copy)]
enum Look {
    Silent,
    Announce,
}
