//! A layer that is being written, in the form in which the overlay file system takes it.
//!
//! What lower layers have and this one removes is a character device with the number 0:0; a
//! directory in which nothing of lower layers is left carries a mark. Everything happens below one
//! directory: the kernel resolves every path in it as if it were the root.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::members::{Change, Kind, LayerPath, Member, Sink, refused};
use super::{MOST_IMPLIED, TOO_LARGE, UnpackLimits};

/// Mark of an opaque directory for an overlay in a user namespace; the seal adds the other one.
const OPAQUE: &str = "user.overlay.opaque";
/// Symbolic links that are followed on the way to one directory that is not there yet.
const MOST_LINKS: usize = 16;
/// Directories within one another that are removed.
const DEEPEST: usize = 512;

/// A layer that is being written.
pub(super) struct Layer {
    root: OwnedFd,
    limits: UnpackLimits,
    members: u64,
    bytes: u64,
    devices: u64,
    /// Directories that were made for what is in them.
    implied: BTreeSet<LayerPath>,
    /// Names that this layer has removed from lower ones, so that a directory of such a name is
    /// opaque.
    removed: HashSet<LayerPath>,
    /// Times of directories, which change whenever something is put into them.
    times: BTreeMap<LayerPath, i64>,
    /// The directory of the last member, which is that of the next one more often than not.
    last: Option<(LayerPath, OwnedFd)>,
}

impl Layer {
    pub(super) fn new(root: OwnedFd, limits: UnpackLimits) -> Self {
        Self {
            root,
            limits,
            members: 0,
            bytes: 0,
            devices: 0,
            implied: BTreeSet::new(),
            removed: HashSet::new(),
            times: BTreeMap::new(),
            last: None,
        }
    }

