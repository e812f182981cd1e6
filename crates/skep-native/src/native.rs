//! The backend.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, PidfdFlags};
use skep_isolation::{
    AdoptError, DestroyError, Isolation, LaunchError, LaunchRecord, LaunchRequest, Launched,
    Sandbox, Swept, Tier,
};
use skep_telemetry::{Chain, Gauge, Tasks, trace};
use skep_types::{HostCapacity, SandboxId, TenantId};
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;

use crate::cgroup::{CgroupError, Cgroups};
use crate::config::NativeConfig;
use crate::defence::Defence;
use crate::firewall::FirewallError;
use crate::host::{Host, LaunchCounts, LaunchedProcess, failed};
use crate::instance::{Instance, InstanceError, Naming, Slot};
use crate::kernel_settings::KernelSettings;
use crate::log::{Identity, Log};
use crate::pool::PREFIX;
use crate::process::ProcessHandle;
use crate::record::{self, Record};
use crate::sandbox::{FirstProcess, NativeSandbox};
use crate::zygote::{Client, Holder, ZygoteCounts, ZygoteKey, Zygotes};
use crate::{dns, firewall, forgotten, gateway, leftovers, zygote};

/// Sandboxes held by Linux namespaces, cgroups, seccomp and id-mapped users.
///
/// They outlive this value and the server: the next server adopts them.
#[derive(Debug)]
pub struct Native {
    host: Arc<Host>,
    instance: Instance,
    tasks: Tasks,
}

