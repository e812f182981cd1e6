//! Memory of other processes that nobody needs for a while.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Most ranges that the kernel takes in one call.
pub const MOST_RANGES: usize = 1024;

/// Asks the kernel to bring parts of a process's memory to where they can be read again from: swap, or
/// the file that they came from. What is shared with other processes stays. Returns how many bytes it
/// went through, which ends before the first range that cannot be paged out.
///
/// # Errors
///
/// If nothing of the first range can be paged out, the process is gone, or there are more than
/// [`MOST_RANGES`].
pub fn page_out_process(process: BorrowedFd<'_>, ranges: &[Range<usize>]) -> io::Result<usize> {
    if ranges.len() > MOST_RANGES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let vectors: Vec<libc::iovec> = (ranges.iter())
        .map(|range| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(range.start),
            iov_len: range.len(),
        })
        .collect();
    // SAFETY: the kernel reads `vectors`, which live until it returns, with their true number. The
    // addresses in them are of the other process and are never followed here; `MADV_PAGEOUT` changes
    // no content of it. `BorrowedFd` keeps the descriptor open.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            process.as_raw_fd(),
            vectors.as_ptr(),
            vectors.len(),
            libc::MADV_PAGEOUT,
            0,
        )
    };
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

    use super::*;

    const BYTES: usize = 1 << 20;

    /// KiB of a mapping of this process that are in memory.
    fn resident(start: usize) -> u64 {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let name = format!("{start:x}-");
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&name));
        let line = lines.find(|line| line.starts_with("Rss:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn what_can_be_read_again_leaves_the_memory_and_comes_back() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; BYTES]).unwrap();
        file.sync_all().unwrap();
        // SAFETY: a new mapping at a place that the kernel chooses overlaps nothing of ours.
        let mapped = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BYTES,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(mapped, libc::MAP_FAILED);
        let start = mapped.cast::<u8>().cast_const();
        // SAFETY: the mapping has this size, is never removed, and nobody writes to the file.
        let bytes = unsafe { std::slice::from_raw_parts(start, BYTES) };
        assert!(bytes.iter().all(|byte| *byte == 7));
        assert_eq!(resident(start.addr()), 1024, "the control");
        let this = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let range = start.addr()..start.addr() + BYTES;

        let done = page_out_process(this.as_fd(), std::slice::from_ref(&range)).unwrap();

        assert_eq!(done, BYTES);
        assert!(resident(range.start) < 1024, "{}", resident(range.start));
        assert!(bytes.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        page_out_process(process.as_fd(), &[0..4096, 8192..12_288]).unwrap_err();
        page_out_process(process.as_fd(), &vec![0..1; MOST_RANGES + 1]).unwrap_err();
    }
}
