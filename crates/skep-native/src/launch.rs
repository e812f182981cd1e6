//! Launching sandboxes.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use skep_host::{CgroupSource, DiskSource, Lease, LeaseError, Leases, TakenSlot, Terms};
use skep_isolation::{LaunchError, LaunchRequest, Sandbox as _};
use skep_launch::{ForkServer, LaunchPlan, LaunchedBy, SpawnError, Started, Step};
use skep_linux::{packet, sealed_file};
use skep_telemetry::{Chain, Counter, trace};
use tokio::io::AsyncReadExt;
use tracing::{Span, debug_span};

use crate::config::NativeConfig;
use crate::image::LaunchOrder;
use crate::plan::{self, AgentFds};
use crate::process::ProcessHandle;
use crate::record::{self, Record};
use crate::sandbox::{FirstProcess, NativeSandbox, Owners};
use crate::stderr::Stderr;
use crate::zygote::{self, Client, Holder, ZygoteKey};

/// Time limit for the launcher. It takes milliseconds, unless the host is overloaded.
const LAUNCHER_TIMEOUT: Duration = Duration::from_secs(30);

/// Numbers of launched sandboxes, by the kind of their launcher.
#[derive(Debug, Default)]
pub struct LaunchCounts {
    /// Those launched by a fork of the fork server.
    pub by_fork: Counter,
    /// Those launched by a launcher of their own, because the fork server did not answer.
    pub by_own_launcher: Counter,
}

/// Launches sandboxes.
#[derive(Debug)]
pub(crate) struct SandboxLauncher {
    pub(crate) config: NativeConfig,
    pub(crate) leases: Arc<Leases>,
    pub(crate) owners: Owners,
    pub(crate) fork_server: ForkServer,
    pub(crate) counts: Arc<LaunchCounts>,
    agent: OwnedFd,
    /// Step at which the next launches are to fail. For tests.
    pub(crate) fail_at: Mutex<Option<Step>>,
}

/// A sandbox whose first process runs, but has not said that it listens.
#[derive(Debug)]
pub(crate) struct LaunchedProcess {
    pub(crate) lease: Lease,
    pub(crate) started: Started,
    pub(crate) stderr: Option<Stderr>,
    /// Number of the agent's descriptor of its log.
    pub(crate) log_fd: i32,
    /// Socket on which its agent asks for kernels, if it is below a zygote.
    pub(crate) forks: Option<OwnedFd>,
    /// Its disk, if its changes are to become a layer.
    pub(crate) layer_disk: Option<OwnedFd>,
}

impl SandboxLauncher {
    pub(crate) fn new(
        config: NativeConfig,
        leases: Arc<Leases>,
        owners: Owners,
    ) -> io::Result<Self> {
        let agent = rustix::fs::open(&config.agent, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self {
            fork_server: ForkServer::new(config.launcher.clone()),
            config,
            leases,
            owners,
            counts: Arc::default(),
            agent,
            fail_at: Mutex::default(),
        })
    }

    /// Launches a sandbox on a disk, and waits until its agent listens.
    pub(crate) async fn launch(
        self: &Arc<Self>,
        request: LaunchRequest,
        disk: DiskSource,
    ) -> Result<Arc<NativeSandbox>, LaunchError> {
        let (slot, holder) = self.take_slot(&request).await?;
        let order = (request, disk);
        let Some(holder) = holder else {
            return self.launch_at(order, slot, None).await;
        };
        let launched = self.launch_at(order.clone(), slot, Some(Arc::clone(&holder)));
        match launched.await {
            // A host may refuse what a sandbox below a zygote takes. It is never worth a sandbox.
            Err(error @ LaunchError::Step { .. }) => {
                tracing::warn!(error = %Chain(&error), "no sandbox below a zygote, ending it");
                holder.end();
                let slot = self.leases.take_slot().ok_or(LaunchError::NoRoom("slot"))?;
                self.launch_at(order, slot, None).await
            }
            launched => launched,
        }
    }

