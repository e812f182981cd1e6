//! The directories of one watch, and what has happened in them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::fs::inotify::{ReadFlags, WatchFlags, remove_watch};
use rustix::io::Errno;
use skep_wire::rpc::filesystem::{EntryInfo, EventType, FilesystemEvent};

use super::kernel_event::KernelEvent;
use super::memory::{Memory, Share};
use super::{Gap, Wanted};
use crate::filesystem::{entry, size};
use crate::rootfs::{Directory, Name};
use crate::sandbox::path;
use crate::sandbox::users::{Accounts, OwnerNames};

/// Events that wait to be taken; the kernel's own queue is as long.
const MAX_PENDING: usize = 16_384;

/// Estimated size of a name beside its bytes, in the collections that are kept here.
const NAME_BYTES: usize = 64;

#[derive(Debug)]
pub(super) struct Tree {
    /// The watched directory. What is below it is reached from here, and not through links.
    root: Directory,
    wanted: Wanted,
    accounts: Accounts,
    /// The parsed account files, from the first time they are needed to the end of a reading.
    names: Option<OwnerNames>,
    /// Paths by the kernel's number, relative to the watched directory, which is empty itself.
    directories: HashMap<i32, String>,
    directories_share: Share,
    /// Told from a look inside; if the kernel tells of it too, that is the same event. It has done
    /// so when its queue is empty next time.
    announced: HashSet<(i32, String)>,
    announced_share: Share,
    pending: Batch,
    gap: Option<Gap>,
}

/// Events that wait, with the memory that they take.
#[derive(Debug)]
pub(super) struct Batch {
    events: VecDeque<FilesystemEvent>,
    share: Share,
}

impl Batch {
    fn new(memory: &Arc<Memory>) -> Self {
        Self {
            events: VecDeque::new(),
            share: Share::new(memory),
        }
    }

    /// The oldest event.
    pub(super) fn next(&mut self) -> Option<FilesystemEvent> {
        self.events.pop_front()
    }

    /// All events, the oldest first.
    pub(super) fn into_events(self) -> Vec<FilesystemEvent> {
        self.events.into()
    }

    fn take(&mut self) -> Self {
        Self {
            events: std::mem::take(&mut self.events),
            share: self.share.take(),
        }
    }

    /// Adds an event if there is room for it.
    #[must_use]
    fn push(&mut self, event: FilesystemEvent) -> bool {
        let entry = event.entry.as_option().map_or(0, size::of_entry);
        let bytes = size_of::<FilesystemEvent>() + size::of_text(&event.name) + entry;
        let has_room = self.events.len() < MAX_PENDING && self.share.grow(bytes);
        if has_room {
            self.events.push_back(event);
        }
        has_room
    }
}

impl Tree {
    pub(super) fn new(
        root: Directory,
        wanted: Wanted,
        accounts: Accounts,
        memory: &Arc<Memory>,
    ) -> Self {
        Self {
            root,
            wanted,
            accounts,
            names: None,
            directories: HashMap::new(),
            directories_share: Share::new(memory),
            announced: HashSet::new(),
            announced_share: Share::new(memory),
            pending: Batch::new(memory),
            gap: None,
        }
    }

    /// Watches the directory and, if wanted, all below.
    pub(super) fn plant(&mut self, queue: &OwnedFd) -> Result<(), Errno> {
        let watch = self.watch(queue, "")?;
        if self.wanted.recursive {
            self.follow(queue, (watch, String::new()), Look::Silent);
        }
        match self.gap.take() {
            Some(_) => Err(Errno::NOSPC),
            None => Ok(()),
        }
    }

    /// Takes the events since the last time, or the gap if some of them are not known.
    pub(super) fn take(&mut self) -> Result<Batch, Gap> {
        match self.gap.take() {
            Some(gap) => Err(gap),
            None => Ok(self.pending.take()),
        }
    }

    /// Says that the kernel has told all that had happened by now.
    pub(super) fn settle(&mut self) {
        self.announced.clear();
        drop(self.announced_share.take());
    }

    #[cfg(test)]
    pub(super) fn has_settled(&self) -> bool {
        self.announced.is_empty()
    }

    /// Says that the accounts may have changed by the next time.
    pub(super) fn forget_names(&mut self) {
        self.names = None;
    }

