//! Comparing what processes have open.

use std::io;

const KCMP_FILE: libc::c_int = 0;
const KCMP_FILES: libc::c_int = 2;

/// Returns true if a descriptor of one process and one of another are of the same open file: one
/// was inherited or sent, and not opened again.
///
/// # Errors
///
/// `ESRCH` or `EBADF` if a process or descriptor is gone; `ENOSYS` if the kernel cannot compare.
pub fn is_same_open_file(one: (i32, u32), other: (i32, u32)) -> io::Result<bool> {
    compare(KCMP_FILE, (one.0, other.0), (one.1, other.1))
}

/// Returns true if two threads have one table of descriptors.
///
/// # Errors
///
/// As [`is_same_open_file`].
pub fn share_descriptors(one: i32, other: i32) -> io::Result<bool> {
    compare(KCMP_FILES, (one, other), (0, 0))
}

fn compare(kind: libc::c_int, threads: (i32, i32), descriptors: (u32, u32)) -> io::Result<bool> {
    // SAFETY: all arguments are numbers, and the call changes nothing.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_kcmp,
            threads.0,
            threads.1,
            kind,
            libc::c_ulong::from(descriptors.0),
            libc::c_ulong::from(descriptors.1),
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    // One and two say which comes first in an order of the kernel's.
    Ok(answer == 0)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_copy_of_a_descriptor_is_of_the_same_file_and_a_second_one_is_not() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let at = |file: &File| (pid, u32::try_from(file.as_raw_fd()).unwrap());
        let file = File::open("/dev/null").unwrap();
        let copy = file.try_clone().unwrap();
        let second = File::open("/dev/null").unwrap();
        assert!(is_same_open_file(at(&file), at(&copy)).unwrap());
        assert!(!is_same_open_file(at(&file), at(&second)).unwrap());
        let gone = is_same_open_file(at(&file), (pid, u32::MAX)).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn a_process_has_descriptors_of_its_own() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let other = i32::try_from(child.id()).unwrap();
        assert!(share_descriptors(pid, pid).unwrap());
        assert!(!share_descriptors(pid, other).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