    /// Sets the times of directories. Returns the number of devices that were left out, and the
    /// directories that no member has named.
    pub(super) fn finish(self) -> io::Result<(u64, Vec<String>)> {
        for (path, modified) in self.times.iter().rev() {
            // One that a later member has replaced needs no time.
            if let Ok(directory) = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY) {
                rustix::fs::futimens(&directory, &times(*modified))?;
            }
        }
        let implied = self
            .implied
            .iter()
            .filter_map(|path| String::from_utf8(path.bytes()).ok());
        Ok((self.devices, implied.collect()))
    }

    fn add(&mut self, member: &Member, content: &mut dyn Read) -> io::Result<()> {
        let Some((parent, name)) = member.path.split() else {
            let root = self.open(&member.path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            set_attributes(root.as_fd(), member)?;
            self.times.insert(member.path.clone(), member.modified);
            return Ok(());
        };
        let directory = self.directory(&parent)?;
        match &member.kind {
            Kind::Directory => self.add_directory(directory.as_fd(), name, member)?,
            Kind::File => self.add_file(directory.as_fd(), name, member, content)?,
            Kind::Fifo => {
                self.make_way(directory.as_fd(), name, &member.path)?;
                let mode = Mode::from_raw_mode(0o600);
                rustix::fs::mknodat(&directory, name, FileType::Fifo, mode, 0)?;
                own(directory.as_fd(), name, member)?;
                let mode = Mode::from_raw_mode(member.mode);
                rustix::fs::chmodat(&directory, name, mode, AtFlags::empty())?;
            }
            Kind::Symlink(target) => {
                self.make_way(directory.as_fd(), name, &member.path)?;
                rustix::fs::symlinkat(target.as_slice(), &directory, name)?;
                own(directory.as_fd(), name, member)?;
            }
            Kind::HardLink(target) => self.add_link(directory.as_fd(), name, member, target)?,
        }
        self.last = Some((parent, directory));
        Ok(())
    }

    fn add_directory(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        member: &Member,
    ) -> io::Result<()> {
        if kind_of(parent, name)? != Some(FileType::Directory) {
            self.make_way(parent, name, &member.path)?;
            rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700))?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        set_attributes(directory.as_fd(), member)?;
        if self.removed.contains(&member.path) {
            hide(directory.as_fd())?;
        }
        self.implied.remove(&member.path);
        self.times.insert(member.path.clone(), member.modified);
        Ok(())
    }

    fn add_file(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        member: &Member,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        self.make_way(parent, name, &member.path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o600))?;
        let mut file = File::from(file);
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = content.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            self.bytes += length as u64;
            if self.bytes > self.limits.bytes {
                return Err(io::Error::other(TOO_LARGE));
            }
            file.write_all(&buffer[..length])?;
        }
        set_attributes(file.as_fd(), member)?;
        rustix::fs::futimens(&file, &times(member.modified))?;
        Ok(())
    }

    fn add_link(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        member: &Member,
        target: &LayerPath,
    ) -> io::Result<()> {
        let missing = || {
            let (path, target) = (member.path.text(), target.text());
            refused(format!(
                "`{path}` is a link to `{target}`, which is not in the layer"
            ))
        };
        if member.path == *target {
            return Ok(());
        }
        let (directory, linked) = target.split().ok_or_else(missing)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let directory = self.open(&directory, flags).map_err(|_| missing())?;
        let kind = kind_of(directory.as_fd(), linked)?;
        if !matches!(
            kind,
            Some(FileType::RegularFile | FileType::Symlink | FileType::Fifo)
        ) {
            return Err(missing());
        }
        self.make_way(parent, name, &member.path)?;
        rustix::fs::linkat(&directory, linked, parent, name, AtFlags::empty()).map_err(|error| {
            match error {
                // What made way was, by another path, the target itself.
                Errno::NOENT => missing(),
                error => error.into(),
            }
        })
    }

    fn remove(&mut self, path: &LayerPath) -> io::Result<()> {
        let Some((parent, name)) = path.split() else {
            return Ok(());
        };
        let directory = self.directory(&parent)?;
        self.removed.insert(path.clone());
        match kind_of(directory.as_fd(), name)? {
            // What the same layer has brought stays; only what is below it goes.
            Some(FileType::Directory) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let found = rustix::fs::openat(&directory, name, flags, Mode::empty())?;
                hide(found.as_fd())
            }
            Some(_) => Ok(()),
            None => {
                let mode = Mode::empty();
                let device = FileType::CharacterDevice;
                rustix::fs::mknodat(&directory, name, device, mode, 0)?;
                Ok(())
            }
        }
    }

    fn hide_in(&mut self, path: &LayerPath) -> io::Result<()> {
        let directory = self.directory(path)?;
        // The descriptor of a path alone takes no attributes.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&directory, ".", flags, Mode::empty())?;
        hide(directory.as_fd())
    }

    /// Takes away what has the name of a new member, and is no directory that stays.
    fn make_way(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        path: &LayerPath,
    ) -> io::Result<()> {
        match kind_of(parent, name)? {
            None => Ok(()),
            Some(FileType::Directory) => {
                self.last = None;
                self.times
                    .retain(|other, _| !other.names().starts_with(path.names()));
                self.implied
                    .retain(|other| !other.names().starts_with(path.names()));
                remove_tree(parent, name, DEEPEST)
            }
            Some(_) => Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?),
        }
    }

    /// Opens a path of the layer. Links in it lead to places in the layer, wherever they point.
    fn open(&self, path: &LayerPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        skep_linux::retry_openat2(
            self.root.as_fd(),
            path.bytes().as_slice(),
            flags,
            Mode::empty(),
            resolve,
        )
    }

    /// The directory at `path`, which is made if it is not there.
    fn directory(&mut self, path: &LayerPath) -> io::Result<OwnedFd> {
        if let Some((last, directory)) = &self.last
            && last == path
        {
            return directory.try_clone();
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        match self.open(path, flags) {
            Ok(directory) => Ok(directory),
            Err(Errno::NOENT | Errno::NOTDIR) => {
                let mut links = 0;
                let real = self.make_directories(path.names().to_vec(), &mut links)?;
                Ok(self.open(&real, flags)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes what is missing of a path, and returns the path without links. A link to a directory
    /// that only lower layers have is followed to where that would be.
    fn make_directories(
        &mut self,
        names: Vec<Vec<u8>>,
        links: &mut usize,
    ) -> io::Result<LayerPath> {
        let mut made = LayerPath::default();
        let mut rest: std::collections::VecDeque<Vec<u8>> = names.into();
        while let Some(name) = rest.pop_front() {
            let parent = self.open(&made, OFlags::PATH | OFlags::DIRECTORY)?;
            let next = made.clone().join(&name)?;
            match kind_of(parent.as_fd(), &name)? {
                Some(FileType::Directory) => made = next,
                Some(FileType::Symlink) => {
                    *links += 1;
                    if *links > MOST_LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    let target = rustix::fs::readlinkat(&parent, name.as_slice(), Vec::new())?;
                    let (start, names) = resolve(made, target.as_bytes());
                    made = start;
                    for name in names.into_iter().rev() {
                        rest.push_front(name);
                    }
                }
                // A mark of this layer: what is made in its place hides what was there.
                Some(FileType::CharacterDevice) => {
                    rustix::fs::unlinkat(&parent, name.as_slice(), AtFlags::empty())?;
                    self.imply(&parent, &name, &next)?;
                    made = next;
                }
                None => {
                    self.imply(&parent, &name, &next)?;
                    made = next;
                }
                Some(_) => {
                    return Err(refused(format!(
                        "something is in `{}`, a file",
                        next.text()
                    )));
                }
            }
        }
        Ok(made)
    }

    fn imply(&mut self, parent: &OwnedFd, name: &[u8], path: &LayerPath) -> io::Result<()> {
        self.count()?;
        if self.implied.len() >= MOST_IMPLIED {
            return Err(refused("it leaves out too many directories".to_owned()));
        }
        rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        // Whatever mask the server was started with.
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(0o755))?;
        if self.removed.contains(path) {
            hide(directory.as_fd())?;
        } else {
            self.implied.insert(path.clone());
        }
        Ok(())
    }

    fn count(&mut self) -> io::Result<()> {
        self.members += 1;
        if self.members > self.limits.members {
            let most = self.limits.members;
            return Err(refused(format!("it has more than {most} files")));
        }
        Ok(())
    }
}

impl Sink for Layer {
    fn change(&mut self, change: Change, content: &mut dyn Read) -> io::Result<()> {
        self.count()?;
        let (path, outcome) = match change {
            Change::Add(member) => {
                let outcome = self.add(&member, content);
                (member.path, outcome)
            }
            Change::Remove(path) => {
                let outcome = self.remove(&path);
                (path, outcome)
            }
            Change::Hide(path) => {
                let outcome = self.hide_in(&path);
                (path, outcome)
            }
            Change::Device => {
                self.devices += 1;
                return Ok(());
            }
        };
        outcome.map_err(|error| {
            let is_told = [io::ErrorKind::InvalidData, io::ErrorKind::Other];
            if is_told.contains(&error.kind()) {
                return error;
            }
            let text = format!("cannot write `{}`: {error}", path.text());
            io::Error::new(error.kind(), text)
        })
    }
}

/// Names that follow a link in `directory` with this target. Those that lead upwards end at the
/// root.
fn resolve(directory: LayerPath, target: &[u8]) -> (LayerPath, Vec<Vec<u8>>) {
    let mut start = if target.starts_with(b"/") {
        LayerPath::default()
    } else {
        directory
    };
    let mut names: Vec<Vec<u8>> = Vec::new();
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                if names.pop().is_none() {
                    start = start.split().map(|(parent, _)| parent).unwrap_or_default();
                }
            }
            name => names.push(name.to_vec()),
        }
    }
    (start, names)
}

