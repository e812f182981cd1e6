//! The data directory: the database, keys, disks and logs, for the server's own user alone.
//!
//! An installation may have been made in a directory that others can look into, so what is there
//! already is closed at every start. Everything is done below descriptors, and nothing follows a
//! link or enters another mount.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::InstallError;
use rustix::fs::{
    Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fchmod, fstat, open, openat2, statat,
};
use rustix::io::Errno;

/// Mode bits of group and others.
const OTHERS: u32 = 0o077;
const WRITABLE_BY_ALL: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// Name of the directory whose files everybody may execute who comes that far.
const AGENTS: &[u8] = crate::agents::DIRECTORY.as_bytes();
/// Name of the directories with links to them, in images and sandboxes.
const PROGRAMS: &[u8] = b"programs";
/// Name of the directory with layers of templates, whose files have owners and modes of their own.
const BUILDS: &[u8] = b"builds";
/// Depth limit: nothing of ours lies deeper.
const DEEPEST: usize = 16;

/// Errors of preparing the data directory.
#[derive(Debug, thiserror::Error)]
enum DataDirError {
    #[error("`{}` belongs to user {owner}, but the server is user {server}", path.display())]
    Foreign {
        path: PathBuf,
        owner: u32,
        server: u32,
    },
    #[error("`{}` can be written by everybody, so what is in it can be replaced", path.display())]
    OpenParent { path: PathBuf },
    #[error("cannot {operation} `{}`", path.display())]
    File {
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

/// The directory, beside the data directory, of what users may read: whom to trust.
pub fn trust_dir(data_dir: &Path) -> PathBuf {
    beside(data_dir, "-ca")
}

/// The file, beside the data directory, of the key that seals what is in its database: a copy of the
/// one is not a copy of the other.
pub fn vault_key_file(data_dir: &Path) -> PathBuf {
    beside(data_dir, ".vault-key")
}

fn beside(data_dir: &Path, suffix: &str) -> PathBuf {
    let found = data_dir.canonicalize();
    let data_dir = found.unwrap_or_else(|_| data_dir.to_owned());
    let mut name = data_dir.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    data_dir.with_file_name(name)
}

/// Makes the data directory if it is missing, and closes it and everything in it to others.
/// From here on this process makes nothing that others can read.
///
/// # Errors
///
/// If it cannot be made or closed, or if others could change it.
pub fn prepare(path: &Path) -> Result<(), InstallError> {
    rustix::process::umask(Mode::from_raw_mode(OTHERS));
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| {
        InstallError::failure(error).hint(format!(
            "cannot make the data directory `{}`; sandboxes need root, and `--data-dir` takes another place",
            path.display()
        ))
    })?;
    let closed = close(path).map_err(|error| {
        let hint = match &error {
            DataDirError::Foreign { .. } => {
                "run the server as that user, give the directory to root, or choose another with `--data-dir`"
            }
            DataDirError::OpenParent { .. } => {
                "`chmod o-w` that directory (or `chmod +t` it), or choose another place with `--data-dir`"
            }
            DataDirError::File { .. } => "`--data-dir` takes another place",
        };
        InstallError::failure(error).hint(hint)
    })?;
    if closed > 0 {
        tracing::warn!(
            path = %path.display(),
            entries = closed,
            "other users could look into the data directory, closed it"
        );
    }
    Ok(())
}

/// Closes everything in `path`, and says how much of it was open.
fn close(path: &Path) -> Result<usize, DataDirError> {
    let failed = |operation, path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| DataDirError::File {
            operation,
            path,
            source,
        }
    };
    // An operator may have put it elsewhere by a link; what counts is where it is.
    let path = path.canonicalize().map_err(failed("find", path))?;
    for parent in path.ancestors().skip(1) {
        let stat = rustix::fs::stat(parent).map_err(io::Error::from);
        let mode = stat.map_err(failed("look at", parent))?.st_mode;
        if mode & WRITABLE_BY_ALL != 0 && mode & STICKY == 0 {
            let path = parent.to_owned();
            return Err(DataDirError::OpenParent { path });
        }
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = open(&path, flags, Mode::empty())
        .map_err(io::Error::from)
        .map_err(failed("open", &path))?;
    let walk = Walk {
        server: rustix::process::geteuid().as_raw(),
    };
    let stat = fstat(&directory).map_err(io::Error::from);
    walk.check_owner(&path, &stat.map_err(failed("look at", &path))?)?;
    walk.close_directory(directory, &path, DEEPEST)
}

/// One pass over the directory.
struct Walk {
    server: u32,
}

impl Walk {
    /// Closes the directory first, so that from then on nobody else changes what is in it.
    fn close_directory(
        &self,
        directory: OwnedFd,
        path: &Path,
        deepest: usize,
    ) -> Result<usize, DataDirError> {
        let failed = |operation: &'static str, path: &Path| {
            let path = path.to_owned();
            move |source: Errno| DataDirError::File {
                operation,
                path,
                source: source.into(),
            }
        };
        let mut closed = usize::from(
            close_one(directory.as_fd()).map_err(failed("change the permissions of", path))?,
        );
        let entries = Dir::read_from(&directory).map_err(failed("list", path))?;
        for entry in entries {
            let entry = entry.map_err(failed("list", path))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let below = path.join(name.to_string_lossy().as_ref());
            let looked = statat(&directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
            let stat = match looked {
                Ok(stat) => stat,
                // A file of a sandbox that ended just now.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(failed("look at", &below)(error)),
            };
            self.check_owner(&below, &stat)?;
            let kind = FileType::from_raw_mode(stat.st_mode);
            let is_folder = kind == FileType::Directory;
            if !is_folder && (kind != FileType::RegularFile || stat.st_mode & OTHERS == 0) {
                continue;
            }
            let opened = openat2(
                &directory,
                name,
                OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
                Mode::empty(),
                ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS,
            );
            let opened = match opened {
                Ok(opened) => opened,
                // Gone, or something else is mounted there, which is not ours to change.
                Err(Errno::NOENT | Errno::XDEV) => continue,
                Err(error) => return Err(failed("open", &below)(error)),
            };
            // Executables for everybody in a directory for nobody, or files of a sandbox's root: closing
            // the directory is enough.
            let is_top = deepest == DEEPEST;
            let name = name.to_bytes();
            let is_open_within = is_top && (name == AGENTS || name == BUILDS);
            let is_door = is_folder && (is_open_within || !is_top && name == PROGRAMS);
            closed += if is_folder && deepest > 0 && !is_door {
                self.close_directory(opened, &below, deepest - 1)?
            } else {
                let changed = close_one(opened.as_fd());
                usize::from(changed.map_err(failed("change the permissions of", &below))?)
            };
        }
        Ok(closed)
    }

