//! CRIU as a child of the launcher, and the conversation with its hook.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::process::{Signal, WaitId, WaitIdOptions};
use rustix::thread::{CapabilitySet, UnshareFlags};
use skep_checkpoint::{ANSWER, CGROUPS, STAGE};
use skep_linux::{Child, Cloned, Executable, Execution};

use crate::CheckpointTool;
use crate::channel::Channel;
use crate::checkpoint::KILLED;
use crate::report::{Permission, Report, Stage};
use crate::step_error::{About, StepError};

/// Number of the first descriptor that is passed to CRIU: after the standard ones.
pub(super) const FIRST_PASSED: usize = 3;

/// Rights over the host that CRIU does not need. Restored processes live in a user namespace, whose
/// bounding set is whole at first whatever that of its maker is.
const NOT_NEEDED: [CapabilitySet; 12] = [
    CapabilitySet::SYS_MODULE,
    CapabilitySet::SYS_RAWIO,
    CapabilitySet::SYS_BOOT,
    CapabilitySet::SYS_TIME,
    CapabilitySet::SYSLOG,
    CapabilitySet::MAC_ADMIN,
    CapabilitySet::MAC_OVERRIDE,
    CapabilitySet::AUDIT_CONTROL,
    CapabilitySet::AUDIT_READ,
    CapabilitySet::BPF,
    CapabilitySet::PERFMON,
    CapabilitySet::BLOCK_SUSPEND,
];

/// File in which CRIU keeps what it has found out about the kernel. It does so only on a `/run`
/// that is in memory, as everybody's goes with the kernel.
const KERNEL_CACHE: &str = "/run/criu.kdat";

/// Gives this process, which has a mount namespace of its own, a `/run` in memory that nobody
/// else sees.
pub(super) fn mount_run(tool: &CheckpointTool) -> Result<(), StepError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("tmpfs", "/run", "tmpfs", flags, c"mode=755,size=16m")
        .about(|| "/run".into())?;
    // Without it CRIU finds out anew, which takes a tenth of a second.
    fs::copy(&tool.cache, KERNEL_CACHE).ok();
    link_cgroups(tool.cgroup.as_deref())
}

/// Links the cgroups that CRIU is to see to where it looks for them: a directory for each hierarchy.
/// Where it finds none for the unified tree it would make one, which on such a host is a cgroup.
fn link_cgroups(unified: Option<&Path>) -> Result<(), StepError> {
    let Some(group) = unified else {
        return rustix::fs::symlink("/sys/fs/cgroup", CGROUPS).about(|| CGROUPS.into());
    };
    rustix::fs::mkdir(CGROUPS, Mode::from_raw_mode(0o700)).about(|| CGROUPS.into())?;
    let place = Path::new(CGROUPS).join("unified");
    rustix::fs::symlink(group, &place).about(|| place.display().to_string())
}

/// Answers of the launcher at a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// CRIU goes on.
    Go,
    /// It undoes what it has done, and lets the processes go on.
    GiveUp,
    /// It dies, as the processes that it has made do: what it would do next is not wanted.
    Die,
}

/// Runs CRIU to its end. `at_stage` is asked at every stage whether it goes on, with the first
/// process of the tree.
pub(super) fn run(
    tool: &CheckpointTool,
    arguments: &[String],
    passed: &[BorrowedFd<'_>],
    mut at_stage: impl FnMut(&str, i32) -> Answer,
) -> Result<(), StepError> {
    let (stages, answers) = (make_pipe(tool, STAGE)?, make_pipe(tool, ANSWER)?);
    let (mut failure, their_failure) = io::pipe()?;
    let child = match skep_linux::clone_process(UnshareFlags::empty())? {
        Cloned::Child => execute(tool, arguments, passed, their_failure.as_fd()),
        Cloned::Parent(child) => child,
    };
    drop(their_failure);
    let mut errno = [0; 4];
    if failure.read_exact(&mut errno).is_ok() {
        let error = Errno::from_raw_os_error(i32::from_ne_bytes(errno));
        return Err(error).about(|| tool.command[0].clone());
    }
    let deadline = Instant::now() + tool.timeout;
    converse(stages, answers, &child, deadline, &mut at_stage)?;
    match wait(&child)? {
        Some(0) => {
            // A copy that is not there costs time and nothing else.
            fs::copy(KERNEL_CACHE, &tool.cache).ok();
            Ok(())
        }
        Some(_) => Err(Errno::CANCELED).about(|| "criu".into()),
        // By a signal: what it held is not as it was.
        None => Err(KILLED).about(|| "criu".into()),
    }
}

/// Makes a pipe in the directory that CRIU works in, which is the image's, and opens both ends: the
/// hook waits for nobody, and sees the end of this process.
fn make_pipe(tool: &CheckpointTool, name: &str) -> Result<File, StepError> {
    let path = tool.images.with_file_name(name);
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, mode, 0).about(|| name.into())?;
    open(&path, OFlags::RDWR).map(File::from)
}