    /// Takes a slot for a new sandbox: below its tenant's zygote of the template if there is one.
    async fn take_slot(
        &self,
        request: &LaunchRequest,
    ) -> Result<(TakenSlot, Option<Arc<Holder>>), LaunchError> {
        // A sandbox with a defence left out is not what a zygote would expect, and one whose changes
        // become a layer runs no kernels.
        let has_zygote = self.owners.zygotes.is_on() && self.config.without.is_empty();
        if has_zygote && !request.becomes_layer {
            let zygotes = Arc::clone(&self.owners.zygotes);
            let key = ZygoteKey {
                layers: request.layers.clone(),
                tenant: request.tenant.clone(),
            };
            let found = tokio::task::spawn_blocking(move || zygotes.slot_below(&key))
                .await
                .map_err(failed("look for the template's zygote"))?;
            if let Some((holder, slot)) = found {
                return Ok((slot, Some(holder)));
            }
        }
        let slot = self.leases.take_slot().ok_or(LaunchError::NoRoom("slot"))?;
        Ok((slot, None))
    }

    /// Launches a sandbox that has its slot.
    async fn launch_at(
        self: &Arc<Self>,
        (request, disk): (LaunchRequest, DiskSource),
        slot: TakenSlot,
        holder: Option<Arc<Holder>>,
    ) -> Result<Arc<NativeSandbox>, LaunchError> {
        let id = request.id.clone();
        // Pools wait until the agent listens, not only until it runs: its start takes most of
        // the time.
        let launching = self.leases.launching();
        let (working, below) = (Arc::clone(self), holder.clone());
        let span = Span::current();
        let started = tokio::task::spawn_blocking(move || {
            span.in_scope(|| working.start(&request, disk, slot, below.as_deref()))
        });
        let (launched, ready) = started
            .await
            .unwrap_or_else(|panic| Err(failed("launch the sandbox")(panic)))?;
        let sandbox = self.take_charge(launched, holder).await?;
        // Findable before its agent listens, because an agent that does not start has a log, too.
        self.owners.running.add(&id, &sandbox);
        let waiting = Instant::now();
        let listening = self.wait_until_ready(&sandbox, ready);
        match trace::step(debug_span!("wait for agent"), listening).await {
            Ok(()) => {
                tracing::debug!(sandbox = %id, after = ?waiting.elapsed(), "agent listens");
                drop(launching);
                Ok(sandbox)
            }
            Err(error) => {
                tracing::warn!(sandbox = %id, stderr = ?sandbox.agent_stderr(), "agent did not start");
                sandbox.dispose().await;
                Err(error)
            }
        }
    }

