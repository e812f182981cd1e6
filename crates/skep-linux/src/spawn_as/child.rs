//! The child's side: system calls only, no allocation, no panic, no return.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::{Prepared, SpawnSession, SpawnStep};

/// The length of a report: a step and an errno.
pub const REPORT_LENGTH: usize = 5;

/// Above the standard descriptors and the report, so that moving one never overwrites another.
const ASIDE: RawFd = 10;
const REPORT: RawFd = 3;

/// Goes through the steps, then execs; reports the step that fails and exits.
pub(super) fn run(prepared: &Prepared<'_>, report: &OwnedFd) -> ! {
    let mut report = report.as_raw_fd();
    let Failure { step, errno } = attempt(prepared, &mut report);
    let mut message = [0; REPORT_LENGTH];
    message[0] = step as u8;
    message[1..].copy_from_slice(&errno.to_ne_bytes());
    // SAFETY: the pointer and length are those of a live array. If the write fails the parent
    // sees a report that is too short, which it treats as a failure as well.
    unsafe { libc::write(report, message.as_ptr().cast(), message.len()) };
    // SAFETY: ends this process without running the parent's exit handlers.
    unsafe { libc::_exit(127) }
}

struct Failure {
    step: SpawnStep,
    errno: i32,
}

fn errno() -> i32 {
    std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EINVAL)
}

fn check(step: SpawnStep, answer: libc::c_long) -> Result<libc::c_long, Failure> {
    if answer < 0 {
        Err(Failure {
            step,
            errno: errno(),
        })
    } else {
        Ok(answer)
    }
}

fn attempt(prepared: &Prepared<'_>, report: &mut RawFd) -> Failure {
    match prepare(prepared, report) {
        Err(failure) => failure,
        Ok(()) => execute(prepared),
    }
}

fn prepare(prepared: &Prepared<'_>, report: &mut RawFd) -> Result<(), Failure> {
    let plan = prepared.plan;
    // First, so that all the child does is counted there; later it has neither these descriptors
    // nor the rights.
    for cgroup in plan.cgroups {
        // SAFETY: the buffer is a literal of that length. "0" means the writing process.
        let written = unsafe { libc::write(cgroup.as_raw_fd(), c"0".as_ptr().cast(), 1) };
        check(SpawnStep::Cgroup, written as libc::c_long)?;
    }
    match plan.session {
        SpawnSession::Callers => enter_new_group(prepared)?,
        SpawnSession::Own | SpawnSession::Terminal => {
            // SAFETY: takes no pointer.
            let session = unsafe { libc::setsid() };
            check(SpawnStep::Session, libc::c_long::from(session))?;
        }
    }
    arrange_descriptors(prepared, report)?;
    if plan.session == SpawnSession::Terminal {
        // SAFETY: TIOCSCTTY takes an integer, not a pointer.
        let answer = unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) };
        check(SpawnStep::Terminal, libc::c_long::from(answer))?;
    }
    if let Err(error) = crate::reset_signals() {
        let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
        return Err(Failure {
            step: SpawnStep::Signals,
            errno,
        });
    }
    if plan.raise_oom_score {
        raise_oom_score()?;
    }
    reset_priority();
    if let Some(limit) = plan.open_files {
        let limit = libc::rlimit {
            rlim_cur: limit.current.unwrap_or(libc::RLIM_INFINITY),
            rlim_max: limit.maximum.unwrap_or(libc::RLIM_INFINITY),
        };
        // SAFETY: the pointer is to a live local.
        let answer = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        check(SpawnStep::Limits, libc::c_long::from(answer))?;
    }
    // SAFETY: takes no pointer and cannot fail.
    unsafe { libc::umask(0o022) };
    become_user(prepared)?;
    let directory = resolve(plan.directory, libc::O_DIRECTORY);
    let directory = check(SpawnStep::Directory, directory)?;
    // SAFETY: takes no pointer. The descriptor is closed by exec.
    let answer = unsafe { libc::syscall(libc::SYS_fchdir, directory) };
    check(SpawnStep::Directory, answer)?;
    Ok(())
}

/// Joins a process group that has nobody else in it and was founded by a process that has ended:
/// a group lives as long as its last member, and its id is given to nobody until then.
///
/// Called while all signals are blocked, so that no handler runs on the founder's small stack.
fn enter_new_group(prepared: &Prepared<'_>) -> Result<(), Failure> {
    let step = SpawnStep::Session;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let top = prepared.stack.as_ptr_range().end.cast_mut().cast();
    // SAFETY: the stack is memory of ours that nothing else uses and that the founder, which makes
    // one system call on it, does not outlive: this process stands still until the founder is gone.
    let founder = unsafe { libc::clone(found_group, top, flags, std::ptr::null_mut()) };
    check(step, libc::c_long::from(founder))?;
    // SAFETY: takes no pointer. A founder that failed leaves no group to join, which is told here.
    check(step, unsafe {
        libc::syscall(libc::SYS_setpgid, 0, founder)
    })?;
    // SAFETY: a null status is allowed.
    let waited = unsafe { libc::waitpid(founder, std::ptr::null_mut(), 0) };
    check(step, libc::c_long::from(waited))?;
    Ok(())
}

extern "C" fn found_group(_nothing: *mut libc::c_void) -> libc::c_int {
    // SAFETY: takes no pointer.
    unsafe { libc::setpgid(0, 0) }
}

/// Finds what a path of the caller means, with the user's rights. Links of procfs, which lead
/// into descriptors and not to names, are not followed.
fn resolve(path: &CStr, flags: libc::c_int) -> libc::c_long {
    // SAFETY: all bit patterns are valid for it, and zero is what the kernel wants where nothing
    // is asked for.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = u64::from((libc::O_PATH | libc::O_CLOEXEC | flags).cast_unsigned());
    how.resolve = libc::RESOLVE_NO_MAGICLINKS;
    // SAFETY: a C string that outlives the call, and a live local of the length that is told.
    unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    }
}

