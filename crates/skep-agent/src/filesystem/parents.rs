//! Making the directories on the way to a file.

use std::io;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Uid, chownat, mkdir, stat, unlinkat};
use rustix::io::Errno;

use super::FileError;
use crate::path;
use crate::users::User;

/// Directories that were made for something. If that comes to nothing, they go again.
#[derive(Debug, Default)]
#[must_use = "unless they are kept they are removed"]
pub(crate) struct NewDirectories(Vec<String>);

impl NewDirectories {
    /// What they were made for is there.
    pub(crate) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for NewDirectories {
    fn drop(&mut self) {
        for directory in self.0.iter().rev() {
            // Others may have put something in there meanwhile; then it stays.
            if let Err(error) = unlinkat(CWD, directory.as_str(), AtFlags::REMOVEDIR) {
                tracing::debug!(%error, "a new directory stays");
                return;
            }
        }
    }
}

/// Makes what is missing of `directory`, one by one, for `user`. What exists is left as it is.
///
/// Others may be making the same directories at the same time.
pub(crate) fn make_parents(directory: &str, user: &User) -> Result<NewDirectories, FileError> {
    let mut missing = Vec::new();
    let mut at = directory;
    loop {
        match stat(at) {
            Ok(found) if FileType::from_raw_mode(found.st_mode).is_dir() => break,
            Ok(_) => {
                return Err(FileError::IsFile {
                    path: at.to_owned(),
                });
            }
            Err(Errno::NOENT) => missing.push(at),
            // Something on the way is no directory; the walk up finds it.
            Err(Errno::NOTDIR) => {}
            Err(errno) => return Err(FileError::io("stat", at, errno.into())),
        }
        if at == "/" {
            break;
        }
        at = path::parent(at);
    }
    let mut made = NewDirectories::default();
    for directory in missing.into_iter().rev() {
        make_one(directory, user, &mut made)?;
    }
    Ok(made)
}

fn make_one(directory: &str, user: &User, made: &mut NewDirectories) -> Result<(), FileError> {
    match mkdir(directory, Mode::from_raw_mode(0o755)) {
        Ok(()) => made.0.push(directory.to_owned()),
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(FileError::io("make directory", directory, errno.into())),
    }
    own(directory, user).map_err(|source| FileError::io("chown", directory, source))
}

/// Gives a new directory to the user. Not to what a link in its place leads to.
fn own(directory: &str, user: &User) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    Ok(chownat(
        CWD,
        directory,
        Some(uid),
        Some(gid),
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}
