//! Starting a program as some user, from a process that has threads.
//!
//! Between fork and exec a copy of a threaded process may only make system calls: another
//! thread may have held any lock at the moment of the fork. So everything that allocates is
//! prepared before, and the child (`spawn_as/child.rs`) walks through a fixed list of steps:
//!
//! ```text
//! cgroups · session · descriptors · terminal · signals · oom score · priority
//!         · limits · groups, gid, uid · directory · exec
//! ```
//!
//! A step that fails ends the child, and its name and errno come back over a pipe that a
//! successful exec closes.

mod child;

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Rlimit};

pub use child::REPORT_LENGTH;

/// A program to start, with the user it runs as.
#[derive(Debug)]
pub struct SpawnAs<'a> {
    /// Paths tried in this order, as a shell tries the directories of `PATH`.
    pub programs: &'a [CString],
    /// The arguments, the program's own name first.
    pub arguments: &'a [CString],
    /// The whole environment as `NAME=value`; nothing is inherited.
    pub environment: &'a [CString],
    /// Working directory. Entered as the user, so the user must be allowed to.
    pub directory: &'a CStr,
    /// User and groups whose rights it gets.
    pub credentials: &'a Credentials,
    /// Standard input, output and error. No other descriptor survives.
    pub standard: [BorrowedFd<'a>; 3],
    /// Session and process group that it is started in.
    pub session: SpawnSession,
    /// `cgroup.procs` files of the cgroups to join, before anything else is done.
    pub cgroups: &'a [BorrowedFd<'a>],
    /// The limit of open files, for a caller that raised its own.
    pub open_files: Option<Rlimit>,
    /// True if, under memory pressure, this program is to be killed before its caller.
    pub raise_oom_score: bool,
}

/// The session and process group of a new program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpawnSession {
    /// The caller's session, and a process group of the program's own that it does not lead.
    ///
    /// Programs find what they would find below a shell: `setsid` runs in the same process instead
    /// of one that nobody waits for, as it must where its caller leads a group. Signals to "my
    /// group" (`kill 0`) still reach nothing that was not started by the program.
    Callers,
    /// A session and a process group that the program leads, so that both have its id.
    Own,
    /// The same, with its standard input, which must be a terminal, as the controlling terminal.
    Terminal,
}

/// The ids of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// User id, as the caller sees it.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary group ids.
    pub groups: Vec<u32>,
}

/// A step on the way from fork to exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SpawnStep {
    /// Preparing the pipe, or the fork itself.
    Fork = 1,
    /// Joining the cgroups.
    Cgroup,
    /// Entering a session or a process group.
    Session,
    /// Putting the standard descriptors in place and closing all others.
    Descriptors,
    /// Taking the controlling terminal.
    Terminal,
    /// Resetting signal handling.
    Signals,
    /// Resetting the OOM score.
    OomScore,
    /// Setting the limit of open files.
    Limits,
    /// Becoming the user.
    Credentials,
    /// Entering the working directory.
    Directory,
    /// Executing the program.
    Exec,
}

impl SpawnStep {
    const ALL: [Self; 11] = [
        Self::Fork,
        Self::Cgroup,
        Self::Session,
        Self::Descriptors,
        Self::Terminal,
        Self::Signals,
        Self::OomScore,
        Self::Limits,
        Self::Credentials,
        Self::Directory,
        Self::Exec,
    ];

    fn from_wire(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|step| *step as u8 == byte)
    }
}

impl std::fmt::Display for SpawnStep {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Fork => "forking",
            Self::Cgroup => "joining the cgroup",
            Self::Session => "entering a process group",
            Self::Descriptors => "arranging the descriptors",
            Self::Terminal => "taking the terminal",
            Self::Signals => "resetting the signals",
            Self::OomScore => "resetting the OOM score",
            Self::Limits => "setting the limits",
            Self::Credentials => "becoming the user",
            Self::Directory => "entering the directory",
            Self::Exec => "executing the program",
        })
    }
}

/// Failure to start a program.
#[derive(Debug)]
pub struct SpawnError {
    /// Step that failed.
    pub step: SpawnStep,
    /// Error of the system call.
    pub source: io::Error,
}

