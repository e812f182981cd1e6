//! Interface of the agent for another service in its process.
//!
//! As the first process the agent alone can wait for children, and it alone knows who the
//! sandbox is. A side service (the interpreter) starts its processes here, so that they join the
//! same cgroups, run as the same user and see the same variables as any command.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::{Pid, Signal, WaitStatus};
use skep_wire::rpc::process as wire;
use tokio::sync::oneshot;

use crate::agent::Agent;
use crate::identifier;
use crate::metrics;
use crate::options::Listen;
use crate::process::StartError;
use crate::process::cgroups::Cgroup;
use crate::rootfs::{self, Directory, Location, Name};
use crate::settings;
use crate::signature::equal;
use crate::users::User;

/// A second service of the agent's process, on a port of its own.
pub struct SideService {
    /// Address or socket of its listener.
    pub listen: Listen,
    /// Makes its routes. Called within the runtime, before the agent says that it is ready.
    pub routes: Box<dyn FnOnce(AgentHandle) -> Router + Send>,
}

impl std::fmt::Debug for SideService {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SideService")
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

/// The agent as its side service sees it.
#[derive(Debug, Clone)]
pub struct AgentHandle {
    agent: Arc<Agent>,
}

/// A program to start as the sandbox's default user.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The command and its arguments.
    pub arguments: Vec<String>,
    /// Variables beside and over those of the sandbox.
    pub environment: BTreeMap<String, String>,
    /// Working directory; `None` is that of commands.
    pub directory: Option<String>,
}

/// A program that was started.
#[derive(Debug)]
pub struct Child {
    /// Its number in the sandbox. It leads a process group of the same number.
    pub pid: Pid,
    /// Receives its exit status.
    pub exit: oneshot::Receiver<WaitStatus>,
    /// The cgroup that it and what it starts is in, if the server lets us make one.
    pub cgroup: Option<Cgroup>,
}

