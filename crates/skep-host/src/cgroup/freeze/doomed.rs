//! Threads that stand where they should die.
//!
//! On v1 a frozen thread does not die of a signal. A thread that executes a program kills its siblings
//! and waits for their death where it cannot be frozen itself. So if a sibling stands already, neither
//! ever gets on, and the group never stands as a whole: code that executes programs all the time, from
//! processes with several threads, could not be paused and ran beyond its deadline.
//!
//! Such a thread has the signal that nothing survives, so it is let go: in the group above it is thawed,
//! and it ends without a step in its own code.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;

use super::super::{CgroupError, MOST_COUNTED, file, open_directory, walk};

/// File with the threads of a group, on v1.
const THREADS: &CStr = c"tasks";
/// Bit of the signal that nothing survives.
const KILL: u64 = 1 << 8;

/// Threads that were let go.
#[derive(Debug, Default)]
pub(super) struct Doomed {
    released: BTreeSet<String>,
}

impl Doomed {
    /// Lets the threads of a group, and of those below it, go that have been killed.
    pub(super) fn release(&mut self, group: &Path) -> Result<(), CgroupError> {
        let Some(above) = group.parent() else {
            return Ok(());
        };
        let mut killed = Vec::new();
        let look = |directory: BorrowedFd<'_>| {
            let threads = walk::read(directory, THREADS)?.unwrap_or_default();
            let doomed = threads.lines().filter(|thread| is_killed(thread));
            killed.extend(doomed.map(str::to_owned));
            Ok(())
        };
        let looked = walk::visit(open_directory(group)?, MOST_COUNTED, look);
        looked.map_err(file("look at", group))?;
        for thread in killed {
            move_to(above, &thread)?;
            self.released.insert(thread);
        }
        Ok(())
    }

    /// Brings back whatever is left. A thread that was let go ends at once; one that has got its
    /// number since would not stand.
    pub(super) fn recall(&self, group: &Path) -> Result<(), CgroupError> {
        let Some(above) = group.parent().filter(|_| !self.released.is_empty()) else {
            return Ok(());
        };
        let left = walk::read(open_directory(above)?.as_fd(), THREADS);
        for thread in left
            .map_err(file("look at", above))?
            .unwrap_or_default()
            .lines()
        {
            if self.released.contains(thread) && !is_killed(thread) {
                move_to(group, thread)?;
            }
        }
        Ok(())
    }
}

/// Returns true if a thread is to die. One that has died is not.
fn is_killed(thread: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    let signals = pending.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    signals.is_some_and(|signals| signals & KILL != 0)
}

fn move_to(group: &Path, thread: &str) -> Result<(), CgroupError> {
    let threads = group.join("tasks");
    match fs::write(&threads, thread) {
        Err(error) if !is_gone(&error) => Err(file("write", &threads)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}