    /// Acquires everything a sandbox needs and starts its first process. Blocks.
    ///
    /// The lease is a value of this function until it returns, so a failure of any step kills what
    /// runs and removes what was made, before the caller hears of it.
    fn start(
        &self,
        request: &LaunchRequest,
        disk: DiskSource,
        slot: TakenSlot,
        holder: Option<&Holder>,
    ) -> Result<(LaunchedProcess, OwnedFd), LaunchError> {
        let start = Instant::now();
        let preparing = debug_span!("prepare disk and cgroups").entered();
        let terms = Terms {
            id: request.id.clone(),
            slot,
            egress: request.egress.clone(),
            resources: request.resources,
            cgroups: CgroupSource::Pool,
            disk,
        };
        let (lease, parts) = self.leases.acquire(terms).map_err(told_by_host)?;
        let order = LaunchOrder::of(request).map_err(failed("read the configuration"))?;
        (order.keep(&lease)).map_err(failed("write down how the sandbox was launched"))?;
        let stderr = Stderr::of(lease.slot().first_id())
            .map_err(failed("make room for the agent's errors"))?;
        let (ready, theirs) = io::pipe().map_err(failed("make a pipe"))?;
        // Only an agent below a zygote has somebody to ask for kernels.
        let forks = holder.map(|_| packet::pair()).transpose();
        let (forks, asking) = forks.map_err(failed("make a socket"))?.unzip();
        let config = sealed_file("agent-config", request.agent_config.reveal())
            .map_err(failed("store the agent's configuration"))?;
        // As all that an agent may hold when an image is made of it.
        let owner = Some(lease.slot().first_id());
        let owned = std::os::unix::fs::fchown(&config, owner, owner);
        owned.map_err(failed("give the agent its configuration"))?;
        let agent = AgentFds {
            program: (self.agent.try_clone()).map_err(failed("copy a descriptor"))?,
            stderr: stderr.share().map_err(failed("copy a descriptor"))?,
            config,
            ready: theirs.into(),
            forks: asking,
        };
        let layer_disk = (request.becomes_layer)
            .then(|| parts.disk.try_clone())
            .transpose()
            .map_err(failed("copy a descriptor"))?;
        let mut planned = plan::plan(&self.config, request, &lease, parts, agent, holder)?;
        planned.plan.fail_at = *self.fail_at.lock();
        drop(preparing);
        let prepared_in = start.elapsed();
        let started =
            debug_span!("run launcher").in_scope(|| self.run_launcher(request, planned.plan))?;
        tracing::debug!(
            sandbox = %request.id,
            ?prepared_in,
            launched_in = ?start.elapsed().saturating_sub(prepared_in),
            steps = ?started.timings,
            "first process runs"
        );
        let launched = LaunchedProcess {
            lease,
            started,
            stderr: Some(stderr),
            log_fd: planned.log_fd,
            forks,
            layer_disk,
        };
        Ok((launched, ready.into()))
    }

    fn run_launcher(
        &self,
        request: &LaunchRequest,
        plan: LaunchPlan,
    ) -> Result<Started, LaunchError> {
        let id = &request.id;
        let launched = self.fork_server.launch(plan, LAUNCHER_TIMEOUT);
        let (started, launched_by) = launched.map_err(|error| told_by_launcher(error, request))?;
        match launched_by {
            LaunchedBy::Fork => self.counts.by_fork.add_one(),
            LaunchedBy::OwnLauncher { reason } => {
                tracing::warn!(sandbox = %id, reason, "fork server failed and was replaced");
                self.counts.by_own_launcher.add_one();
            }
        }
        Ok(started)
    }

    /// Watches the first process from now on, and answers its agent's requests for kernels.
    pub(crate) async fn take_charge(
        &self,
        launched: LaunchedProcess,
        holder: Option<Arc<Holder>>,
    ) -> Result<Arc<NativeSandbox>, LaunchError> {
        let pid = launched.started.pid;
        let watched = launched.record().and_then(|record| {
            let asking = launched
                .started
                .pidfd
                .try_clone()
                .map_err(failed("copy a descriptor"))?;
            Ok((record, asking))
        });
        let LaunchedProcess {
            lease,
            started,
            stderr,
            forks,
            layer_disk,
            ..
        } = launched;
        let first_process = FirstProcess::watch(started.pidfd, started.exiting)
            .map_err(failed("watch the first process"));
        let (record, asking, first_process) = match (watched, first_process) {
            (Ok((record, asking)), Ok(first_process)) => (record, asking, first_process),
            (Err(error), _) | (_, Err(error)) => {
                release(lease).await;
                return Err(error);
            }
        };
        let lease = Arc::new(lease);
        if let (Some(holder), Some(forks)) = (holder, forks) {
            let client = Client {
                lease: Arc::clone(&lease),
                process: Arc::new(ProcessHandle::new(pid, asking)),
            };
            zygote::serve(Arc::clone(&self.owners.zygotes), holder, client, forks);
        }
        // The record is the caller's from now on: a server that is killed here finds the sandbox.
        lease.keep();
        let owners = self.owners.clone();
        Ok(NativeSandbox::new(
            lease,
            record,
            first_process,
            stderr,
            layer_disk,
            owners,
        ))
    }

