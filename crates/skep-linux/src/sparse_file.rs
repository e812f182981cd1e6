//! Copies of sparse files.

use std::fs::File;
use std::io;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Copies a sparse file: shares the blocks where the filesystem can, else copies what is not
/// a hole.
///
/// # Errors
///
/// The error of the system call that failed.
pub fn copy_sparse(from: &File, to: &File) -> io::Result<()> {
    if share_blocks(from, to)? {
        return Ok(());
    }
    copy_data(from, to)
}

/// Makes a file share the blocks of another. Says whether the file system could.
///
/// # Errors
///
/// The error of the system call, unless it says that this file system cannot.
pub fn share_blocks(from: &File, to: &File) -> io::Result<bool> {
    match rustix::fs::ioctl_ficlone(to, from) {
        Ok(()) => Ok(true),
        // The words by which different file systems say that they cannot.
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::XDEV) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Copies what is not a hole.
///
/// # Errors
///
/// The error of the system call that failed.
pub fn copy_data(from: &File, to: &File) -> io::Result<()> {
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut position = 0;
    while position < length {
        let start = match rustix::fs::seek(from, SeekFrom::Data(position)) {
            Ok(start) => start,
            // There are only holes left.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(start))?;
        let (mut source, mut target) = (start, start);
        while source < end {
            let left = usize::try_from(end - source).map_err(io::Error::other)?;
            let copied =
                rustix::fs::copy_file_range(from, Some(&mut source), to, Some(&mut target), left)?;
            if copied == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        position = end;
    }
    Ok(())
}