/// Failure to start a program of the side service.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the program")]
pub struct ProgramError(#[source] StartError);

impl AgentHandle {
    pub(crate) fn new(agent: Arc<Agent>) -> Self {
        Self { agent }
    }

    /// Starts a program with the given standard descriptors, of which no copy is kept.
    ///
    /// # Cancel safety
    ///
    /// A program that does not run yet is killed when this is dropped.
    ///
    /// # Errors
    ///
    /// If it does not run: the program or the directory is not there, there is no process left, or
    /// something in the sandbox keeps it from starting.
    pub async fn start(
        &self,
        program: Program,
        standard: [OwnedFd; 3],
    ) -> Result<Child, ProgramError> {
        let agent = Arc::clone(&self.agent);
        let forked = tokio::task::spawn_blocking(move || {
            let [input, output, error] = &standard;
            agent.spawner.fork_plain(
                agent.processes.reaper(),
                &agent.settings.current(),
                &configuration(&program),
                [input.as_fd(), output.as_fd(), error.as_fd()],
            )
        });
        let panicked = |panic| ProgramError(StartError::Stdio(io::Error::other(panic)));
        let (starting, exit, cgroup) = forked.await.map_err(panicked)?.map_err(ProgramError)?;
        let pid = starting.run().await.map_err(ProgramError)?;
        Ok(Child { pid, exit, cgroup })
    }

    /// Has the server fork a kernel that is what [`AgentHandle::start`] would start, in a fraction
    /// of the time. Blocks.
    ///
    /// # Errors
    ///
    /// If there is none to be had, for any reason: start it then, with new descriptors.
    pub fn fork(&self, program: &Program, standard: [OwnedFd; 3]) -> Result<Child, ProgramError> {
        let (pid, exit, cgroup) = self
            .agent
            .spawner
            .fork_kernel(
                self.agent.processes.reaper(),
                &self.agent.settings.current(),
                &configuration(program),
                standard,
            )
            .map_err(ProgramError)?;
        Ok(Child { pid, exit, cgroup })
    }

    /// Returns true if there is a server to ask for forked kernels.
    pub fn can_fork(&self) -> bool {
        self.agent.spawner.fork_client.is_some()
    }

    /// Signals a child of [`AgentHandle::start`] and its process group.
    ///
    /// # Errors
    ///
    /// `NotFound` if it has ended.
    pub fn signal_group(&self, leader: Pid, signal: Signal) -> io::Result<()> {
        self.agent.processes.reaper().signal_group(leader, signal)
    }

    /// Returns the number of processes of the sandbox that the OOM killer has taken; `None` if that
    /// cannot be seen.
    pub fn out_of_memory_kills(&self) -> Option<u64> {
        self.agent.spawner.out_of_memory_kills()
    }

    /// Returns true if the processes of the sandbox use more than half of the memory it may have,
    /// or if that cannot be found out. Blocks.
    pub fn is_short_of_memory(&self) -> bool {
        let limit = u64::from(self.agent.settings.current().memory_mib) << 20;
        metrics::resident_memory() > limit / 2
    }

    /// Makes an empty directory below `/run` that only the sandbox's default user can enter.
    ///
    /// # Errors
    ///
    /// If there is no such user, or no room.
    pub fn make_directory(&self) -> io::Result<PathBuf> {
        let user = self.default_user()?;
        let name = format!("skep-{}", identifier::random(12));
        let run = Directory::find("/run")?;
        run.make_private(&Name::new(name.as_str())?, (user.uid, user.gid))?;
        Ok(PathBuf::from(format!("/run/{name}")))
    }

    /// Removes a directory of [`AgentHandle::make_directory`] and what is in it.
    ///
    /// # Errors
    ///
    /// If something in it cannot be removed.
    pub fn remove_directory(&self, directory: &Path) -> io::Result<()> {
        location(directory)?.remove()
    }

    /// Writes a new file that only the sandbox's default user can read.
    ///
    /// # Errors
    ///
    /// If there is no such user, something is there already, or there is no room.
    pub fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let user = self.default_user()?;
        // A new one, or none: the directory may be the user's, and hold a link.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = location(path)?.open(flags, Mode::from_raw_mode(0o600))?;
        let mut file = File::from(file);
        file.write_all(content)?;
        fchown(&file, Some(user.uid), Some(user.gid))
    }

    /// Reads a file of the sandbox that is not longer than this, and nothing but a file.
    ///
    /// # Errors
    ///
    /// If there is none, it is longer, or it must not be read.
    pub fn read_file(&self, path: &Path, longest: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        let file = rootfs::regular_for_reading(path)?;
        file.take(longest.saturating_add(1))
            .read_to_end(&mut content)?;
        if content.len() as u64 > longest {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(content)
    }

    /// The names in a directory of the sandbox, as far as they are text, if there are at most
    /// `most`.
    ///
    /// # Errors
    ///
    /// If there is no directory, it holds more, or it must not be read.
    pub fn names_in(&self, directory: &Path, most: usize) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Directory::find(directory)?.entries()? {
            if names.len() == most {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            names.push(entry?.name);
        }
        Ok(names.iter().filter_map(Name::as_text).collect())
    }

    /// Returns true if a path of the sandbox leads to a file.
    pub fn is_file(&self, path: &Path) -> bool {
        let kind = rootfs::stat(path).map(|stat| FileType::from_raw_mode(stat.st_mode));
        kind.is_ok_and(FileType::is_file)
    }

    /// Returns the modification time of what a path of the sandbox leads to; `None` if that is
    /// nothing.
    pub fn modified(&self, path: &Path) -> Option<SystemTime> {
        let stat = rootfs::stat(path).ok()?;
        let seconds = Duration::from_secs(stat.st_mtime.unsigned_abs());
        let second = if stat.st_mtime < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(seconds)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(seconds)
        };
        second?.checked_add(Duration::from_nanos(stat.st_mtime_nsec))
    }

    /// Opens what swallows everything and holds nothing, whatever the sandbox has put in its
    /// place.
    ///
    /// # Errors
    ///
    /// If no descriptor is left.
    pub fn null_device(&self) -> io::Result<OwnedFd> {
        rootfs::null_device(OFlags::RDWR)
    }

    fn default_user(&self) -> io::Result<User> {
        self.agent
            .spawner
            .user(None, &self.agent.settings.current())
            .map_err(io::Error::other)
    }

    /// Returns the environment that every process of the sandbox gets, as of now.
    pub fn environment(&self) -> BTreeMap<String, String> {
        settings::environment(&self.agent.settings.current())
    }

    /// Returns the values that output of the sandbox must not show, as of now.
    pub fn secrets(&self) -> Vec<String> {
        self.agent.settings.current().secrets.clone()
    }

    /// Returns true if a caller that shows this token may use the sandbox.
    pub fn admits(&self, token: Option<&[u8]>) -> bool {
        match &self.agent.settings.current().access_token {
            Some(secret) => token.is_some_and(|shown| equal(shown, secret.as_bytes())),
            None => true,
        }
    }

    /// Returns true if a caller that shows this traffic token may use what it opens. Where the
    /// server has set none, no caller may.
    pub fn admits_traffic(&self, token: Option<&[u8]>) -> bool {
        let config = self.agent.settings.current();
        let secret = config.traffic_token.as_deref().filter(|it| !it.is_empty());
        secret
            .zip(token)
            .is_some_and(|(secret, shown)| equal(shown, secret.as_bytes()))
    }

    /// Returns the working directory of commands whose caller names none.
    ///
    /// # Errors
    ///
    /// If the sandbox has no default user any more.
    pub fn default_directory(&self) -> Result<String, ProgramError> {
        self.agent
            .spawner
            .default_directory(&self.agent.settings.current())
            .map_err(ProgramError)
    }
}

fn location(path: &Path) -> io::Result<Location> {
    let path = path.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
    Location::find(path)
}

fn configuration(program: &Program) -> wire::ProcessConfig {
    let mut arguments = program.arguments.iter().cloned();
    wire::ProcessConfig {
        cmd: arguments.next().unwrap_or_default(),
        args: arguments.collect(),
        envs: program
            .environment
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        cwd: program.directory.clone(),
    }
}