/// Failure to start the backend. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No number for this server on this host.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// No cgroups to hold the limits.
    #[error("cannot use cgroups")]
    Cgroups(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The packet filter could not be set.
    #[error("cannot set the packet filter")]
    Firewall(#[source] FirewallError),
    /// Naming cannot be answered, usually because another resolver listens on every address.
    #[error("cannot listen on {address} for names")]
    Dns {
        /// Address that was tried.
        address: SocketAddr,
        /// Error of the system call.
        source: io::Error,
    },
    /// Something else on the host.
    #[error("cannot {operation}")]
    Host {
        /// Operation that failed.
        operation: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
}

impl Native {
    /// Makes this host ready for sandboxes.
    ///
    /// Call [`Isolation::adopt`] for each recorded sandbox and then [`Isolation::sweep`]
    /// before anything is launched.
    ///
    /// # Errors
    ///
    /// [`StartError`]; [`crate::probe`] says more about what this host lacks.
    pub async fn start(config: NativeConfig) -> Result<Self, StartError> {
        let tasks = Tasks::default();
        let (host, instance) = tokio::task::spawn_blocking(move || set_up(config))
            .await
            .map_err(|panic| StartError::Host {
                operation: "set the host up",
                source: io::Error::other(panic),
            })??;
        let host = Arc::new(host);
        let address = SocketAddr::from((host.naming.gateway(), dns::PORT));
        let config = dns::DnsConfig {
            listen: address,
            upstreams: host.config.resolvers.clone(),
            denied: if host.config.has(Defence::CheckedNames) {
                firewall::denied()
            } else {
                Vec::new()
            },
            allowed: host.config.allowed_ranges.clone(),
        };
        dns::serve(config, Arc::clone(&host) as Arc<dyn dns::Clients>, &tasks)
            .await
            .map_err(|source| StartError::Dns { address, source })?;
        let ending = Zygotes::end_idle(Arc::clone(&host), tasks.clone());
        tasks.spawn("end idle zygotes", ending);
        let stop = tasks.stopping();
        let stopping = async move { stop.cancelled().await };
        let retrying = leftovers::retry(Arc::clone(&host), stopping);
        tasks.spawn("remove leftovers", retrying);
        let stop = tasks.stopping();
        let stopping = async move { stop.cancelled().await };
        let forgetting = forgotten::keep_forgetting(Arc::clone(&host), stopping);
        tasks.spawn("forget connections", forgetting);
        Ok(Self {
            host,
            instance,
            tasks,
        })
    }

    /// Stops answering names and keeping parts of sandboxes ready. Sandboxes and the rules that hold them stay.
    pub async fn stop(&self) {
        self.host.zygotes.end().await;
        self.tasks.finish().await;
        let host = Arc::clone(&self.host);
        let cleared = tokio::task::spawn_blocking(move || host.clear_ready());
        if let Err(panic) = cleared.await {
            tracing::error!(error = %Chain(&panic), "letting go of what was ready panicked");
        }
    }

    /// Takes everything of this installation off the host: sandboxes, rules, interfaces,
    /// groups. For tests, and for people who want it gone.
    ///
    /// # Errors
    ///
    /// The first thing that could not be removed; the rest is removed.
    pub async fn dismantle(self) -> Result<(), DestroyError> {
        self.stop().await;
        let Self { host, instance, .. } = self;
        let all = tokio::task::spawn_blocking(move || {
            host.clear();
            let swept = sweep(&host).map(drop);
            let left =
                |what: &str, source: Box<dyn std::error::Error + Send + Sync>| DestroyError {
                    what: what.into(),
                    source,
                };
            let steps = [
                host.cgroups
                    .remove_parent()
                    .map_err(|error| left("cgroup", error.into())),
                gateway::take_down(host.naming)
                    .map_err(|error| left("gateway interface", error.into())),
                restore_settings(&host, &instance)
                    .map_err(|error| left("the kernel's settings", error.into())),
                // After forwarding, which it keeps from joining networks.
                firewall::remove(host.naming)
                    .map_err(|error| left("packet filter rules", error.into())),
                instance
                    .forget()
                    .map_err(|error| left("instance number", error.into())),
            ];
            steps.into_iter().fold(swept, Result::and)
        });
        all.await.map_err(|panic| DestroyError {
            what: "installation".into(),
            source: panic.into(),
        })?
    }

    /// Metrics of forked kernels.
    pub fn zygotes(&self) -> Arc<ZygoteCounts> {
        Arc::clone(&self.host.zygotes.counts)
    }

    /// Metrics of launches.
    pub fn launches(&self) -> Arc<LaunchCounts> {
        Arc::clone(&self.host.launches)
    }

    /// Number of sandboxes without an owner that have something on the host that could not be
    /// removed and is tried again.
    pub fn leftovers(&self) -> Arc<Gauge> {
        Arc::clone(&self.host.leftovers.count)
    }

    #[doc(hidden)]
    pub fn launcher_pid(&self) -> Option<u32> {
        self.host.launcher.pid()
    }

    #[doc(hidden)]
    pub fn fail_next_launches_at(&self, step: Option<skep_launch::Step>) {
        self.host.set_fail_at(step);
    }
}

fn set_up(config: NativeConfig) -> Result<(Host, Instance), StartError> {
    let host_error = |operation| move |source| StartError::Host { operation, source };
    let cgroup_error = |error: CgroupError| StartError::Cgroups(error.into());
    let root = config.cgroup_root.clone();
    let instance = Instance::claim(&config.data_dir, |number| sandboxes_live(&root, number))?;
    let naming = instance.naming();
    let mut cgroups = Cgroups::open(&root, &naming.cgroup()).map_err(cgroup_error)?;
    if !config.has(Defence::CountedSockets) {
        cgroups = cgroups.without_counted_sockets();
    }
    // The launcher goes when its sandbox runs, so we are the one who learns how that ended.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(io::Error::from)
        .map_err(host_error("become the parent of sandboxes"))?;
    // Rules come first, so that there is never an interface without them.
    let settings = KernelSettings::open().map_err(host_error("record the kernel's settings"))?;
    let bystanders = settings.bystanders();
    let bystanders = bystanders.map_err(host_error("record the kernel's settings"))?;
    firewall::install(naming, &config, &bystanders).map_err(StartError::Firewall)?;
    gateway::set_up(naming, &settings).map_err(host_error("set the network up"))?;
    let boot = record::boot().map_err(host_error("read the boot id"))?;
    tracing::info!(naming = ?naming, cgroups = cgroups.version(), "ready for sandboxes");
    let host = Host::new(config, naming, cgroups, boot)
        .map_err(host_error("open the data directory or the agent"))?;
    Ok((host, instance))
}

/// Puts back what was changed of the kernel, if this is the last installation.
fn restore_settings(host: &Host, instance: &Instance) -> io::Result<()> {
    let root = &host.config.cgroup_root;
    let is_needed = || instance.has_company(|number| sandboxes_live(root, number));
    for setting in KernelSettings::open()?.restore(is_needed)? {
        if let Some(reason) = setting.kept {
            tracing::warn!(
                setting = setting.path,
                ?reason,
                "a setting of the kernel stays"
            );
        }
    }
    Ok(())
}

/// Returns true if a server of this number has left sandboxes, as far as cgroups tell.
pub(crate) fn sandboxes_live(root: &Path, number: u8) -> bool {
    let parent = Naming::of(number).cgroup();
    // The first hierarchy that a group is made in, and the only one.
    [root.join("memory").join(&parent), root.join(&parent)]
        .iter()
        .filter_map(|directory| std::fs::read_dir(directory).ok())
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        // What was kept ready for sandboxes is none.
        .any(|entry| !entry.file_name().to_string_lossy().starts_with(PREFIX))
}

/// Removes what belongs to no sandbox of this server. What cannot be removed now is tried again
/// later, and the first such thing is reported.
fn sweep(host: &Host) -> Result<Swept, DestroyError> {
    let deadline = Instant::now() + host.config.kill_deadline;
    let (ids, links) = host.find_leftovers()?;
    let mut first = Ok(());
    for slot in links {
        let removed = gateway::remove_link(slot).map_err(|source| DestroyError {
            what: format!("network link `{}`", slot.interface()),
            source: source.into(),
        });
        first = first.and(removed);
    }
    // Nobody waits for one that does not die before all others have been killed.
    let (mut swept, left): (Vec<_>, Vec<_>) = ids
        .into_iter()
        .partition(|id| host.remove(id, None, Instant::now()).is_ok());
    for id in left {
        match host.remove(&id, None, deadline) {
            Ok(()) => swept.push(id),
            Err(error) => {
                let slots = host.slots_in_use(&id).into_iter();
                let slots = slots.filter(|slot| host.slots.take_number(slot.number()));
                host.leftovers.add(&id, slots.collect(), &error);
                first = first.and(Err(error));
            }
        }
    }
    first.map(|()| Swept { sandboxes: swept })
}

impl Isolation for Native {
    fn tier(&self) -> Tier {
        Tier::Native
    }

    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<Launched, LaunchError>> {
        let host = Arc::clone(&self.host);
        let (sender, receiver) = oneshot::channel();
        // A task of its own, so that it runs to its end when the caller goes away.
        skep_telemetry::spawn("launch sandbox", async move {
            let launched = launch(&host, request).await;
            if let Err(Ok(unwanted)) = sender.send(launched) {
                unwanted.dispose().await;
            }
            make_ready(host).await;
        });
        async move {
            match receiver.await {
                Ok(launched) => launched.map(|sandbox| sandbox as Launched),
                Err(error) => Err(failed("launch the sandbox")(error)),
            }
        }
        .boxed()
    }

    fn warm<'a>(&'a self, layers: &'a [PathBuf], tenant: &'a TenantId) -> BoxFuture<'a, ()> {
        let key = ZygoteKey {
            layers: layers.to_vec(),
            tenant: tenant.clone(),
        };
        async move { self.host.zygotes.warm(&self.host, &key).await }.boxed()
    }

    fn capacity(&self) -> BoxFuture<'_, io::Result<HostCapacity>> {
        let host = Arc::clone(&self.host);
        async move {
            let capacity = tokio::task::spawn_blocking(move || host.capacity()).await;
            capacity.map_err(io::Error::other)?
        }
        .boxed()
    }

    fn allow_pools(&self, allowed: bool) -> BoxFuture<'_, ()> {
        let host = Arc::clone(&self.host);
        async move {
            let told = tokio::task::spawn_blocking(move || host.allow_pools(allowed)).await;
            if let Err(panic) = told {
                tracing::error!(error = %Chain(&panic), "letting go of what was ready panicked");
            }
        }
        .boxed()
    }

    fn damaged(&self) -> BoxFuture<'_, Vec<SandboxId>> {
        let host = Arc::clone(&self.host);
        async move {
            let damaged = tokio::task::spawn_blocking(move || host.damaged()).await;
            damaged.unwrap_or_else(|panic| {
                tracing::error!(error = %Chain(&panic), "looking for damaged disks panicked");
                Vec::new()
            })
        }
        .boxed()
    }

    fn hoarding(&self) -> BoxFuture<'_, Vec<SandboxId>> {
        let host = Arc::clone(&self.host);
        async move {
            let hoarding = tokio::task::spawn_blocking(move || host.hoarding()).await;
            hoarding.unwrap_or_else(|panic| {
                tracing::error!(error = %Chain(&panic), "looking for uncounted memory panicked");
                Vec::new()
            })
        }
        .boxed()
    }

    fn adopt(&self, record: LaunchRecord) -> BoxFuture<'_, Result<Launched, AdoptError>> {
        async move { adopt(&self.host, &record).map(|sandbox| sandbox as Launched) }.boxed()
    }

    fn log(&self, id: SandboxId) -> BoxFuture<'_, io::Result<Vec<u8>>> {
        let host = Arc::clone(&self.host);
        async move {
            let read = tokio::task::spawn_blocking(move || host.read_log(&id)).await;
            read.map_err(io::Error::other)?
        }
        .boxed()
    }

    fn kept_logs(&self) -> BoxFuture<'_, io::Result<Vec<(SandboxId, u64)>>> {
        let host = Arc::clone(&self.host);
        async move {
            let listed = tokio::task::spawn_blocking(move || host.logs.list()).await;
            listed.map_err(io::Error::other)?
        }
        .boxed()
    }

    fn forget_log(&self, id: SandboxId) -> BoxFuture<'_, io::Result<()>> {
        let host = Arc::clone(&self.host);
        async move {
            let forgotten = tokio::task::spawn_blocking(move || host.logs.forget(&id)).await;
            forgotten.map_err(io::Error::other)?
        }
        .boxed()
    }

    fn sweep(&self) -> BoxFuture<'_, Result<Swept, DestroyError>> {
        let host = Arc::clone(&self.host);
        async move {
            let swept = tokio::task::spawn_blocking(move || sweep(&host)).await;
            swept.map_err(|panic| DestroyError {
                what: "leftovers".into(),
                source: panic.into(),
            })?
        }
        .boxed()
    }
}

