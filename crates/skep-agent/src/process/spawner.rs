//! Settings common to all processes of a sandbox, and starting one with them.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Rlimit, WaitStatus};
use skep_agent_protocol::AgentConfig;
use skep_agent_protocol::fork::ForkRequest;
use skep_linux::spawn_as::{SpawnAs, SpawnSession};
use tokio::sync::oneshot;

use super::cgroups::{Cgroup, CgroupPool};
use super::launch::StartError;
use super::starting::Starting;
use crate::process::fork_client::ForkClient;
use crate::process::reaper::Reaper;
use crate::rootfs;
use crate::sandbox::memory_info::MemoryKeeper;
use crate::sandbox::path;
use crate::sandbox::settings;
use crate::sandbox::users::{Accounts, User};

/// Settings common to all processes of this sandbox.
#[derive(Debug)]
pub(crate) struct Spawner {
    pub(crate) accounts: Accounts,
    /// Search path for programs.
    pub(crate) path: String,
    /// `cgroup.procs` files of the cgroups for the sandbox's own work.
    pub(crate) cgroups: Vec<OwnedFd>,
    /// Pool of cgroups for kernels; without it kernels run in those of all work.
    pub(crate) kernel_cgroups: Option<Arc<CgroupPool>>,
    /// Server to ask for kernels that need not be started.
    pub(crate) fork_client: Option<ForkClient>,
    /// Counts the processes that were killed for want of memory.
    pub(crate) kill_count: Option<OwnedFd>,
    /// Keeper of `/proc/meminfo`.
    pub(crate) memory_keeper: Option<Arc<MemoryKeeper>>,
    /// The limit that the agent had before it raised its own.
    pub(crate) open_files: Option<Rlimit>,
    /// True if, under memory pressure, started processes are to be killed before the agent.
    pub(crate) raise_oom_score: bool,
    /// Time limit for a child to execute its program.
    pub(crate) start_timeout: Duration,
}

/// Descriptors and cgroups of a new process.
pub(super) struct Attachments<'a> {
    /// Its standard descriptors.
    pub(super) standard: [BorrowedFd<'a>; 3],
    /// Its session and process group.
    pub(super) session: SpawnSession,
    /// A cgroup beside those of all work.
    pub(super) cgroup: Option<&'a Cgroup>,
}

/// A program to start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    /// The command and its arguments.
    pub(crate) arguments: Vec<String>,
    /// Variables beside and over those of the sandbox.
    pub(crate) environment: BTreeMap<String, String>,
    /// Working directory; `None` is the sandbox's.
    pub(crate) directory: Option<String>,
}

/// A process of the default user that was forked for a kernel.
#[derive(Debug)]
pub(crate) struct Child {
    /// Its number in the sandbox. It leads a process group of the same number.
    pub(crate) pid: Pid,
    /// Receives its exit status.
    pub(crate) exit: oneshot::Receiver<WaitStatus>,
    /// The cgroup that it and what it starts is in, if the server lets us make one.
    pub(crate) cgroup: Option<Cgroup>,
}

impl Spawner {
    /// Looks up the user that the caller named, or the default user.
    pub(crate) fn user(
        &self,
        name: Option<&str>,
        config: &AgentConfig,
    ) -> Result<User, StartError> {
        let name = name.unwrap_or_else(|| settings::default_user(config));
        self.accounts.find(name).map_err(|source| StartError::User {
            name: name.to_owned(),
            source,
        })
    }

    /// Has `/proc/meminfo` written anew, since something begins that may read it.
    pub(crate) fn renew_memory_info(&self) {
        if let Some(keeper) = &self.memory_keeper {
            keeper.renew();
        }
    }

