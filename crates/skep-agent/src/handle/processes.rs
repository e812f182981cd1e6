//! Processes and files of the sandbox, as kernels need them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::{Pid, Signal, WaitStatus};
use skep_kernels::{
    Command, Exit, Inherited, Meter, ProcessMeter, Processes, SandboxSettings, Started,
};

use super::AgentHandle;
use crate::agent::Agent;
use crate::process::{Child, Program, StartError};
use crate::rootfs::{self, Directory, Location, Name};
use crate::sandbox::identifier;
use crate::sandbox::metrics;
use crate::sandbox::users::User;

impl AgentHandle {
    /// Does what blocks beside the runtime.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Agent) -> Result<T, StartError> + Send + 'static,
    ) -> io::Result<T> {
        let agent = Arc::clone(&self.agent);
        tokio::task::spawn_blocking(move || work(&agent))
            .await
            .map_err(io::Error::other)?
            .map_err(io::Error::other)
    }

    fn default_user(&self) -> io::Result<User> {
        self.agent
            .spawner
            .user(None, &self.agent.settings.current())
            .map_err(io::Error::other)
    }
}

impl Processes for AgentHandle {
    /// A program that does not run yet is killed when this is dropped.
    fn start(
        &self,
        command: Command,
        standard: [OwnedFd; 3],
    ) -> BoxFuture<'_, io::Result<Started>> {
        async move {
            let forked = self.blocking(move |agent| {
                agent.spawner.fork_program(
                    agent.processes.reaper(),
                    &agent.settings.current(),
                    &program(command),
                    &standard,
                )
            });
            let (child, starting) = forked.await?;
            starting.run().await.map_err(io::Error::other)?;
            Ok(started(child))
        }
        .boxed()
    }

    fn fork(
        &self,
        command: Command,
        standard: [OwnedFd; 3],
    ) -> BoxFuture<'_, io::Result<Option<Started>>> {
        async move {
            if self.agent.spawner.fork_client.is_none() {
                return Ok(None);
            }
            let forked = self.blocking(move |agent| {
                agent.spawner.fork_kernel(
                    agent.processes.reaper(),
                    &agent.settings.current(),
                    &program(command),
                    standard,
                )
            });
            Ok(Some(started(forked.await?)))
        }
        .boxed()
    }

    fn adopt(&self, number: u32) -> BoxFuture<'_, io::Result<Started>> {
        async move {
            let process = pid(number)?;
            let adopted = self.blocking(move |agent| {
                let (reaper, config) = (agent.processes.reaper(), agent.settings.current());
                agent.spawner.adopt(reaper, &config, process)
            });
            Ok(started(adopted.await?))
        }
        .boxed()
    }

    fn signal(&self, number: u32, signal: Signal) -> io::Result<()> {
        let leader = pid(number)?;
        self.agent.processes.reaper().signal_group(leader, signal)
    }

    /// Made below `/run`.
    fn make_directory(&self) -> io::Result<PathBuf> {
        let user = self.default_user()?;
        let name = format!("skep-{}", identifier::random(12));
        let run = Directory::find("/run")?;
        run.make_private(&Name::new(name.as_str())?, (user.uid, user.gid))?;
        Ok(PathBuf::from(format!("/run/{name}")))
    }

    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let user = self.default_user()?;
        // A new one, or none: the directory may be the user's, and hold a link.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = File::from(location(path)?.open(flags, Mode::from_raw_mode(0o600))?);
        file.write_all(content)?;
        fchown(&file, Some(user.uid), Some(user.gid))
    }

    fn remove_directory(&self, directory: &Path) -> io::Result<()> {
        location(directory)?.remove()
    }

    fn read_file(&self, path: &Path, longest: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        let file = rootfs::regular_for_reading(path)?;
        file.take(longest.saturating_add(1))
            .read_to_end(&mut content)?;
        if content.len() as u64 > longest {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(content)
    }

    fn names_in(&self, directory: &Path, most: usize) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Directory::find(directory)?.entries()? {
            if names.len() == most {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            names.push(entry?.name);
        }
        Ok(names.iter().filter_map(Name::as_text).collect())
    }

    fn is_file(&self, path: &Path) -> bool {
        let kind = rootfs::stat(path).map(|stat| FileType::from_raw_mode(stat.st_mode));
        kind.is_ok_and(FileType::is_file)
    }

    fn modified(&self, path: &Path) -> Option<SystemTime> {
        let stat = rootfs::stat(path).ok()?;
        let seconds = Duration::from_secs(stat.st_mtime.unsigned_abs());
        let second = if stat.st_mtime < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(seconds)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(seconds)
        };
        second?.checked_add(Duration::from_nanos(stat.st_mtime_nsec))
    }

    fn null_device(&self) -> io::Result<OwnedFd> {
        rootfs::null_device(OFlags::RDWR)
    }

    fn out_of_memory_kills(&self) -> Option<u64> {
        self.agent.spawner.out_of_memory_kills()
    }

    /// More than half of the memory is too much for a spare, and so is what cannot be found out.
    fn is_short_of_memory(&self) -> BoxFuture<'static, bool> {
        let limit = u64::from(self.agent.settings.current().memory_mib) << 20;
        let measured = tokio::task::spawn_blocking(metrics::resident_memory);
        async move { measured.await.map_or(true, |used| used > limit / 2) }.boxed()
    }

    fn inherited(&self) -> Inherited {
        Inherited {
            environment: self.environment(),
            directory: self.directory(),
        }
    }
}

fn pid(number: u32) -> io::Result<Pid> {
    let number = i32::try_from(number).ok().and_then(Pid::from_raw);
    number.ok_or(io::ErrorKind::NotFound.into())
}

fn program(command: Command) -> Program {
    Program {
        arguments: command.arguments,
        environment: command.environment,
        directory: None,
    }
}

/// Describes a child to the owner of its kernel. Where the server lent no cgroups there is
/// nothing to measure but the process itself.
fn started(child: Child) -> Started {
    let pid = child.pid.as_raw_nonzero().get().unsigned_abs();
    let meter: Arc<dyn Meter> = match child.cgroup {
        Some(cgroup) => Arc::new(cgroup),
        None => Arc::new(ProcessMeter::new(pid)),
    };
    let exit = child.exit.map(|status| status.map_or(Exit::Unknown, exit));
    Started {
        pid,
        exit: exit.boxed(),
        meter,
    }
}

fn exit(status: WaitStatus) -> Exit {
    Exit::of(status.exit_status(), status.terminating_signal())
}

fn location(path: &Path) -> io::Result<Location> {
    let path = path.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
    Location::find(path)
}