fn arrange_descriptors(prepared: &Prepared<'_>, report: &mut RawFd) -> Result<(), Failure> {
    let step = SpawnStep::Descriptors;
    // All are first moved out of the way: one of them may carry a number that another needs.
    // SAFETY: F_DUPFD_CLOEXEC takes an integer.
    let moved = unsafe { libc::fcntl(*report, libc::F_DUPFD_CLOEXEC, ASIDE) };
    check(step, libc::c_long::from(moved))?;
    *report = moved;
    let mut aside = [0; 3];
    for (slot, descriptor) in aside.iter_mut().zip(&prepared.plan.standard) {
        // SAFETY: F_DUPFD_CLOEXEC takes an integer.
        *slot = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, ASIDE) };
        check(step, libc::c_long::from(*slot))?;
    }
    for (descriptor, number) in aside.iter().zip(0..) {
        // SAFETY: takes no pointer.
        let placed = unsafe { libc::dup2(*descriptor, number) };
        check(step, libc::c_long::from(placed))?;
    }
    // SAFETY: takes no pointer.
    let moved = unsafe { libc::dup3(*report, REPORT, libc::O_CLOEXEC) };
    check(step, libc::c_long::from(moved))?;
    *report = REPORT;
    // SAFETY: takes no pointer. Nothing above the report is used from here on.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, REPORT + 1, libc::c_uint::MAX, 0) };
    check(step, answer)?;
    Ok(())
}

/// Raised above any caller, and not put back to zero: going below what the host's root has
/// once chosen needs a right that is not there inside of a sandbox.
///
/// The file is the process's own only while it is dumpable, which a copy of a restored agent is
/// not: its memory belongs to the host's users. Nobody can look into it all the same, because it has
/// its parent's capabilities until it executes its program.
fn raise_oom_score() -> Result<(), Failure> {
    let score = c"500";
    let step = SpawnStep::OomScore;
    // SAFETY: takes no pointer.
    let answer = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    check(step, libc::c_long::from(answer))?;
    let path = c"/proc/self/oom_score_adj";
    // SAFETY: a C string literal.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    check(step, libc::c_long::from(file))?;
    let bytes = score.to_bytes();
    // SAFETY: pointer and length are those of a literal.
    let written = unsafe { libc::write(file, bytes.as_ptr().cast(), bytes.len()) };
    check(step, written as libc::c_long)?;
    Ok(())
}

/// A caller that runs ahead of its children is brought back into line. One that runs behind
/// may lack the right to come forward again; the child then stays there, which harms nobody.
fn reset_priority() {
    // SAFETY: takes no pointer.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) };
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    // SAFETY: takes no pointer.
    unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, 0) };
}

/// The raw calls: libc's wrappers would try to change all threads of a process that has one.
fn become_user(prepared: &Prepared<'_>) -> Result<(), Failure> {
    let step = SpawnStep::Credentials;
    let credentials = prepared.plan.credentials;
    let (count, groups) = (credentials.groups.len(), credentials.groups.as_ptr());
    // SAFETY: pointer and count are those of a live vector.
    check(step, unsafe {
        libc::syscall(libc::SYS_setgroups, count, groups)
    })?;
    let gid = credentials.gid;
    // SAFETY: takes no pointer.
    check(step, unsafe {
        libc::syscall(libc::SYS_setresgid, gid, gid, gid)
    })?;
    let uid = credentials.uid;
    // SAFETY: takes no pointer.
    check(step, unsafe {
        libc::syscall(libc::SYS_setresuid, uid, uid, uid)
    })?;
    Ok(())
}

/// Tries the candidates as a shell would: a missing one is passed over, a forbidden one is
/// remembered, anything else is the answer.
fn execute(prepared: &Prepared<'_>) -> Failure {
    let mut answer = libc::ENOENT;
    for program in prepared.plan.programs {
        // This process still has its parent's executable, to which `/proc/self/exe` leads. A link
        // that is swapped behind this look can run it nevertheless: with no more than the user's
        // rights, and nothing of the parent's memory or descriptors.
        let found = resolve(program, 0);
        if found < 0 {
            match errno() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => answer = libc::EACCES,
                errno => {
                    return Failure {
                        step: SpawnStep::Exec,
                        errno,
                    };
                }
            }
            continue;
        }
        // SAFETY: takes no pointer.
        unsafe { libc::syscall(libc::SYS_close, found) };
        let (arguments, environment) = (prepared.arguments.as_ptr(), prepared.environment.as_ptr());
        // SAFETY: both arrays end with a null pointer and outlive the call.
        unsafe { libc::execve(program.as_ptr(), arguments, environment) };
        match errno() {
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES => answer = libc::EACCES,
            libc::ENOEXEC => return execute_script(prepared, program.as_ptr()),
            errno => {
                return Failure {
                    step: SpawnStep::Exec,
                    errno,
                };
            }
        }
    }
    Failure {
        step: SpawnStep::Exec,
        errno: answer,
    }
}

/// A file that is executable but names no interpreter is a script for `sh`.
fn execute_script(prepared: &Prepared<'_>, path: *const libc::c_char) -> Failure {
    if let Some(slot) = prepared.script.get(1) {
        slot.set(path);
    }
    let (arguments, environment) = (
        prepared.script.as_ptr().cast(),
        prepared.environment.as_ptr(),
    );
    // SAFETY: both arrays end with a null pointer and outlive the call.
    unsafe { libc::execve(c"/bin/sh".as_ptr(), arguments, environment) };
    Failure {
        step: SpawnStep::Exec,
        errno: errno(),
    }
}