    /// Forks the child that becomes the program. Must be called within the runtime.
    pub(super) fn fork(
        &self,
        reaper: &Arc<Reaper>,
        config: &AgentConfig,
        user: &User,
        program: &Program,
        attachments: &Attachments<'_>,
    ) -> Result<(Starting, oneshot::Receiver<WaitStatus>), StartError> {
        self.renew_memory_info();
        let directory = directory(program, user, config)?;
        let environment = environment(program, user, config, &self.path)?;
        let command = program
            .arguments
            .first()
            .filter(|name| !name.is_empty())
            .ok_or(StartError::NoCommand)?;
        let programs = programs(command, environment.get("PATH").map_or("", String::as_str))?;
        let arguments = program
            .arguments
            .iter()
            .map(|argument| c_string(argument, "argument"))
            .collect::<Result<Vec<_>, _>>()?;
        let variables = environment
            .iter()
            .map(|(name, value)| c_string(&format!("{name}={value}"), "environment"))
            .collect::<Result<Vec<_>, _>>()?;
        let own = join_fds(attachments.cgroup)?;
        // On v1 there is a hierarchy per controller, so a kernel also joins those cgroups of all
        // work for which it has none of its own, and joins its own, which lie below, last. On v2 a
        // process is in one cgroup only.
        let cgroups: Vec<_> = self
            .cgroups
            .iter()
            .filter(|_| attachments.cgroup.is_none_or(Cgroup::is_beside_work))
            .chain(&own)
            .map(AsFd::as_fd)
            .collect();
        let forked = reaper.fork(&SpawnAs {
            programs: &programs,
            arguments: &arguments,
            environment: &variables,
            directory: &directory,
            credentials: &user.credentials(),
            standard: attachments.standard,
            session: attachments.session,
            cgroups: &cgroups,
            open_files: self.open_files,
            raise_oom_score: self.raise_oom_score,
        });
        let (spawning, exit) = forked.map_err(|source| StartError::Spawn {
            command: command.clone(),
            source,
        })?;
        let starting = Starting::new(spawning, command, reaper, self.start_timeout)?;
        Ok((starting, exit))
    }

    /// Forks a child that becomes a program of the sandbox's default user, with the given standard
    /// descriptors and in a cgroup of its own if there are such. Must be called within the runtime.
    pub(crate) fn fork_program(
        &self,
        reaper: &Arc<Reaper>,
        config: &AgentConfig,
        program: &Program,
        standard: &[OwnedFd; 3],
    ) -> Result<(Child, Starting), StartError> {
        let user = self.user(None, config)?;
        let cgroup = self.take_cgroup()?;
        let attachments = Attachments {
            standard: standard.each_ref().map(AsFd::as_fd),
            // Interrupts go to the whole group, which is found by the kernel's own id.
            session: SpawnSession::Own,
            cgroup: cgroup.as_ref(),
        };
        let (starting, exit) = self.fork(reaper, config, &user, program, &attachments)?;
        let pid = starting.pid;
        Ok((Child { pid, exit, cgroup }, starting))
    }

    /// Has a kernel of the sandbox's default user forked by the server that is what
    /// [`Self::fork_program`] leads to. Blocks.
    pub(crate) fn fork_kernel(
        &self,
        reaper: &Reaper,
        config: &AgentConfig,
        program: &Program,
        standard: [OwnedFd; 3],
    ) -> Result<Child, StartError> {
        let fork_client = self
            .fork_client
            .as_ref()
            .ok_or_else(|| StartError::Fork(io::ErrorKind::Unsupported.into()))?;
        let user = self.user(None, config)?;
        let directory = directory(program, &user, config)?
            .into_string()
            .map_err(|error| StartError::Fork(io::Error::other(error)))?;
        let cgroup = self.take_cgroup()?;
        let join_fds = join_fds(cgroup.as_ref())?;
        let credentials = user.credentials();
        let request = ForkRequest {
            uid: credentials.uid,
            gid: credentials.gid,
            groups: credentials.groups,
            environment: environment(program, &user, config, &self.path)?,
            directory,
        };
        let forked = fork_client
            .ask(&request, standard, &join_fds)
            .map_err(StartError::Fork)?;
        let pid = forked.pid;
        // Known before it does anything, so that its end is not missed: the fork waits for its
        // first word, and until then only the server could end it.
        let exit = reaper.adopt(pid).map_err(StartError::Fork)?;
        forked.go().map_err(StartError::Fork)?;
        Ok(Child { pid, exit, cgroup })
    }

