//! Files in memory whose size or content is settled when they are made.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags, SeekFrom};

/// Makes a file in memory that holds `content` and can never be changed again, by anybody.
///
/// # Errors
///
/// If the system has no memory for it.
pub fn sealed_file(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = new(name)?;
    file.write_all(content)?;
    rustix::fs::seek(&file, SeekFrom::Start(0))?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

/// Makes a file in memory that can be written and always has this size: its holders can neither
/// take more memory by it nor break a reader by shortening it.
///
/// # Errors
///
/// If the system has no memory for it.
pub fn bounded_file(name: &str, bytes: u64) -> io::Result<OwnedFd> {
    let file = new(name)?;
    file.set_len(bytes)?;
    let seals = SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

fn new(name: &str) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    Ok(rustix::fs::memfd_create(name, flags)?.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_sealed_file_is_read_from_its_beginning_and_never_written() {
        let mut file = File::from(sealed_file("test", b"content").unwrap());
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
        file.write_at(b"x", 0).unwrap_err();
    }

    #[test]
    fn a_bounded_file_is_written_and_keeps_its_size() {
        let file = File::from(bounded_file("test", 8).unwrap());
        file.write_at(b"12345678", 0).unwrap();
        file.write_at(b"9", 8).unwrap_err();
        file.set_len(0).unwrap_err();
    }
}
