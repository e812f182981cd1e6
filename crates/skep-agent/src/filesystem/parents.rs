//! Making the directories on the way to a file.

use std::io;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Uid, chownat, mkdir, stat};
use rustix::io::Errno;

use super::FileError;
use crate::path;
use crate::users::User;

/// Makes what is missing of `directory`, one by one, for `user`. What exists is left as it is.
///
/// Others may be making the same directories at the same time.
pub(crate) fn make_parents(directory: &str, user: &User) -> Result<(), FileError> {
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
    for directory in missing.into_iter().rev() {
        make_one(directory, user)?;
    }
    Ok(())
}

fn make_one(directory: &str, user: &User) -> Result<(), FileError> {
    match mkdir(directory, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
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