    async fn wait_until_ready(
        &self,
        sandbox: &NativeSandbox,
        ready: OwnedFd,
    ) -> Result<(), LaunchError> {
        let mut ready = tokio::net::unix::pipe::Receiver::from_owned_fd(ready)
            .map_err(failed("listen to the agent"))?;
        let deadline = self.config.agent_deadline;
        let mut byte = [0];
        tokio::select! {
            read = ready.read_exact(&mut byte) => match read {
                Ok(_) => Ok(()),
                // It let go of the pipe without a word: it is about to end, or will stay silent.
                Err(_) => match tokio::time::timeout(deadline, sandbox.exited()).await {
                    Ok(exit) => Err(LaunchError::AgentEnded(exit)),
                    Err(_) => Err(LaunchError::AgentSilent(deadline)),
                },
            },
            exit = sandbox.exited() => Err(LaunchError::AgentEnded(exit)),
            () = tokio::time::sleep(deadline) => Err(LaunchError::AgentSilent(deadline)),
        }
    }
}

impl LaunchedProcess {
    /// The record by which a later server adopts it.
    fn record(&self) -> Result<Record, LaunchError> {
        let lease = self
            .lease
            .record()
            .map_err(failed("look at the sandbox's log"))?;
        let pid = self.started.pid;
        let started = record::started(pid).map_err(failed("find the first process"))?;
        Ok(Record::new(lease, pid, started, self.log_fd))
    }
}

/// Releases a lease where that blocks nobody else. What cannot be removed is tried again.
async fn release(lease: Lease) {
    let released = tokio::task::spawn_blocking(move || drop(lease));
    if let Err(panic) = released.await {
        tracing::error!(error = %Chain(&panic), "cleaning up after a failed launch panicked");
    }
}

pub(crate) fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    operation: &str,
) -> impl FnOnce(E) -> LaunchError {
    let operation = operation.to_owned();
    move |source| LaunchError::Host {
        operation,
        source: source.into(),
    }
}

pub(crate) fn told_by_host(error: LeaseError) -> LaunchError {
    match error {
        LeaseError::Leased => failed("launch the sandbox")("it runs already"),
        LeaseError::Part { operation, source } => LaunchError::Host { operation, source },
    }
}

pub(crate) fn told_by_launcher(error: SpawnError, request: &LaunchRequest) -> LaunchError {
    if let Some(error) = place_of_volume(&error, request) {
        return error;
    }
    match error {
        SpawnError::Step {
            step,
            thing,
            source,
        } => LaunchError::Step {
            step: match thing {
                Some(thing) => format!("{step} `{thing}`"),
                None => step.to_string(),
            },
            source: source.into(),
        },
        SpawnError::Start { .. }
        | SpawnError::Send(_)
        | SpawnError::Receive(_)
        | SpawnError::Died(_)
        | SpawnError::Silent(_) => failed("run the launcher")(error),
    }
}

/// The error of whoever asked for a volume at a place that its sandbox cannot have.
fn place_of_volume(error: &SpawnError, request: &LaunchRequest) -> Option<LaunchError> {
    let SpawnError::Step {
        step: Step::ShowVolumes,
        thing: Some(path),
        source,
    } = error
    else {
        return None;
    };
    let obstacle = match Errno::from_raw_os_error(source.raw_os_error()?) {
        Errno::LOOP => {
            "a symbolic link is on the way, in the template or in another volume; name a path without links"
        }
        Errno::NOTDIR => "a file is in the way",
        Errno::ROFS => "there is no such directory in the snapshot that it would be in",
        _ => return None,
    };
    let mount = request
        .mounts
        .iter()
        .find(|mount| mount.target.as_str() == path)?;
    Some(LaunchError::VolumePlace {
        volume: mount.name.to_string(),
        path: path.clone(),
        obstacle,
    })
}
