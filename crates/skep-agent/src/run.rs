//! Start of an agent, from descriptors to listening sockets.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use futures_util::future::Either;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use skep_agent_protocol::AgentConfig;
use skep_telemetry::Chain;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::agent::{Agent, LISTINGS};
use crate::filesystem::watch::Watchers;
use crate::handle::AgentHandle;
use crate::http::routes::routes;
use crate::http::serve::serve;
use crate::options::{Listen, Options};
use crate::process::cgroups::CgroupPool;
use crate::process::fork_client::ForkClient;
use crate::process::reaper::{Orphans, Reaper};
use crate::process::{Processes, Spawner};
use crate::rootfs;
use crate::sandbox::log::SandboxLog;
use crate::sandbox::memory_info::{MemoryFiles, MemoryKeeper};
use crate::sandbox::metrics::Meter;
use crate::sandbox::settings::{self, Settings};
use crate::sandbox::trust;
use crate::sandbox::users::Accounts;

/// Far more than a configuration needs.
const MAX_CONFIG: u64 = 4 << 20;

/// Two are enough to answer a short call beside a long one.
const WORKERS: usize = 2;

/// Calls that block at the same time; the others wait.
const MAX_BLOCKING: usize = 64;

/// Errors of starting the agent, or of running it.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The launcher's descriptor cannot be read.
    #[error("cannot read the configuration")]
    Config(#[source] io::Error),
    /// The launcher and the agent are of different versions.
    #[error("cannot parse the configuration")]
    ParseConfig(#[source] serde_json::Error),
    /// The directories from which files are opened are not there: this is not a sandbox.
    #[error("cannot open the root of the sandbox")]
    Root(#[source] io::Error),
    /// Requests that the owner's rules look into would all fail.
    #[error("cannot have the sandbox trust the authority of its rules")]
    Trust(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The memory for the log cannot be written.
    #[error("cannot start the log")]
    Log(#[source] io::Error),
    /// The sandbox would be able to read the agent's memory.
    #[error("cannot protect the agent from the sandbox")]
    Protect(#[source] io::Error),
    /// The runtime could not be built.
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    /// The port is taken, or there is no network.
    #[error("cannot listen")]
    Listen(#[source] io::Error),
    /// The launcher, which waits for the agent, will not learn that it is ready.
    #[error("cannot report readiness")]
    Ready(#[source] io::Error),
    /// Children could not be waited for.
    #[error("cannot wait for children")]
    Reap(#[source] io::Error),
}

/// Runs the agent. Returns only if it cannot start.
///
/// To be called before the process has threads: as the first process it gives up what others
/// could use to look into it. Logs go to whatever subscriber the caller has installed.
///
/// # Errors
///
/// The reason for which it could not start.
pub fn run(options: Options) -> Result<(), RunError> {
    if options.orphans == Orphans::Reap {
        // Before there are threads and before any code of the sandbox runs, which could look into
        // this process otherwise.
        skep_linux::protect_first_process().map_err(RunError::Protect)?;
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    }
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(MAX_BLOCKING)
        .thread_name("skep-agent")
        .enable_all()
        .build()
        .map_err(RunError::Runtime)?
        .block_on(start(options))
}

async fn start(options: Options) -> Result<(), RunError> {
    // Before anything else: code in the sandbox can replace what is mounted or linked there.
    rootfs::hold().map_err(RunError::Root)?;
    let config = read_config(options.config)?;
    if let Err(error) = settings::write_identity(&config, &options.identity_directory) {
        // The variables tell programs the same, so a sandbox without these files still works.
        tracing::warn!(error = %Chain(&error), "cannot write the identity of the sandbox");
    }
    if let Some(authority) = &config.authority {
        trust::trust(authority).map_err(|error| RunError::Trust(error.into()))?;
    }
    let memory_keeper = keep_memory_info(options.memory_files, &config);
    let log = SandboxLog::open(options.log).map_err(RunError::Log)?;
    let reaper = Arc::new(Reaper::new(options.orphans));
    let spawner = Spawner {
        accounts: Accounts {
            passwd: options.passwd,
            group: options.group,
        },
        path: options.path,
        cgroups: options.work_cgroups,
        kernel_cgroups: CgroupPool::new(options.kernel_cgroups).map(Arc::new),
        fork_client: options.fork_socket.map(ForkClient::new),
        kill_count: options.kill_count,
        memory_keeper,
        open_files: raise_open_files(),
        raise_oom_score: has_adjusted_oom_score(),
        start_timeout: options.start_timeout,
    };
    let agent = Arc::new(Agent {
        settings: Settings::new(config),
        processes: Arc::new(Processes::new(Arc::clone(&reaper), log)),
        spawner: Arc::new(spawner),
        watchers: Watchers::default(),
        listings: Arc::new(Semaphore::new(LISTINGS)),
        meter: Meter::new(),
        identity_directory: options.identity_directory,
    });
    let listener = listen(options.listen).await.map_err(RunError::Listen)?;
    let side_service = match options.side_service {
        Some(side_service) => {
            let listener = listen(side_service.listen)
                .await
                .map_err(RunError::Listen)?;
            let routes = (side_service.routes)(AgentHandle::new(Arc::clone(&agent)));
            Either::Left(serve(listener, routes))
        }
        None => Either::Right(std::future::pending()),
    };
    // Both sockets listen by now: a caller that comes on this news waits in their queues and is not
    // refused.
    if let Some(ready) = options.ready {
        File::from(ready)
            .write_all(b"\n")
            .map_err(RunError::Ready)?;
    }
    tracing::info!("agent listens");
    tokio::select! {
        () = serve(listener, routes(&agent)) => Ok(()),
        () = side_service => Ok(()),
        reaped = reaper.run() => reaped.map_err(RunError::Reap),
    }
}

/// Keeps `/proc/meminfo` up to date, if the launcher has put a file of ours there. Without that the
/// sandbox works, and is told nothing of what it uses.
fn keep_memory_info(
    [info, used, statistics]: [Option<OwnedFd>; 3],
    config: &AgentConfig,
) -> Option<Arc<MemoryKeeper>> {
    let files = MemoryFiles {
        info: info?,
        used: used?,
        statistics: statistics?,
    };
    match MemoryKeeper::start(files, u64::from(config.memory_mib) << 20) {
        Ok(keeper) => Some(keeper),
        Err(error) => {
            tracing::warn!(%error, "memory info is not kept up to date");
            None
        }
    }
}

async fn listen(listen: Listen) -> io::Result<TcpListener> {
    match listen {
        Listen::At(address) => TcpListener::bind(address).await,
        Listen::On(listener) => {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        }
    }
}

fn read_config(descriptor: OwnedFd) -> Result<AgentConfig, RunError> {
    let mut text = Vec::new();
    File::from(descriptor)
        .take(MAX_CONFIG)
        .read_to_end(&mut text)
        .map_err(RunError::Config)?;
    serde_json::from_slice(&text).map_err(RunError::ParseConfig)
}

/// Takes all descriptors it may have; answers the limit that its children get instead.
fn raise_open_files() -> Option<Rlimit> {
    let before = getrlimit(Resource::Nofile);
    if before.current == before.maximum {
        return None;
    }
    let raised = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => Some(before),
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit of open files");
            None
        }
    }
}

fn has_adjusted_oom_score() -> bool {
    rootfs::kernel_file("/proc/self/oom_score_adj").is_ok_and(|score| score.trim() != "0")
}
