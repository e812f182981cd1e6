//! Making the directories on the way to a file.

use std::io;

use rustix::io::Errno;

use super::FileError;
use crate::rootfs::{Directory, Name};
use crate::sandbox::path;
use crate::sandbox::users::User;

/// Directories that were made for something. If that comes to nothing, they go again.
#[derive(Debug, Default)]
#[must_use = "unless they are kept they are removed"]
pub(crate) struct NewDirectories {
    /// The directory that was there before, and the paths below it that were not.
    below: Option<Directory>,
    made: Vec<String>,
}

impl NewDirectories {
    /// Keeps the directories: what they were made for is there.
    pub(crate) fn keep(mut self) {
        self.made.clear();
    }

    fn remove_last(&mut self) -> io::Result<()> {
        let (Some(relative), Some(below)) = (self.made.pop(), &self.below) else {
            return Ok(());
        };
        let (parent, name) = relative.rsplit_once('/').unwrap_or(("", &relative));
        below.below(parent)?.remove_directory(&Name::new(name)?)
    }
}

impl Drop for NewDirectories {
    fn drop(&mut self) {
        while !self.made.is_empty() {
            // Others may have put something in there meanwhile; then it stays.
            if let Err(error) = self.remove_last() {
                tracing::debug!(%error, "a new directory stays");
                return;
            }
        }
    }
}

/// Number of attempts to make directories that others remove again.
const ATTEMPTS: usize = 8;

/// Makes what is missing of `directory`, one by one, for `user`, and opens it. What exists is
/// left as it is.
///
/// Others may be making the same directories at the same time, and take back what they have made
/// if that was in vain.
pub(crate) fn make_parents(
    directory: &str,
    user: &User,
) -> Result<(Directory, NewDirectories), FileError> {
    let mut attempts = 1;
    loop {
        match make_missing(directory, user) {
            Err(FileError::NotFound { .. }) if attempts < ATTEMPTS => attempts += 1,
            answer => return answer,
        }
    }
}

fn make_missing(directory: &str, user: &User) -> Result<(Directory, NewDirectories), FileError> {
    let (mut here, missing) = find_existing(directory)?;
    let mut new = NewDirectories::default();
    let mut relative = String::new();
    for name in missing {
        let failed = |operation| move |source| FileError::io(operation, directory, source);
        if name == ".." {
            // What is to be left is not there yet.
            return Err(failed("open")(Errno::NOENT.into()));
        }
        relative = match relative.as_str() {
            "" => name.to_owned(),
            above => path::join(above, name),
        };
        let name = Name::new(name).map_err(failed("make directory"))?;
        match here.make(&name, (user.uid, user.gid)) {
            Ok(()) => new.made.push(relative.clone()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("make directory")(error)),
        }
        let entered = here.enter(&name).map_err(failed("open"))?;
        if new.below.is_none() {
            new.below = Some(here);
        }
        here = entered;
    }
    Ok((here, new))
}

/// The last directory on the way that exists, and the names behind it.
fn find_existing(directory: &str) -> Result<(Directory, Vec<&str>), FileError> {
    let mut missing = Vec::new();
    let mut at = directory;
    loop {
        let error = match Directory::find(at) {
            Ok(found) => {
                missing.reverse();
                return Ok((found, missing));
            }
            Err(error) => error,
        };
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) if at != "/" => match path::base_name(at) {
                "." => {}
                name => missing.push(name),
            },
            // It is no directory, or something on the way is none; then the walk up finds it.
            Some(Errno::NOTDIR) if is_there(at) => {
                return Err(FileError::IsFile {
                    path: at.to_owned(),
                });
            }
            Some(Errno::NOTDIR) if at != "/" => {}
            _ => return Err(FileError::io("stat", at, error)),
        }
        at = path::parent(at);
    }
}

fn is_there(path: &str) -> bool {
    crate::rootfs::kind_of(path).is_ok()
}
