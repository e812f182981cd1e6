//! Block devices that are files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Number of times that another process may take the device we were offered before we give up.
const ATTEMPTS: usize = 256;

const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
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

fn configure(device: &File, backing: BorrowedFd<'_>) -> io::Result<()> {
    let config = LoopConfig {
        descriptor: u32::try_from(backing.as_raw_fd()).map_err(io::Error::other)?,
        block_size: 0,
        info: LoopInfo {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: LO_FLAGS_AUTOCLEAR,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
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