fn kind_of(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<FileType>> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sets owner, attributes and mode, in this order: a new owner takes set-id bits and capabilities
/// away.
fn set_attributes(file: BorrowedFd<'_>, member: &Member) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(member.user), Gid::from_raw(member.group));
    rustix::fs::fchown(file, Some(user), Some(group))?;
    for (name, value) in &member.attributes {
        match rustix::fs::fsetxattr(file, name.as_str(), value, XattrFlags::empty()) {
            // A file system without such attributes, or a value that the kernel does not take.
            Ok(()) | Err(Errno::NOTSUP | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(member.mode))?;
    Ok(())
}

/// Sets owner and time of what cannot be opened.
fn own(parent: BorrowedFd<'_>, name: &[u8], member: &Member) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(member.user), Gid::from_raw(member.group));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(parent, name, Some(user), Some(group), flags)?;
    rustix::fs::utimensat(parent, name, &times(member.modified), flags)?;
    Ok(())
}

fn hide(directory: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(
        directory,
        OPAQUE,
        b"y",
        XattrFlags::empty(),
    )?)
}

fn times(modified: i64) -> Timestamps {
    let time = Timespec {
        tv_sec: modified,
        tv_nsec: 0,
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

fn remove_tree(parent: BorrowedFd<'_>, name: &[u8], depth: usize) -> io::Result<()> {
    if depth == 0 {
        return Err(refused("its directories are too deep".to_owned()));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    for name in names {
        if kind_of(directory.as_fd(), &name)? == Some(FileType::Directory) {
            remove_tree(directory.as_fd(), &name, depth - 1)?;
        } else {
            rustix::fs::unlinkat(&directory, name.as_slice(), AtFlags::empty())?;
        }
    }
    drop(directory);
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}
