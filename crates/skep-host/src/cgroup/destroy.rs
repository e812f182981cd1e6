//! The end of a sandbox's groups and of everything that is in them.

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::walk::{self, Left};
use super::{CgroupError, field, file};

/// Number of pidfds held open at once while processes are killed.
const HELD: usize = 256;

/// First delay between two looks at dying processes; the delay doubles up to the other.
const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(16);

/// Time after which groups are looked at although the kernel has told nothing: what was forked
/// while processes were killed is killed then, where a tree cannot be killed at once.
const LONGEST_SILENCE: Duration = Duration::from_millis(250);

/// Kills every process in the groups `name` of all `directories` and removes the groups, with
/// everything below them. A group that is not there is no error. Blocks until `deadline` at the
/// latest, and tries once whenever that is.
///
/// Goes on with the rest when something cannot be removed.
///
/// # Errors
///
/// The first group that is left, and why.
pub(super) fn destroy(
    directories: &[&Path],
    name: &str,
    deadline: Instant,
) -> Result<(), CgroupError> {
    let mut first_error = None;
    let mut left = Vec::new();
    for directory in directories {
        match File::open(directory).map_err(file("open", directory)) {
            Ok(open) => left.push((*directory, open)),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    let mut wait = FIRST_WAIT;
    loop {
        let mut still_left = Vec::new();
        for (directory, open) in left {
            match walk::remove(open.as_fd(), name, kill_in) {
                Ok(Left::Nothing) => {}
                Ok(outcome @ (Left::Busy | Left::Many)) => {
                    still_left.push((directory, open, outcome))
                }
                Err(error) => {
                    let error = file("remove", &directory.join(name))(error);
                    first_error.get_or_insert(error);
                }
            }
        }
        let now = Instant::now();
        if let Some((directory, _, outcome)) = still_left.first()
            && now >= deadline
        {
            let path = directory.join(name);
            return Err(match outcome {
                Left::Busy => CgroupError::Undead { path },
                Left::Nothing | Left::Many => CgroupError::Many { path },
            });
        }
        if still_left.is_empty() {
            return first_error.map_or(Ok(()), Err);
        }
        left = still_left
            .into_iter()
            .map(|(directory, open, _)| (directory, open))
            .collect();
        let rest = deadline.saturating_duration_since(now);
        let is_told = match left.first() {
            Some((_, parent)) => wait_until_empty(parent.as_fd(), name, rest),
            None => false,
        };
        if !is_told {
            #[expect(
                clippy::disallowed_methods,
                reason = "called where blocking is allowed, and v1 tells nobody when a group is empty"
            )]
            std::thread::sleep(wait.min(rest));
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
}

/// Waits until the kernel says that nobody is left in a group or below it. A process is in the list
/// of a group no more when it begins to end, but a group is removed only when it has.
///
/// False if there is nothing to wait for: v1 tells nobody, and a group may be empty already.
fn wait_until_empty(parent: BorrowedFd<'_>, name: &str, rest: Duration) -> bool {
    let path = Path::new(name).join("cgroup.events");
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Ok(events) = rustix::fs::openat(parent, path, flags, Mode::empty()) else {
        return false;
    };
    let mut text = [0; 256];
    let is_populated = rustix::io::pread(&events, &mut text, 0)
        .is_ok_and(|length| field(&String::from_utf8_lossy(&text[..length]), "populated") == "1");
    if !is_populated {
        return false;
    }
    let rest = Timespec::try_from(rest.min(LONGEST_SILENCE));
    let mut watched = [PollFd::new(&events, PollFlags::PRI)];
    let polled = rest.map(|rest| rustix::event::poll(&mut watched, Some(&rest)));
    // Whatever it was, the next walk finds out.
    matches!(polled, Ok(Ok(_) | Err(Errno::INTR)))
}

/// Kills the whole tree of a group at once, forks in flight included, where the kernel can:
/// v2 since Linux 5.14.
pub(super) fn kill_tree(directory: &Path, name: &str) {
    let killed = File::open(directory.join(name))
        .and_then(|group| write(group.as_fd(), c"cgroup.kill", b"1"));
    match killed {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // What follows kills one by one.
        Err(error) => tracing::warn!(%error, "cannot kill a cgroup at once"),
    }
}

/// Kills the processes of a group that could not be removed.
fn kill_in(group: BorrowedFd<'_>) {
    // A process that is frozen on v1 does not die before it is thawed.
    let thawed = write(group, c"freezer.state", b"THAWED");
    let killed = kill_members(group);
    if let Err(error) = thawed.and(killed) {
        tracing::warn!(%error, "cannot kill what is in a cgroup");
    }
}

/// Kills the processes of a group.
///
/// A number that was read may be somebody else's by the time it is used. So each process is
/// held by a descriptor first, and killed only if the group lists it again after that.
pub(super) fn kill_members(group: BorrowedFd<'_>) -> io::Result<()> {
    let members: Vec<_> = processes(group)?.into_iter().collect();
    for some in members.chunks(HELD) {
        let held: Vec<(Pid, OwnedFd)> = some
            .iter()
            .filter_map(|pid| Some((*pid, pidfd_open(*pid, PidfdFlags::empty()).ok()?)))
            .collect();
        let still_there = processes(group)?;
        for (pid, process) in held {
            if still_there.contains(&pid)
                && let Err(error) = pidfd_send_signal(&process, Signal::KILL)
            {
                tracing::debug!(%error, "process was gone");
            }
        }
    }
    Ok(())
}

/// The processes of a group that are visible from here; none if it is gone.
pub(super) fn processes(group: BorrowedFd<'_>) -> io::Result<HashSet<Pid>> {
    let listed = walk::read(group, c"cgroup.procs")?.unwrap_or_default();
    let numbers = listed.lines().filter_map(|line| line.parse().ok());
    Ok(numbers.filter_map(Pid::from_raw).collect())
}

/// Writes to a file of a group, if it has one of that name.
fn write(group: BorrowedFd<'_>, name: &CStr, text: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = match rustix::fs::openat(group, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    rustix::io::write(file, text)?;
    Ok(())
}
