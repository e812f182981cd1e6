//! Block devices that are files.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Number of times that another process may take the device we were offered before we give up.
const ATTEMPTS: usize = 256;

const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// `struct loop_info64` of the kernel.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl LoopInfo {
    const EMPTY: Self = Self {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
}

/// `struct loop_config` of the kernel.
#[repr(C)]
struct LoopConfig {
    descriptor: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// A block device that is a file.
#[derive(Debug)]
pub struct LoopDevice {
    /// Its path in `/dev`.
    pub path: String,
    /// Open while the device is to stay; a mount keeps it, too. With the last of both gone,
    /// the kernel lets go of the file.
    pub device: OwnedFd,
}

/// Attaches a file to a free loop device.
///
/// # Errors
///
/// `EBUSY` if other processes took every device we were offered; else what the kernel says.
pub fn attach_loop_device(backing: BorrowedFd<'_>) -> io::Result<LoopDevice> {
    let control = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/loop-control")?;
    for _ in 0..ATTEMPTS {
        // SAFETY: this request takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if number == -1 {
            return Err(io::Error::last_os_error());
        }
        let path = format!("/dev/loop{number}");
        let device = OpenOptions::new().read(true).write(true).open(&path)?;
        match configure(&device, backing) {
            Ok(()) => {
                return Ok(LoopDevice {
                    path,
                    device: device.into(),
                });
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
        }
    }
    Err(rustix::io::Errno::BUSY.into())
}

/// The loop device that a file is attached to, if there is one. Two devices of one file would not know
/// of each other's writes, so whoever may attach one a second time asks first.
///
/// # Errors
///
/// If the devices of this host cannot be listed.
pub fn attached_loop_device(path: &Path) -> io::Result<Option<LoopDevice>> {
    let wanted = std::fs::metadata(path)?;
    for block in std::fs::read_dir("/sys/block")? {
        let block = block?;
        // Most devices are others', and are not opened for a look: that would keep them.
        let Ok(backing) = std::fs::read(block.path().join("loop/backing_file")) else {
            continue;
        };
        let backing = Path::new(OsStr::from_bytes(backing.trim_ascii_end()));
        if backing.file_name() != path.file_name() {
            continue;
        }
        let path = format!("/dev/{}", block.file_name().to_string_lossy());
        let device = OpenOptions::new().read(true).write(true).open(&path)?;
        // One that was let go meanwhile has no status.
        let Ok(status) = status(&device) else {
            continue;
        };
        if (status.device, status.inode) == (wanted.dev(), wanted.ino()) {
            let device = device.into();
            return Ok(Some(LoopDevice { path, device }));
        }
    }
    Ok(None)
}

fn status(device: &File) -> io::Result<LoopInfo> {
    let mut status = LoopInfo::EMPTY;
    // SAFETY: the request writes one `struct loop_info64`, which `status` has the layout of, any
    // bytes of which are a value of it, and which outlives the call.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut status) };
    if answer == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(status)
    }
}

fn configure(device: &File, backing: BorrowedFd<'_>) -> io::Result<()> {
    let config = LoopConfig {
        descriptor: u32::try_from(backing.as_raw_fd()).map_err(io::Error::other)?,
        block_size: 0,
        info: LoopInfo {
            flags: LO_FLAGS_AUTOCLEAR,
            ..LoopInfo::EMPTY
        },
        reserved: [0; 8],
    };
    // SAFETY: the request reads one `struct loop_config`, which `config` has the layout of,
    // and it outlives the call.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if answer == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<LoopInfo>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
    }
}