    fn check_owner(&self, path: &Path, stat: &Stat) -> Result<(), DataDirError> {
        if stat.st_uid == self.server {
            return Ok(());
        }
        Err(DataDirError::Foreign {
            path: path.to_owned(),
            owner: stat.st_uid,
            server: self.server,
        })
    }
}

/// Takes every right of others away, and says whether they had one.
fn close_one(file: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let mode = fstat(file)?.st_mode;
    if mode & OTHERS == 0 {
        return Ok(false);
    }
    fchmod(file, Mode::from_raw_mode(mode & 0o700))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// A directory below one that is nobody else's, with `disk.img` in a directory in it, all open.
    fn open_installation() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let sandbox = data.join("sandboxes/i1");
        fs::create_dir_all(&sandbox).unwrap();
        fs::write(sandbox.join("disk.img"), "secret").unwrap();
        for path in [&data, &data.join("sandboxes"), &sandbox] {
            set(path, 0o755);
        }
        set(&sandbox.join("disk.img"), 0o644);
        (directory, data)
    }

    #[test]
    fn an_installation_that_others_could_read_is_closed_to_them() {
        let (_folder, data) = open_installation();
        let disk = data.join("sandboxes/i1/disk.img");
        assert_eq!((mode(&data), mode(&disk)), (0o755, 0o644), "the control");
        assert_eq!(close(&data).unwrap(), 4);
        assert_eq!((mode(&data), mode(&disk)), (0o700, 0o600));
        assert_eq!(mode(disk.parent().unwrap()), 0o700);
        assert_eq!(close(&data).unwrap(), 0, "and stays so");
        assert_eq!(fs::read(&disk).unwrap(), b"secret");
    }