impl std::fmt::Display for SpawnError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "starting the process failed while {}", self.step)
    }
}

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// A child on its way to exec. Its exit must be waited for whatever it reports.
#[derive(Debug)]
pub struct Spawning {
    /// The child's process id.
    pub pid: Pid,
    /// The pipe that is closed without a word when the program runs. Otherwise what is read from
    /// it, at most [`REPORT_LENGTH`] bytes, is for [`outcome`].
    ///
    /// A child that was stopped on its way neither writes nor closes, so whoever reads must not
    /// wait for ever.
    pub report: OwnedFd,
}

/// Says what a report that was read to its end means.
///
/// # Errors
///
/// The failed step. The child then exits with 127 and is still to be reaped.
pub fn outcome(report: &[u8]) -> Result<(), SpawnError> {
    match report {
        // Exec closed the pipe.
        [] => Ok(()),
        [step, errno @ ..] if errno.len() == size_of::<i32>() => {
            let mut bytes = [0; size_of::<i32>()];
            bytes.copy_from_slice(errno);
            Err(SpawnError {
                step: SpawnStep::from_wire(*step).unwrap_or(SpawnStep::Exec),
                source: io::Error::from_raw_os_error(i32::from_ne_bytes(bytes)),
            })
        }
        _ => Err(SpawnError {
            step: SpawnStep::Exec,
            source: io::Error::other("the child died while it reported"),
        }),
    }
}

/// Forks the child that will become the program.
///
/// Returns as soon as the child exists, so that the caller can register its pid under the same
/// lock under which it reaps; [`Spawning::report`] then tells how it went.
///
/// # Errors
///
/// If there is no child at all.
pub fn fork_as(plan: &SpawnAs<'_>) -> Result<Spawning, SpawnError> {
    let failed = |source| SpawnError {
        step: SpawnStep::Fork,
        source,
    };
    let prepared = Prepared::new(plan);
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;

    // A handler of the caller must not run in the child: it would act on descriptors and
    // memory that still look like the caller's.
    let mask = block_signals().map_err(failed)?;
    // SAFETY: the child calls only `child::run`, which makes system calls on prepared memory
    // and never returns, so no lock of another thread is ever waited for.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        child::run(&prepared, &write);
    }
    let forked = if pid < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(pid)
    };
    restore_signals(&mask);
    let pid = forked.map_err(failed)?;
    let pid = Pid::from_raw(pid).expect("fork answers a positive pid to the parent");
    Ok(Spawning { pid, report: read })
}

/// The plan in the form in which system calls take it.
struct Prepared<'a> {
    plan: &'a SpawnAs<'a>,
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    /// `sh`, a slot for the script's path, and the arguments: what runs a file without `#!`.
    script: Vec<Cell<*const c_char>>,
    /// Memory for the process that founds a process group.
    stack: Vec<Cell<u64>>,
}

/// Length of [`Prepared::stack`]: 16 KiB, for a function that makes one system call.
const STACK_WORDS: usize = 2048;

impl<'a> Prepared<'a> {
    fn new(plan: &'a SpawnAs<'a>) -> Self {
        let script = [c"/bin/sh".as_ptr(), ptr::null()]
            .into_iter()
            .chain(
                plan.arguments
                    .iter()
                    .skip(1)
                    .map(|argument| argument.as_ptr()),
            )
            .chain([ptr::null()])
            .map(Cell::new)
            .collect();
        Self {
            plan,
            arguments: with_end(plan.arguments),
            environment: with_end(plan.environment),
            script,
            stack: vec![Cell::new(0); STACK_WORDS],
        }
    }
}

fn with_end(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([ptr::null()])
        .collect()
}

fn block_signals() -> io::Result<libc::sigset_t> {
    // SAFETY: all bit patterns are valid for a signal set, and it is filled before use.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: as above; the kernel overwrites it.
    let mut previous: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals.
    let answer =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut previous) };
    if answer == 0 {
        Ok(previous)
    } else {
        Err(io::Error::from_raw_os_error(answer))
    }
}

fn restore_signals(mask: &libc::sigset_t) {
    // SAFETY: the mask was given by the kernel; a null old set is allowed.
    let answer = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
    assert_eq!(answer, 0, "a mask that was in force can be put back");
}

#[cfg(test)]
mod tests;
