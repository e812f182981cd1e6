//! The files in the jail: what is there before each request, and what is different after.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

/// The user that callers are when they name nobody.
pub(crate) const USER: u32 = 1000;

/// A mount, which cannot be changed by anybody.
const MOUNTED: &str = "/dev/pts";

/// Everything about a file but the time of its last change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    mode: u32,
    owner: u32,
    /// Contents of a file, or target of a link.
    pub(crate) content: Vec<u8>,
}

impl Entry {
    pub(crate) fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.mode) == FileType::RegularFile
    }

    pub(crate) fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.mode) == FileType::Directory
    }
}

/// All files, by path.
pub(crate) type Tree = BTreeMap<PathBuf, Entry>;

/// Makes the files that every request finds.
pub(crate) fn plant() -> io::Result<Tree> {
    for directory in [
        "/etc",
        "/root",
        "/run/e2b",
        "/tmp",
        "/dev",
        "/home/user/folder/deep",
    ] {
        fs::create_dir_all(directory)?;
    }
    fs::write(
        "/etc/passwd",
        format!("root:x:0:0::/root:/bin/sh\nuser:x:{USER}:{USER}::/home/user:/bin/sh\n"),
    )?;
    fs::write("/etc/group", format!("root:x:0:\nuser:x:{USER}:\n"))?;
    fs::write("/home/user/notes.txt", "remember\n")?;
    fs::write("/home/user/folder/inner.txt", "x".repeat(600))?;
    fs::write("/home/user/folder/deep/empty", "")?;
    symlink("folder", "/home/user/link")?;
    symlink("nowhere", "/home/user/broken")?;
    symlink("loop", "/home/user/loop")?;
    let mode = Mode::from_raw_mode(0o644);
    mknodat(CWD, "/home/user/pipe", FileType::Fifo, mode, 0)?;
    mknodat(
        CWD,
        "/dev/null",
        FileType::CharacterDevice,
        mode,
        makedev(1, 3),
    )?;
    symlink("pts/ptmx", "/dev/ptmx")?;
    for path in ["/home/user", "/home/user/notes.txt", "/home/user/folder"] {
        chown(path, Some(USER), Some(USER))?;
    }
    fs::set_permissions("/tmp", Permissions::from_mode(0o1777))?;
    read()
}

/// Reads the tree as it is now.
pub(crate) fn read() -> io::Result<Tree> {
    let mut tree = Tree::new();
    let mut pending = vec![PathBuf::from("/")];
    while let Some(path) = pending.pop() {
        let about = fs::symlink_metadata(&path)?;
        let content = if about.is_file() {
            fs::read(&path)?
        } else if about.is_symlink() {
            fs::read_link(&path)?.as_os_str().as_bytes().to_vec()
        } else {
            Vec::new()
        };
        if about.is_dir() && path != Path::new(MOUNTED) {
            for entry in fs::read_dir(&path)? {
                pending.push(entry?.path());
            }
        }
        tree.insert(
            path,
            Entry {
                mode: about.mode(),
                owner: about.uid(),
                content,
            },
        );
    }
    Ok(tree)
}

/// Makes everything as it was.
pub(crate) fn replant() -> io::Result<Tree> {
    clear(Path::new("/"))?;
    plant()
}

fn clear(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path == Path::new(MOUNTED) {
            continue;
        }
        if fs::symlink_metadata(&path)?.is_dir() {
            clear(&path)?;
            if !Path::new(MOUNTED).starts_with(&path) {
                fs::remove_dir(&path)?;
            }
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// The paths that are not what they were.
pub(crate) fn differences<'a>(before: &'a Tree, after: &'a Tree) -> Vec<&'a Path> {
    before
        .iter()
        .filter(|(path, entry)| after.get(*path) != Some(entry))
        .chain(after.iter().filter(|(path, _)| !before.contains_key(*path)))
        .map(|(path, _)| path.as_path())
        .collect()
}