async fn launch(
    host: &Arc<Host>,
    request: LaunchRequest,
) -> Result<Arc<NativeSandbox>, LaunchError> {
    let (slot, holder) = take_slot(host, &request).await?;
    let Some(holder) = holder else {
        return launch_at(host, request, slot, None).await;
    };
    let launched = launch_at(host, request.clone(), slot, Some(Arc::clone(&holder))).await;
    match launched {
        // A host may refuse what a sandbox below a zygote takes. It is never worth a sandbox.
        Err(error @ LaunchError::Step { .. }) => {
            tracing::warn!(error = %Chain(&error), "no sandbox below a zygote, ending it");
            holder.end();
            let slot = host.slots.take().ok_or(LaunchError::NoRoom("slot"))?;
            launch_at(host, request, slot, None).await
        }
        launched => launched,
    }
}

/// Launches a sandbox that has its slot.
async fn launch_at(
    host: &Arc<Host>,
    request: LaunchRequest,
    slot: Slot,
    holder: Option<Arc<Holder>>,
) -> Result<Arc<NativeSandbox>, LaunchError> {
    let id = request.id.clone();
    let egress = request.egress;
    if !host.register(&id, slot, egress) {
        host.slots.give_back(slot);
        return Err(failed("launch the sandbox")("it runs already"));
    }
    let launching = host.under_way.launching();
    let (working, below) = (Arc::clone(host), holder.clone());
    let launched =
        tokio::task::spawn_blocking(move || working.launch(&request, slot, below.as_deref()));
    let launched = launched.await;
    let launched = launched.unwrap_or_else(|panic| Err(failed("launch the sandbox")(panic)));
    let settled = launched.and_then(|launched| {
        let LaunchedProcess {
            started,
            ready,
            agent_stderr,
            log,
            forks,
            meter,
            prepared_in,
            launched_in,
        } = launched;
        let launched_at = Instant::now();
        let spawned_at = launched_at - launched_in;
        trace::completed(
            "prepare disk and cgroups",
            spawned_at - prepared_in,
            prepared_in,
        );
        trace::completed("run launcher", spawned_at, launched_in);
        tracing::debug!(
            sandbox = %id,
            prepared_in = ?prepared_in,
            launched_in = ?launched_in,
            steps = ?started.timings,
            "first process runs"
        );
        let record = Record {
            id: id.clone(),
            slot: slot.number(),
            egress,
            pid: started.pid,
            started: record::started(started.pid).map_err(failed("find the first process"))?,
            boot: host.boot.clone(),
            log: Some(
                log.identity()
                    .map_err(failed("look at the sandbox's log"))?,
            ),
            meter,
        };
        if let (Some(holder), Some(forks)) = (holder, forks) {
            let pidfd = started.pidfd.try_clone();
            let pidfd = pidfd.map_err(failed("copy a descriptor"))?;
            let client = Client {
                id: id.clone(),
                slot,
                process: Arc::new(ProcessHandle::new(started.pid, pidfd)),
            };
            zygote::serve(Arc::clone(host), holder, client, forks);
        }
        let first_process = FirstProcess {
            pidfd: started.pidfd,
            exiting: started.exiting,
        };
        let host = Arc::clone(host);
        let sandbox = NativeSandbox::new(
            host,
            record,
            slot,
            first_process,
            Some(agent_stderr),
            Some(log),
        )
        .map_err(failed("watch the first process"))?;
        Ok((sandbox, ready))
    });
    let (sandbox, ready) = match settled {
        Ok(settled) => settled,
        Err(error) => {
            clean_up(host, &id, slot).await;
            return Err(error);
        }
    };
    host.attach(&id, &sandbox);
    let waiting = Instant::now();
    let listening = wait_until_ready(host, &sandbox, ready);
    match trace::step("wait for agent", listening).await {
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

/// A slot for a new sandbox: below its tenant's zygote of the template if there is one.
async fn take_slot(
    host: &Arc<Host>,
    request: &LaunchRequest,
) -> Result<(Slot, Option<Arc<Holder>>), LaunchError> {
    // A sandbox with a defence left out is not what a zygote would expect.
    if host.zygotes.is_on() && host.config.without.is_empty() {
        let looking = Arc::clone(host);
        let key = ZygoteKey {
            layers: request.layers.clone(),
            tenant: request.tenant.clone(),
        };
        let found = tokio::task::spawn_blocking(move || looking.zygotes.slot_below(&looking, &key));
        let found = found
            .await
            .map_err(failed("look for the template's zygote"))?;
        if let Some((holder, slot)) = found {
            return Ok((slot, Some(holder)));
        }
    }
    let slot = host.slots.take().ok_or(LaunchError::NoRoom("slot"))?;
    Ok((slot, None))
}

async fn make_ready(host: Arc<Host>) {
    let making = tokio::task::spawn_blocking(move || host.make_ready());
    if let Err(panic) = making.await {
        tracing::error!(error = %Chain(&panic), "making parts of sandboxes ready panicked");
    }
}

/// Removes what a failed launch has made. What cannot be removed keeps its slot, and is tried
/// again.
async fn clean_up(host: &Arc<Host>, id: &skep_types::SandboxId, slot: Slot) {
    let (host, id) = (Arc::clone(host), id.clone());
    let cleaned = tokio::task::spawn_blocking(move || {
        let deadline = Instant::now() + host.config.kill_deadline;
        match host.remove(&id, Some(slot), deadline) {
            Ok(()) => host.unregister(&id, slot),
            Err(error) => host.leftovers.add(&id, vec![slot], &error),
        }
    });
    if let Err(panic) = cleaned.await {
        tracing::error!(error = %Chain(&panic), "cleaning up after a failed launch panicked");
    }
}

async fn wait_until_ready(
    host: &Host,
    sandbox: &NativeSandbox,
    ready: std::os::fd::OwnedFd,
) -> Result<(), LaunchError> {
    let mut ready = tokio::net::unix::pipe::Receiver::from_owned_fd(ready)
        .map_err(failed("listen to the agent"))?;
    let deadline = host.config.agent_deadline;
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

/// The log of a sandbox that is being adopted. It lives on without.
fn find_log(record: &Record, identity: Identity) -> Option<Log> {
    let found = Log::find(record.pid, identity);
    found
        .inspect_err(|error| tracing::warn!(sandbox = %record.id, %error, "a log was lost"))
        .ok()
}

fn adopt(host: &Arc<Host>, record: &LaunchRecord) -> Result<Arc<NativeSandbox>, AdoptError> {
    let record = Record::read(record)?;
    if record.boot != host.boot {
        return Err(AdoptError::HostRestarted);
    }
    if let Some(sandbox) = host.sandbox(&record.id) {
        return Ok(sandbox);
    }
    let gone = || AdoptError::Gone(host.final_usage(&record));
    let pid = Pid::from_raw(record.pid).ok_or_else(gone)?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(|_| gone())?;
    // The descriptor is open, so the id cannot be given to another process any more: if the
    // time is right, it is the right one.
    if record::started(record.pid).ok() != Some(record.started) {
        return Err(gone());
    }
    if !host.slots.take_number(record.slot) {
        return Err(AdoptError::Record("its slot is taken".into()));
    }
    let slot = host.naming.slot(record.slot);
    let id = record.id.clone();
    if !host.register(&id, slot, record.egress) {
        host.slots.give_back(slot);
        return Err(AdoptError::Record("it is being launched".into()));
    }
    let log = record.log.and_then(|identity| find_log(&record, identity));
    let first_process = FirstProcess {
        pidfd,
        exiting: None,
    };
    match NativeSandbox::new(Arc::clone(host), record, slot, first_process, None, log) {
        Ok(sandbox) => {
            host.attach(&id, &sandbox);
            Ok(sandbox)
        }
        Err(error) => {
            host.unregister(&id, slot);
            Err(AdoptError::Record(error.into()))
        }
    }
}