    #[test]
    fn agents_stay_executable_in_a_directory_that_nobody_enters() {
        let (_folder, data) = open_installation();
        let agents = data.join("agents");
        let elsewhere = data.join("sandboxes/i1/agents");
        for directory in [&agents, &elsewhere] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("1"), "").unwrap();
            set(directory, 0o755);
            set(&directory.join("1"), 0o555);
        }
        close(&data).unwrap();
        assert_eq!((mode(&agents), mode(&agents.join("1"))), (0o700, 0o555));
        assert_eq!(mode(&elsewhere.join("1")), 0o500);
        assert_eq!(close(&data).unwrap(), 0);
        // Links to them, which are the same files.
        let programs = data.join("sandboxes/i1/programs");
        fs::create_dir(&programs).unwrap();
        fs::hard_link(agents.join("1"), programs.join("0")).unwrap();
        close(&data).unwrap();
        assert_eq!((mode(&programs), mode(&agents.join("1"))), (0o700, 0o555));
    }

    #[test]
    fn layers_keep_their_modes_in_a_directory_that_nobody_enters() {
        let (_folder, data) = open_installation();
        let root = data.join("builds/layers/1/root");
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("file"), "").unwrap();
        for (path, bits) in [(&data.join("builds"), 0o755), (&root.join("file"), 0o4755)] {
            set(path, bits);
        }
        close(&data).unwrap();
        assert_eq!(mode(&data.join("builds")), 0o700);
        assert_eq!(mode(&root.join("file")), 0o4755);
    }

    #[test]
    fn what_a_link_points_to_stays_as_it_is() {
        let (directory, data) = open_installation();
        let outside = directory.path().join("outside");
        fs::write(&outside, "").unwrap();
        set(&outside, 0o644);
        symlink(&outside, data.join("link")).unwrap();
        symlink(directory.path(), data.join("sandboxes/up")).unwrap();
        close(&data).unwrap();
        assert_eq!(mode(&outside), 0o644);
        // A link to the directory itself is the operator's choice.
        set(&data, 0o755);
        let chosen = directory.path().join("chosen");
        symlink(&data, &chosen).unwrap();
        assert_eq!(close(&chosen).unwrap(), 1);
        assert_eq!(mode(&data), 0o700);
    }

    #[test]
    fn a_directory_that_others_can_replace_is_refused() {
        let (directory, data) = open_installation();
        set(directory.path(), 0o777);
        let refused = close(&data).unwrap_err();
        assert!(
            matches!(refused, DataDirError::OpenParent { .. }),
            "{refused}"
        );
        assert_eq!(mode(&data), 0o755, "nothing was touched");
        set(directory.path(), 0o1777);
        close(&data).unwrap();
    }

    #[test]
    fn what_belongs_to_somebody_else_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (_folder, data) = open_installation();
        let planted = data.join("skep.db");
        fs::write(&planted, "").unwrap();
        std::os::unix::fs::chown(&planted, Some(4242), None).unwrap();
        let refused = close(&data).unwrap_err();
        assert!(
            matches!(refused, DataDirError::Foreign { owner: 4242, .. }),
            "{refused}"
        );
        fs::remove_file(&planted).unwrap();
        std::os::unix::fs::chown(&data, Some(4242), None).unwrap();
        let refused = close(&data).unwrap_err();
        assert!(
            matches!(refused, DataDirError::Foreign { owner: 4242, .. }),
            "{refused}"
        );
    }
}