    pub(super) fn take_cgroup(&self) -> Result<Option<Cgroup>, StartError> {
        let taken = self.kernel_cgroups.as_ref().map(CgroupPool::take);
        taken.transpose().map_err(StartError::Cgroup)
    }

    /// Returns the number of processes that the OOM killer has taken, if that can be seen.
    pub(crate) fn out_of_memory_kills(&self) -> Option<u64> {
        let mut text = [0; 1024];
        // Read at its start again and again: the kernel writes it anew each time.
        let length = rustix::io::pread(self.kill_count.as_ref()?, &mut text, 0).ok()?;
        kills(std::str::from_utf8(&text[..length]).ok()?)
    }

    /// Returns the working directory of the sandbox's default user when a request names none.
    pub(crate) fn default_directory(&self, config: &AgentConfig) -> Result<String, StartError> {
        let user = self.user(None, config)?;
        path::resolve("", &user, config.default_workdir.as_deref()).map_err(StartError::Path)
    }
}

fn c_string(text: &str, what: &'static str) -> Result<CString, StartError> {
    CString::new(text).map_err(|_zero| StartError::ZeroByte { what })
}

/// Opens the files through which a process enters its own cgroup, if it has one.
fn join_fds(cgroup: Option<&Cgroup>) -> Result<Vec<OwnedFd>, StartError> {
    cgroup
        .map_or(Ok(Vec::new()), Cgroup::join_fds)
        .map_err(StartError::Cgroup)
}

fn directory(program: &Program, user: &User, config: &AgentConfig) -> Result<CString, StartError> {
    let requested = program.directory.as_deref().unwrap_or_default();
    let path = path::resolve(requested, user, config.default_workdir.as_deref())
        .map_err(StartError::Path)?;
    match rootfs::kind_of(&path) {
        Ok(kind) if kind.is_dir() => c_string(&path, "cwd"),
        Ok(_) => Err(StartError::NotADirectory { path }),
        Err(error) => match Errno::from_io_error(&error) {
            // Users such as `nobody` have a home that is not there.
            Some(Errno::NOENT | Errno::NOTDIR) if requested.is_empty() && path == user.home => {
                c_string("/", "cwd")
            }
            Some(Errno::NOENT | Errno::NOTDIR) => Err(StartError::NoDirectory { path }),
            // Another error comes again when the user tries to enter, and is told then.
            _ => c_string(&path, "cwd"),
        },
    }
}

/// Merges the environment; later wins: who the user is, what the sandbox was given, what the caller
/// wants.
fn environment(
    program: &Program,
    user: &User,
    config: &AgentConfig,
    path: &str,
) -> Result<BTreeMap<String, String>, StartError> {
    let mut environment = BTreeMap::from([
        ("PATH".to_owned(), path.to_owned()),
        ("HOME".to_owned(), user.home.clone()),
        ("USER".to_owned(), user.name.clone()),
        ("LOGNAME".to_owned(), user.name.clone()),
    ]);
    environment.extend(settings::environment(config));
    environment.extend(program.environment.clone());
    match environment
        .keys()
        .find(|name| name.is_empty() || name.contains('='))
    {
        Some(name) => Err(StartError::VariableName { name: name.clone() }),
        None => Ok(environment),
    }
}

/// Returns the paths at which a command may be. One with a slash is a path and is not looked for.
fn programs(command: &str, path: &str) -> Result<Vec<CString>, StartError> {
    if command.contains('/') {
        return Ok(vec![c_string(command, "command")?]);
    }
    path.split(':')
        .map(|directory| if directory.is_empty() { "." } else { directory })
        .map(|directory| c_string(&path::join(directory, command), "command"))
        .collect()
}

fn kills(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_counted_in_the_words_of_both_kinds_of_cgroups() {
        assert_eq!(
            kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
            Some(3)
        );
        assert_eq!(
            kills("low 0\nhigh 1\nmax 2\noom 4\noom_kill 5\noom_group_kill 0\n"),
            Some(5)
        );
        assert_eq!(kills("under_oom 0\n"), None);
    }
}