    /// Interprets a note of the kernel.
    pub(super) fn apply(&mut self, queue: &OwnedFd, event: &KernelEvent) {
        if event.what.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.gap = Some(Gap::Overflow);
        }
        if event.what.contains(ReadFlags::IGNORED) {
            self.let_go(event.watch);
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
                self.let_go(watch);
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
            Ok(watch) => self.follow(queue, (watch, name.to_owned()), look),
            Err(Errno::NOSPC | Errno::NOMEM) => self.gap = Some(Gap::Limit),
            // It is gone again.
            Err(error) => tracing::debug!(%error, "a new directory cannot be watched"),
        }
    }

    /// Forgets a directory that is no longer watched. What was announced in it waits until all is
    /// settled.
    fn let_go(&mut self, watch: i32) {
        if let Some(path) = self.directories.remove(&watch) {
            self.directories_share.shrink(NAME_BYTES + path.len());
        }
    }

    fn watch(&mut self, queue: &OwnedFd, relative: &str) -> Result<i32, Errno> {
        let bytes = NAME_BYTES + relative.len();
        if !self.directories_share.grow(bytes) {
            return Err(Errno::NOMEM);
        }
        let watch = self
            .watch_in_kernel(queue, relative)
            .inspect_err(|_| self.directories_share.shrink(bytes))?;
        // A directory that was watched under another name has the same number.
        self.let_go(watch);
        self.directories.insert(watch, relative.to_owned());
        Ok(watch)
    }

    fn watch_in_kernel(&self, queue: &OwnedFd, relative: &str) -> Result<i32, Errno> {
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
        directory.watch(queue, flags)
    }

    /// Watches all directories below one that is watched, and tells what is in them if it may
    /// have come before the watch.
    fn follow(&mut self, queue: &OwnedFd, watched: (i32, String), look: Look) {
        let mut pending = vec![watched];
        while let Some((watch, directory)) = pending.pop() {
            let entries = self.root.below(&directory);
            let Ok(entries) = entries.and_then(|directory| directory.entries()) else {
                // It is gone.
                continue;
            };
            for entry in entries.map_while(Result::ok) {
                let name = entry.name.shown();
                let child = match directory.as_str() {
                    "" => name.clone(),
                    above => path::join(above, &name),
                };
                if let Look::Announce = look {
                    self.announce(watch, name, &child);
                }
                if entry.kind != FileType::Directory {
                    continue;
                }
                match self.watch(queue, &child) {
                    Ok(watch) => pending.push((watch, child)),
                    Err(Errno::NOSPC | Errno::NOMEM) => {
                        self.gap = Some(Gap::Limit);
                        return;
                    }
                    Err(error) => tracing::debug!(%error, "a directory left before it was watched"),
                }
            }
        }
    }

    fn announce(&mut self, watch: i32, name: String, child: &str) {
        let bytes = NAME_BYTES + name.len();
        if !self.announced.insert((watch, name)) {
            return;
        }
        if !self.announced_share.grow(bytes) {
            self.overflow();
        }
        self.push(child, EventType::EVENT_TYPE_CREATE);
    }

    fn push(&mut self, name: &str, kind: EventType) {
        let describable = !matches!(
            kind,
            EventType::EVENT_TYPE_REMOVE | EventType::EVENT_TYPE_RENAME
        );
        let entry = (self.wanted.include_entry && describable)
            .then(|| self.describe(name).ok())
            .flatten();
        let event = FilesystemEvent {
            name: name.to_owned(),
            r#type: kind.into(),
            entry: entry.into(),
        };
        if !self.pending.push(event) {
            self.overflow();
        }
    }

    /// Gives up what nobody has taken in time, and remembers to say so.
    fn overflow(&mut self) {
        drop(self.pending.take());
        self.settle();
        self.gap = Some(Gap::Overflow);
    }

    fn describe(&mut self, relative: &str) -> io::Result<EntryInfo> {
        let path = match relative {
            "." => self.wanted.path.clone(),
            relative => path::join(&self.wanted.path, relative),
        };
        let (above, name) = relative.rsplit_once('/').unwrap_or(("", relative));
        let directory = self.root.below(above)?;
        let names = self.names.get_or_insert_with(|| self.accounts.names());
        entry::describe_in(&directory, &Name::new(name)?, &path, names)
    }
}

/// Treatment of entries found in a directory: announced as new or not.
#[derive(Debug, Clone, Copy)]
enum Look {
    Silent,
    Announce,
}