/// Becomes CRIU.
fn execute(
    tool: &CheckpointTool,
    arguments: &[String],
    passed: &[BorrowedFd<'_>],
    report: BorrowedFd<'_>,
) -> ! {
    let fail = |error: io::Error| -> Vec<u8> {
        let errno = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
        errno.to_ne_bytes().into()
    };
    let prepared = || -> io::Result<_> {
        // What it has stopped and not let go would stand for ever, and so would this.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // What root executes has no capability that is not in the bounding set.
        for capability in NOT_NEEDED {
            match rustix::thread::remove_capability_from_bounding_set(capability) {
                // An older kernel does not know it.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
        rustix::process::chdir(&tool.images)?;
        // A restored process reads some of the files itself, as a user of its own. Nobody else
        // comes into the directory.
        rustix::process::umask(Mode::from_raw_mode(0o022));
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let all = tool.command.iter().chain(arguments);
        let arguments = all
            .map(|argument| CString::new(argument.as_str()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok((null, arguments))
    };
    let (null, arguments) = match prepared() {
        Ok(prepared) => prepared,
        Err(error) => {
            rustix::io::write(report, &fail(error)).ok();
            skep_linux::exit_now(127)
        }
    };
    let standard = [null.as_fd(); 3];
    let descriptors: Vec<_> = standard.iter().chain(passed).copied().collect();
    let execution = Execution {
        executable: Executable::Path(&arguments[0]),
        arguments: &arguments,
        environment: &[],
        descriptors: &descriptors,
    };
    skep_linux::execute(&execution, report, fail)
}

/// Answers the hook until CRIU ends.
fn converse(
    mut stages: File,
    mut answers: File,
    child: &Child,
    mut deadline: Instant,
    at_stage: &mut impl FnMut(&str, i32) -> Answer,
) -> Result<(), StepError> {
    let mut line = Vec::new();
    loop {
        let mut watched = [
            PollFd::new(&stages, PollFlags::IN),
            PollFd::new(&child.pidfd, PollFlags::IN),
        ];
        let left = deadline.saturating_duration_since(Instant::now());
        match rustix::event::poll(&mut watched, Some(&timespec(left))) {
            Ok(0) => {
                rustix::process::pidfd_send_signal(&child.pidfd, Signal::KILL)?;
                return Ok(());
            }
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if !watched[0].revents().contains(PollFlags::IN) {
            return Ok(());
        }
        let mut chunk = [0; 256];
        let length = stages.read(&mut chunk)?;
        if length == 0 {
            return Ok(());
        }
        line.extend(&chunk[..length]);
        while let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            let rest = line.split_off(end + 1);
            let text = String::from_utf8_lossy(&line[..end]).into_owned();
            line = rest;
            let (stage, pid) = text.split_once(' ').unwrap_or((&text, "0"));
            let asked = Instant::now();
            let answer = at_stage(stage, pid.trim().parse().unwrap_or_default());
            deadline += asked.elapsed();
            let answer: &[u8] = match answer {
                Answer::Go => b"go\n",
                Answer::GiveUp => b"stop\n",
                Answer::Die => {
                    rustix::process::pidfd_send_signal(&child.pidfd, Signal::KILL)?;
                    return Ok(());
                }
            };
            // The hook is gone only when CRIU is.
            answers.write_all(answer).ok();
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    })
}

fn wait(child: &Child) -> Result<Option<i32>, StepError> {
    let pidfd = WaitId::PidFd(child.pidfd.as_fd());
    let ended = rustix::io::retry_on_intr(|| {
        rustix::process::waitid(pidfd.clone(), WaitIdOptions::EXITED)
    })?;
    Ok(ended.and_then(|ended| ended.exit_status()))
}

/// Asks the server whether a dump or a restore goes on. Where nobody answers, it does not.
pub(super) fn is_allowed(channel: &Channel, stage: Stage, pid: i32) -> bool {
    let asked = channel.send(&Report::Stage { stage, pid }, &[]);
    let answer = asked.and_then(|()| channel.receive::<Permission>());
    matches!(answer, Ok(Some((Permission::Go, _))))
}

/// Opens a file or directory of the host without following its last link.
pub(super) fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, StepError> {
    rustix::fs::open(
        path,
        flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .about(|| path.display().to_string())
}
