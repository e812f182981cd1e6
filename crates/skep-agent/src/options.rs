//! Start parameters of an agent.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use skep_agent_protocol::fds;
use skep_wire::agent::AGENT_PORT;

use crate::handle::SideService;
use crate::process::reaper::Orphans;

/// Time limit for a child to execute its program. A host that is out of memory and reads its
/// programs from a slow disk takes seconds.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Listening address or socket of the agent.
#[derive(Debug)]
pub enum Listen {
    /// An address that nobody uses yet.
    At(SocketAddr),
    /// A socket that listens already.
    On(TcpListener),
}

/// Descriptors that the launcher hands over, and paths in the sandbox.
#[derive(Debug)]
pub struct Options {
    /// The configuration as JSON, read to its end before anything else is done.
    pub config: OwnedFd,
    /// Gets one byte and is closed when the agent listens.
    pub ready: Option<OwnedFd>,
    /// Memory for what the processes of the sandbox say, as [`skep_agent_protocol::log`] lays it
    /// out; without it nothing is kept.
    pub log: Option<OwnedFd>,
    /// `cgroup.procs` files of the cgroups that every user process joins.
    pub work_cgroups: Vec<OwnedFd>,
    /// Directories and `cgroup.procs` files, by name, with which a cgroup for each kernel is made.
    pub kernel_cgroups: Vec<(String, OwnedFd)>,
    /// Socket to the server, which forks kernels into this sandbox on request.
    pub fork_socket: Option<OwnedFd>,
    /// Counts, in a line `oom_kill <count>`, the processes that were killed for want of memory.
    pub kill_count: Option<OwnedFd>,
    /// The file over `/proc/meminfo`, what counts against the memory limit, and its parts; without
    /// all of them nothing is written there.
    pub memory_files: [Option<OwnedFd>; 3],
    /// Listening address or socket for callers.
    pub listen: Listen,
    /// Another service to run in this process.
    pub side_service: Option<SideService>,
    /// Value of `PATH` for user processes.
    pub path: String,
    /// The accounts of the sandbox.
    pub passwd: PathBuf,
    /// The groups of the sandbox.
    pub group: PathBuf,
    /// Directory whose files tell programs in which sandbox they run.
    pub identity_directory: String,
    /// Policy for orphans, which depends on whether this is the first process of its pid namespace.
    pub orphans: Orphans,
    /// Time limit for a child to execute its program; then it is killed.
    pub start_timeout: Duration,
}

/// A descriptor without which an agent cannot start was not handed over.
#[derive(Debug, thiserror::Error)]
#[error("descriptor `{0}` is missing")]
pub struct MissingFd(&'static str);

impl Options {
    /// Returns the options for a sandbox, from the descriptors that the launcher hands over by
    /// the names in [`skep_agent_protocol::fds`]. Names that are not known are ignored.
    ///
    /// # Errors
    ///
    /// [`MissingFd`] if the configuration is not among them.
    pub fn from_fds(named: impl IntoIterator<Item = (String, OwnedFd)>) -> Result<Self, MissingFd> {
        let mut config = None;
        let mut others = Vec::new();
        for (name, fd) in named {
            if name == fds::CONFIG {
                config = Some(fd);
            } else {
                others.push((name, fd));
            }
        }
        let mut options = Self::new(config.ok_or(MissingFd(fds::CONFIG))?);
        for (name, fd) in others {
            match name.as_str() {
                fds::READY => options.ready = Some(fd),
                fds::LOG => options.log = Some(fd),
                fds::WORK_CGROUP => options.work_cgroups.push(fd),
                fds::KILL_COUNT => options.kill_count = Some(fd),
                fds::MEMORY_INFO => options.memory_files[0] = Some(fd),
                fds::MEMORY_USED => options.memory_files[1] = Some(fd),
                fds::MEMORY_STATISTICS => options.memory_files[2] = Some(fd),
                fds::FORKS => options.fork_socket = Some(fd),
                name => {
                    if let Some(kernel) = name.strip_prefix(fds::KERNEL_CGROUP) {
                        options.kernel_cgroups.push((kernel.to_owned(), fd));
                    }
                }
            }
        }
        Ok(options)
    }

    /// Returns the options for a sandbox, where the agent is the first process.
    pub fn new(config: OwnedFd) -> Self {
        Self {
            config,
            ready: None,
            log: None,
            work_cgroups: Vec::new(),
            kernel_cgroups: Vec::new(),
            fork_socket: None,
            kill_count: None,
            memory_files: [const { None }; 3],
            listen: Listen::At((Ipv4Addr::UNSPECIFIED, AGENT_PORT).into()),
            side_service: None,
            path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            passwd: "/etc/passwd".into(),
            group: "/etc/group".into(),
            identity_directory: "/run/e2b".into(),
            orphans: Orphans::Reap,
            start_timeout: START_TIMEOUT,
        }
    }
}
