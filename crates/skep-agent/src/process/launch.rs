//! Starting a process, from the request to the running child.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::WaitStatus;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::tcsetwinsize;
use skep_agent_protocol::AgentConfig;
use skep_linux::spawn_as::{SpawnError, SpawnSession};
use skep_wire::rpc::process as wire;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::input::Input;
use super::owner::{MemoryWatch, Outputs, own};
use super::spawner::{Attachments, Program, Spawner};
use super::starting::Starting;
use super::subscribers::Subscribers;
use super::{Process, Processes, window};
use crate::process::pipe_end::PipeEnd;
use crate::rootfs;
use crate::sandbox::path::PathError;
use crate::sandbox::users::{User, UserError};

/// A caller's request to start a process.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) process: wire::ProcessConfig,
    pub(super) terminal: Option<wire::pty::Size>,
    pub(super) stdin: bool,
    pub(super) tag: Option<String>,
    pub(super) username: Option<String>,
    pub(super) deadline: Option<Instant>,
}

/// Errors of starting a process.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("invalid username: '{name}'")]
    User { name: String, source: UserError },
    #[error("process command is required")]
    NoCommand,
    #[error("{what} contains a zero byte")]
    ZeroByte { what: &'static str },
    #[error("environment variable name '{name}' is not valid")]
    VariableName { name: String },
    #[error("cwd cannot be resolved")]
    Path(#[source] PathError),
    #[error("cwd '{path}' does not exist")]
    NoDirectory { path: String },
    #[error("cwd '{path}' is not a directory")]
    NotADirectory { path: String },
    #[error("cannot start '{command}'")]
    Spawn { command: String, source: SpawnError },
    #[error("'{command}' did not start within {} s; something in the sandbox stops it", timeout.as_secs())]
    Stuck { command: String, timeout: Duration },
    #[error("cannot make a cgroup for the process")]
    Cgroup(#[source] io::Error),
    #[error("cannot have a kernel forked")]
    Fork(#[source] io::Error),
    #[error("cannot make the pipes of the process")]
    Stdio(#[source] io::Error),
}

/// Starts a process and listens to it from its first byte.
///
/// The work is done in a task of its own: a caller that gives up in the middle leaves a
/// process that is known and has its deadline, not one that nobody knows.
pub(super) async fn start(
    processes: Arc<Processes>,
    spawner: Arc<Spawner>,
    config: Arc<AgentConfig>,
    launch: Launch,
) -> Result<
    (
        Arc<Process>,
        tokio::sync::mpsc::Receiver<super::subscribers::Output>,
    ),
    StartError,
> {
    let task = skep_telemetry::spawn("start process", async move {
        let deadline = launch.deadline;
        let memory = MemoryWatch::begin(Arc::clone(&spawner));
        let forked = {
            let processes = Arc::clone(&processes);
            tokio::task::spawn_blocking(move || fork(&processes, &spawner, &config, launch))
        }
        .await
        .map_err(|panic| StartError::Stdio(io::Error::other(panic)))??;
        forked.starting.run().await?;
        let process = Arc::new(forked.process);
        // Before anything is read from the process, so that the caller gets its first byte.
        let output = process.subscribers.subscribe();
        processes.add(Arc::clone(&process));
        skep_telemetry::spawn(
            "own process",
            own(
                Arc::clone(&processes),
                Arc::clone(&process),
                forked.outputs,
                forked.exit,
                deadline,
                memory,
            ),
        );
        Ok((process, output))
    });
    match task.await {
        Ok(Some(answer)) => answer,
        Ok(None) | Err(_) => Err(StartError::Stdio(io::Error::other("starting panicked"))),
    }
}

struct Forked {
    process: Process,
    outputs: Outputs,
    starting: Starting,
    exit: oneshot::Receiver<WaitStatus>,
}

fn fork(
    processes: &Processes,
    spawner: &Spawner,
    config: &AgentConfig,
    launch: Launch,
) -> Result<Forked, StartError> {
    let user = spawner.user(launch.username.as_deref(), config)?;
    let stdio = match &launch.terminal {
        Some(size) => Stdio::terminal(size, &user),
        None => Stdio::pipes(launch.stdin),
    }
    .map_err(StartError::Stdio)?;
    let (starting, exit) = spawner.fork(
        processes.reaper(),
        config,
        &user,
        &program(&launch.process),
        &Attachments {
            standard: stdio.standard(),
            session: match &launch.terminal {
                Some(_) => SpawnSession::Terminal,
                None => SpawnSession::Callers,
            },
            cgroup: None,
        },
    )?;
    // Closes the child's ends: its output only ends when no copy of them is open any more.
    let (input, outputs) = stdio.into_ours();
    let process = Process {
        pid: starting.pid,
        config: launch.process,
        tag: launch.tag,
        input,
        terminal: match &outputs {
            Outputs::Terminal(terminal) => Some(Arc::clone(terminal)),
            Outputs::Pipes { .. } => None,
        },
        subscribers: Subscribers::default(),
        released: CancellationToken::new(),
        gone: CancellationToken::new(),
    };
    Ok(Forked {
        process,
        outputs,
        starting,
        exit,
    })
}

fn program(process: &wire::ProcessConfig) -> Program {
    let command = std::iter::once(&process.cmd);
    Program {
        arguments: command.chain(&process.args).cloned().collect(),
        environment: process
            .envs
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        directory: process.cwd.clone(),
    }
}

/// The two ends of everything between the agent and a process.
enum Stdio {
    Pipes {
        stdin: Stdin,
        stdout: (PipeEnd, OwnedFd),
        stderr: (PipeEnd, OwnedFd),
    },
    Terminal {
        ours: PipeEnd,
        theirs: OwnedFd,
    },
}

enum Stdin {
    Pipe { ours: PipeEnd, theirs: OwnedFd },
    Null(OwnedFd),
}

impl Stdio {
    fn pipes(stdin: bool) -> io::Result<Self> {
        let stdin = if stdin {
            let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
            Stdin::Pipe {
                ours: PipeEnd::new(ours)?,
                theirs,
            }
        } else {
            Stdin::Null(rootfs::null_device(OFlags::RDONLY)?)
        };
        let output = || -> io::Result<_> {
            let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
            Ok((PipeEnd::new(ours)?, theirs))
        };
        Ok(Self::Pipes {
            stdin,
            stdout: output()?,
            stderr: output()?,
        })
    }

    fn terminal(size: &wire::pty::Size, user: &User) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = rootfs::terminal_multiplexer()?;
        unlockpt(&ours)?;
        // The other end comes from this one and not from a name in the sandbox's /dev/pts.
        let theirs = ioctl_tiocgptpeer(&ours, flags)?;
        tcsetwinsize(&ours, window(size))?;
        // Programs like tmux open the terminal again, by its name and as the user.
        let owner = rustix::fs::Uid::from_raw(user.uid);
        rustix::fs::fchown(&theirs, Some(owner), None)?;
        Ok(Self::Terminal {
            ours: PipeEnd::new(ours)?,
            theirs,
        })
    }

    fn standard(&self) -> [BorrowedFd<'_>; 3] {
        match self {
            Self::Pipes {
                stdin,
                stdout,
                stderr,
            } => {
                let stdin = match stdin {
                    Stdin::Pipe { theirs, .. } | Stdin::Null(theirs) => theirs,
                };
                [stdin.as_fd(), stdout.1.as_fd(), stderr.1.as_fd()]
            }
            Self::Terminal { theirs, .. } => [theirs.as_fd(); 3],
        }
    }

    /// Closes the other ends and keeps ours.
    fn into_ours(self) -> (Input, Outputs) {
        match self {
            Self::Pipes {
                stdin,
                stdout: (stdout, _),
                stderr: (stderr, _),
            } => {
                let input = match stdin {
                    Stdin::Pipe { ours, .. } => Input::stdin(ours),
                    Stdin::Null(_) => Input::None,
                };
                (input, Outputs::Pipes { stdout, stderr })
            }
            Self::Terminal { ours, .. } => {
                let terminal = Arc::new(ours);
                (
                    Input::terminal(Arc::clone(&terminal)),
                    Outputs::Terminal(terminal),
                )
            }
        }
    }
}
