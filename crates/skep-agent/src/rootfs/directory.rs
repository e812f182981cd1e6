//! A directory that is held open, and what can be done to single names in it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::inotify::{WatchFlags, add_watch};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, chownat, fstat, lgetxattr,
    llistxattr, mkdirat, readlinkat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use skep_linux::open_resolved;

use super::name::Name;
use super::refuse::{FileSystem, is_link_to_self, refuse};
use super::{admit, descriptor_path};

/// A directory of the sandbox. What happens in it happens there, wherever it is moved.
#[derive(Debug)]
pub(crate) struct Directory {
    descriptor: OwnedFd,
    file_system: FileSystem,
    device: u64,
}

/// Flags that open the directory itself, not what is in it.
const FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

impl Directory {
    /// The directory that a path means, through links if need be.
    pub(crate) fn find(path: impl rustix::path::Arg + Copy) -> io::Result<Self> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let root = super::root()?;
        Self::checked(open_resolved(root, path, FLAGS, Mode::empty(), resolve)?)
    }

    /// A directory in this one, through a link if it is one.
    pub(crate) fn enter(&self, name: &Name) -> io::Result<Self> {
        Self::checked(self.resolve(name, FLAGS, Mode::empty())?)
    }

    /// A directory some steps below this one, of which none may be a link.
    pub(crate) fn below(&self, relative: &str) -> io::Result<Self> {
        if relative.is_empty() {
            return self.try_clone();
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let descriptor = self.descriptor.as_fd();
        Self::checked(open_resolved(
            descriptor,
            relative,
            FLAGS,
            Mode::empty(),
            resolve,
        )?)
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            descriptor: self.descriptor.try_clone()?,
            file_system: self.file_system,
            device: self.device,
        })
    }

    fn checked(descriptor: OwnedFd) -> io::Result<Self> {
        let file_system = refuse(descriptor.as_fd())?;
        let device = fstat(&descriptor)?.st_dev;
        Ok(Self {
            descriptor,
            file_system,
            device,
        })
    }

    /// Returns the kernel's `stat` of an entry, which is not followed.
    pub(crate) fn stat(&self, name: &Name) -> io::Result<Stat> {
        let stat = statat(&self.descriptor, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_proc = self.file_system == FileSystem::Proc;
        if kind.is_dir() && (is_proc || stat.st_dev != self.device) {
            // Another file system may begin here, or the entry of a process.
            self.open(name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
        }
        if kind.is_symlink() && is_proc && is_link_to_self(name.as_c_str().to_bytes()) {
            return Err(Errno::ACCESS.into());
        }
        Ok(stat)
    }

    /// Opens an entry, through a link unless the flags forbid it.
    pub(crate) fn open(&self, name: &Name, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        admit(self.resolve(name, flags, mode)?, flags)
    }

    /// A new file without a name, on the file system of this directory.
    pub(crate) fn nameless(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::TMPFILE;
        self.resolve(&Name::itself(), flags, Mode::RUSR | Mode::WUSR)
    }

    /// The root of this process is that of the sandbox, so a link that begins with a slash, or
    /// climbs, leads no further than there.
    fn resolve(&self, name: &Name, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let (directory, resolve) = (self.descriptor.as_fd(), ResolveFlags::NO_MAGICLINKS);
        open_resolved(directory, name.as_c_str(), flags, mode, resolve)
    }

    /// Makes a directory that belongs to this user from its first moment.
    pub(crate) fn make(&self, name: &Name, owner: (u32, u32)) -> io::Result<()> {
        self.make_with(name, owner, Mode::from_raw_mode(0o755))
    }

    /// Makes a directory that only this user can enter.
    pub(crate) fn make_private(&self, name: &Name, owner: (u32, u32)) -> io::Result<()> {
        self.make_with(name, owner, Mode::RWXU)
    }

    /// Made by root and given away, it could be swapped in between for a directory that is not
    /// theirs to have. So it is given, for watchers to see, only if it is theirs.
    fn make_with(&self, name: &Name, (uid, gid): (u32, u32), mode: Mode) -> io::Result<()> {
        skep_linux::as_file_owner(uid, gid, || {
            Ok(mkdirat(&self.descriptor, name.as_c_str(), mode)?)
        })?;
        let made = self.open(name, FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
        if fstat(&made)?.st_uid == uid {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            chownat(&made, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }

    /// Removes an entry that is no directory.
    pub(crate) fn unlink(&self, name: &Name) -> io::Result<()> {
        Ok(unlinkat(
            &self.descriptor,
            name.as_c_str(),
            AtFlags::empty(),
        )?)
    }

    /// Removes a directory that is empty.
    pub(crate) fn remove_directory(&self, name: &Name) -> io::Result<()> {
        Ok(unlinkat(
            &self.descriptor,
            name.as_c_str(),
            AtFlags::REMOVEDIR,
        )?)
    }

    /// Moves an entry to another name, here or elsewhere.
    pub(crate) fn rename(&self, name: &Name, to: &Self, new_name: &Name) -> io::Result<()> {
        Ok(renameat(
            &self.descriptor,
            name.as_c_str(),
            &to.descriptor,
            new_name.as_c_str(),
        )?)
    }

    /// Returns the target of a link, as it is written there.
    pub(crate) fn link_text(&self, name: &Name) -> io::Result<String> {
        let written = readlinkat(&self.descriptor, name.as_c_str(), Vec::new())?;
        Ok(written.to_string_lossy().into_owned())
    }

    /// The names of the extended attributes of an entry, which is not followed.
    pub(crate) fn list_attributes(&self, name: &Name, buffer: &mut [u8]) -> Result<usize, Errno> {
        llistxattr(self.path_of(name).as_slice(), buffer)
    }

    /// An extended attribute of an entry, which is not followed.
    pub(crate) fn attribute(
        &self,
        name: &Name,
        attribute: &str,
        buffer: &mut [u8],
    ) -> Result<usize, Errno> {
        lgetxattr(self.path_of(name).as_slice(), attribute, buffer)
    }

    fn path_of(&self, name: &Name) -> Vec<u8> {
        let mut path = descriptor_path(self.descriptor.as_fd()).into_bytes();
        path.push(b'/');
        path.extend(name.as_c_str().to_bytes());
        path
    }

    /// Has the kernel note what happens in this directory.
    pub(crate) fn watch(&self, queue: &OwnedFd, flags: WatchFlags) -> Result<i32, Errno> {
        add_watch(queue, descriptor_path(self.descriptor.as_fd()), flags)
    }

    /// Returns the magic number of the file system that this is on.
    pub(crate) fn filesystem_magic(&self) -> io::Result<u64> {
        super::filesystem_magic(&self.descriptor)
    }

    /// Returns true if this is made up by the kernel, like what is in `/proc`.
    pub(crate) fn is_virtual(&self) -> io::Result<bool> {
        super::is_virtual(&self.descriptor)
    }

    /// The directory, opened so that it can be read.
    pub(super) fn readable(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        self.resolve(&Name::itself(), flags, Mode::empty())
    }
}
