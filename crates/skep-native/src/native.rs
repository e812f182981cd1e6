//! The backend.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, PidfdFlags};
use skep_host::{DiskSource, Installation, Leases, StartError};
use skep_isolation::{
    AdoptError, ChangeError, DestroyError, Isolation, LaunchError, LaunchRecord, LaunchRequest,
    Launched, RestoreRequest, RestoreTarget, Swept, Tier,
};
use skep_telemetry::{Chain, Gauge, Tasks};
use skep_types::{
    Capabilities, Capability, Checkpoint, Egress, HostCapacity, ImageKind, LoggedRequest,
    SandboxId, TenantId, Unsupported,
};
use tokio::sync::Semaphore;

use crate::config::NativeConfig;
use crate::image::Images;
use crate::launch::{LaunchCounts, SandboxLauncher, failed};
use crate::memory::Checkpointer;
use crate::record::{self, Record};
use crate::running::RunningSandboxes;
use crate::sandbox::{Checkpoints, FirstProcess, NativeSandbox, Owners, Source, destroy_error};
use crate::zygote::{ZygoteCounts, ZygoteKey, Zygotes};

/// Sandboxes held by Linux namespaces, cgroups, seccomp and id-mapped users.
///
/// They outlive this value and the server: the next server adopts them.
#[derive(Debug)]
pub struct Native {
    installation: Installation,
    launcher: Arc<SandboxLauncher>,
    zygotes: Arc<Zygotes>,
    running: Arc<RunningSandboxes>,
    images: Arc<Images>,
    checkpoints: Option<Checkpoints>,
    tasks: Tasks,
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
        let host_error = |operation| move |source| StartError::Host { operation, source };
        let installation = Installation::start(config.host_config()).await?;
        let images = Images::open(
            config.host.data_dir.join("images"),
            config.image_key.clone(),
        );
        let images = Arc::new(images.map_err(host_error("open the images of sandboxes"))?);
        // The launcher goes when its sandbox runs, so we are the one who learns how that ended.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(io::Error::from)
            .map_err(host_error("become the parent of sandboxes"))?;
        let leases = Arc::clone(installation.leases());
        let zygotes = Zygotes::new(
            config.zygotes.clone(),
            Arc::clone(&leases),
            config.launcher.clone(),
        );
        let zygotes = Arc::new(zygotes.map_err(host_error("prepare zygotes"))?);
        let running = Arc::<RunningSandboxes>::default();
        let checkpoints =
            checkpoints(&config).map_err(host_error("prepare for images with memory"))?;
        let owners = Owners {
            running: Arc::clone(&running),
            zygotes: Arc::clone(&zygotes),
            images: Arc::clone(&images),
            paging: Arc::new(Semaphore::new(1)),
            checkpoints: checkpoints.clone(),
        };
        let launcher = SandboxLauncher::new(config, leases, owners);
        let launcher = Arc::new(launcher.map_err(host_error("open the agent"))?);
        let tasks = Tasks::default();
        let ending = Arc::clone(&zygotes).end_idle(tasks.clone());
        tasks.spawn("end idle zygotes", ending);
        Ok(Self {
            installation,
            launcher,
            zygotes,
            running,
            images,
            checkpoints,
            tasks,
        })
    }

    /// Stops answering names and keeping parts of sandboxes ready. Sandboxes and the rules that
    /// hold them stay.
    pub async fn stop(&self) {
        self.zygotes.end().await;
        self.tasks.finish().await;
        self.installation.stop().await;
    }

    /// Address of the gateway of sandboxes.
    pub fn gateway(&self) -> Ipv4Addr {
        self.leases().gateway()
    }

    /// Policy of the sandbox at an address, if there is one.
    pub fn egress_at(&self, address: Ipv4Addr) -> Option<Egress> {
        self.leases().egress_at(address)
    }

    /// Takes everything of this installation off the host: sandboxes, rules, interfaces,
    /// groups. For tests, and for people who want it gone.
    ///
    /// # Errors
    ///
    /// The first thing that could not be removed; the rest is removed.
    pub async fn dismantle(self) -> Result<(), DestroyError> {
        self.stop().await;
        let Self {
            installation,
            running,
            ..
        } = self;
        let all = tokio::task::spawn_blocking(move || {
            running.clear();
            installation.dismantle()
        });
        let dismantled = all.await.map_err(|panic| DestroyError {
            what: "installation".into(),
            source: panic.into(),
        })?;
        dismantled.map_err(destroy_error)
    }

    /// Metrics of forked kernels.
    pub fn zygotes(&self) -> Arc<ZygoteCounts> {
        Arc::clone(&self.zygotes.counts)
    }

    /// Metrics of launches.
    pub fn launches(&self) -> Arc<LaunchCounts> {
        Arc::clone(&self.launcher.counts)
    }

    /// Number of sandboxes without an owner that have something on the host that could not be
    /// removed and is tried again.
    pub fn leftovers(&self) -> Arc<Gauge> {
        self.leases().leftovers()
    }

    #[doc(hidden)]
    pub fn launcher_pid(&self) -> Option<u32> {
        self.launcher.fork_server.pid()
    }

    #[doc(hidden)]
    pub fn fail_next_launches_at(&self, step: Option<skep_launch::Step>) {
        *self.launcher.fail_at.lock() = step;
    }

    fn leases(&self) -> &Arc<Leases> {
        self.installation.leases()
    }

    /// Calls `work` with the leases where blocking is allowed.
    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Leases) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'_, io::Result<T>> {
        let leases = Arc::clone(self.leases());
        async move {
            let done = tokio::task::spawn_blocking(move || work(&leases)).await;
            done.map_err(io::Error::other)?
        }
        .boxed()
    }

    /// Sandboxes that `look` finds, where blocking is allowed. None if it panics.
    fn found(
        &self,
        look: impl FnOnce(&Leases, &RunningSandboxes) -> Vec<SandboxId> + Send + 'static,
    ) -> BoxFuture<'_, Vec<SandboxId>> {
        let (leases, running) = (Arc::clone(self.leases()), Arc::clone(&self.running));
        async move {
            let found = tokio::task::spawn_blocking(move || look(&leases, &running)).await;
            found.unwrap_or_else(|panic| {
                tracing::error!(error = %Chain(&panic), "inspecting sandboxes panicked");
                Vec::new()
            })
        }
        .boxed()
    }

    fn owners(&self) -> Owners {
        self.launcher.owners.clone()
    }

    /// Calls `work` with the images where blocking is allowed.
    async fn with_images<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Images) -> Result<T, Source> + Send + 'static,
    ) -> Result<T, Source> {
        let images = Arc::clone(&self.images);
        tokio::task::spawn_blocking(move || work(&images)).await?
    }

    async fn launch_on(
        &self,
        request: LaunchRequest,
        disk: DiskSource,
    ) -> Result<Launched, LaunchError> {
        self.check_mounts(&request)?;
        // No task of its own: the caller, a driver or the keeper of spares, owns the launch
        // and drives it to its end.
        let launched = self.launcher.launch(request, disk).await;
        let leases = Arc::clone(self.leases());
        drop(skep_telemetry::spawn("fill pools", fill_pools(leases)));
        launched.map(|sandbox| sandbox as Launched)
    }

    async fn restore_memory(
        &self,
        checkpoint: Checkpoint,
        target: RestoreTarget,
    ) -> Result<Launched, LaunchError> {
        let checkpoints = self
            .checkpoints
            .as_ref()
            .ok_or(Unsupported(Capability::Checkpoint))?;
        let leases = Arc::clone(self.leases());
        let read = self.with_images(move |images| images.open_memory(&checkpoint, target, &leases));
        let image = read.await.map_err(failed("read the image"))?;
        self.check_mounts(&image.request)?;
        let restored = self.launcher.restore(image, checkpoints).await;
        let leases = Arc::clone(self.leases());
        drop(skep_telemetry::spawn("fill pools", fill_pools(leases)));
        restored.map(|sandbox| sandbox as Launched)
    }

    fn check_mounts(&self, request: &LaunchRequest) -> Result<(), Unsupported> {
        if request.mounts.is_empty() || self.launcher.config.volumes.is_some() {
            return Ok(());
        }
        Err(Unsupported(Capability::Mounts))
    }

    fn adopt_recorded(&self, record: &LaunchRecord) -> Result<Arc<NativeSandbox>, AdoptError> {
        let record = Record::read(record)?;
        let unreadable = |error: skep_types::IdError| AdoptError::Record(error.into());
        let id = record.lease.id().map_err(unreadable)?;
        if !self.leases().is_of_this_boot(&record.lease) {
            return Err(AdoptError::HostRestarted);
        }
        if let Some(sandbox) = self.running.get(&id) {
            return Ok(sandbox);
        }
        let gone = || AdoptError::Gone(self.leases().final_usage(&record.lease));
        let pid = Pid::from_raw(record.pid).ok_or_else(gone)?;
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(|_| gone())?;
        // The descriptor is open, so the id cannot be given to another process any more: if the
        // time is right, it is the right one.
        if record::started(record.pid).ok() != Some(record.started) {
            return Err(gone());
        }
        let lease = self
            .leases()
            .reacquire(&record.lease, record.log_holder())
            .map_err(|error| AdoptError::Record(error.into()))?;
        // If it cannot be watched the lease is forgotten again, and a sweep removes the sandbox.
        let first_process =
            FirstProcess::watch(pidfd, None).map_err(|error| AdoptError::Record(error.into()))?;
        let owners = self.owners();
        let sandbox =
            NativeSandbox::new(Arc::new(lease), record, first_process, None, None, owners);
        self.running.add(&id, &sandbox);
        Ok(sandbox)
    }
}

/// Prepares what images with memory are made with. Blocks.
fn checkpoints(config: &NativeConfig) -> io::Result<Option<Checkpoints>> {
    let Some(wanted) = &config.checkpoints else {
        return Ok(None);
    };
    // Sandboxes of an earlier server execute agents of other builds.
    let agents = config.host.data_dir.join("agents");
    let programs = vec![config.agent.clone(), agents];
    let directory = config.host.data_dir.join("criu");
    let (criu, launcher) = (wanted.criu.clone(), config.launcher.clone());
    let checkpointer = Checkpointer::new(criu, launcher, &directory, programs)?;
    Ok(Some(Checkpoints {
        checkpointer: Arc::new(checkpointer),
        agents: Arc::clone(&wanted.agents),
    }))
}

/// Makes parts of sandboxes for the next launches.
async fn fill_pools(leases: Arc<Leases>) {
    let filled = tokio::task::spawn_blocking(move || leases.fill_pools());
    if let Err(panic) = filled.await {
        tracing::error!(error = %Chain(&panic), "filling the pools panicked");
    }
}

impl Isolation for Native {
    fn tier(&self) -> Tier {
        Tier::Native
    }

    fn capabilities(&self) -> Capabilities {
        let always = [Capability::EgressChange];
        // Files are captured while nobody writes to them.
        let volumes = self
            .launcher
            .config
            .volumes
            .iter()
            .map(|_| Capability::Mounts);
        if !self.leases().can_freeze() {
            return always.into_iter().chain(volumes).collect();
        }
        let freezing = [Capability::Freeze, Capability::FilesystemImage];
        let memory = self.checkpoints.iter().map(|_| Capability::Checkpoint);
        let all = always
            .into_iter()
            .chain(freezing)
            .chain(memory)
            .chain(volumes);
        all.collect()
    }

    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<Launched, LaunchError>> {
        self.launch_on(request, DiskSource::Empty).boxed()
    }

    fn restore(&self, request: RestoreRequest) -> BoxFuture<'_, Result<Launched, LaunchError>> {
        async move {
            let capabilities = self.capabilities();
            capabilities.need(Capability::of_image(request.kind))?;
            let RestoreRequest {
                checkpoint,
                target,
                kind,
            } = request;
            if kind == ImageKind::Memory {
                return self.restore_memory(checkpoint, target).await;
            }
            let ordered = self.with_images(move |images| match target {
                RestoreTarget::Same {
                    id,
                    execution,
                    egress,
                } => images.resume(&checkpoint, (id, execution, egress)),
                RestoreTarget::RollBack {
                    id,
                    execution,
                    egress,
                    own,
                } => images.roll_back(&checkpoint, &own, (id, execution, egress)),
                RestoreTarget::Copy(launch) => images.copy_for(&checkpoint, *launch),
            });
            let (request, disk) = ordered.await.map_err(failed("read the image"))?;
            self.launch_on(request, disk).await
        }
        .boxed()
    }

    fn copy_checkpoint(
        &self,
        checkpoint: Checkpoint,
    ) -> BoxFuture<'_, Result<Checkpoint, ChangeError>> {
        async move {
            let capabilities = self.capabilities();
            capabilities.need(Capability::of_image(checkpoint.kind))?;
            let leases = Arc::clone(self.leases());
            let copying = self.with_images(move |images| images.copy(&checkpoint, &leases));
            copying.await.map_err(|source| ChangeError::Failed {
                operation: "copy the image".to_owned(),
                source,
            })
        }
        .boxed()
    }

    fn compress_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, io::Result<()>> {
        async move {
            let leases = Arc::clone(self.leases());
            let compressed = self.with_images(move |images| images.compress(&checkpoint, &leases));
            compressed.await.map_err(io::Error::other)
        }
        .boxed()
    }

    fn forget_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, io::Result<()>> {
        async move {
            if !Images::has(&checkpoint) {
                return Ok(());
            }
            let forgotten = self.with_images(move |images| Ok(images.forget(&checkpoint)?));
            forgotten.await.map_err(io::Error::other)
        }
        .boxed()
    }

    fn has_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, io::Result<bool>> {
        async move {
            if !Images::has(&checkpoint) {
                return Ok(false);
            }
            let looked = self.with_images(move |images| Ok(images.is_there(&checkpoint)?));
            looked.await.map_err(io::Error::other)
        }
        .boxed()
    }

    fn retain_checkpoints(&self, kept: Vec<Checkpoint>) -> BoxFuture<'_, io::Result<()>> {
        async move {
            let retained = self.with_images(move |images| Ok(images.retain(&kept)?));
            retained.await.map_err(io::Error::other)
        }
        .boxed()
    }

    fn warm<'a>(&'a self, layers: &'a [PathBuf], tenant: &'a TenantId) -> BoxFuture<'a, ()> {
        let key = ZygoteKey {
            layers: layers.to_vec(),
            tenant: tenant.clone(),
        };
        async move { self.zygotes.warm(&key).await }.boxed()
    }

    fn has_warmth(&self, layers: &[PathBuf]) -> bool {
        // Of layers that cannot be read nothing is made, either.
        self.zygotes.is_on() && crate::has_zygote(layers).unwrap_or(false)
    }

    fn capacity(&self) -> BoxFuture<'_, io::Result<HostCapacity>> {
        self.blocking(Leases::capacity)
    }

    fn allow_pools(&self, allowed: bool) -> BoxFuture<'_, ()> {
        let (leases, zygotes) = (Arc::clone(self.leases()), Arc::clone(&self.zygotes));
        async move {
            let told = tokio::task::spawn_blocking(move || {
                if !allowed {
                    zygotes.end_without_sandboxes();
                }
                leases.allow_pools(allowed);
            });
            if let Err(panic) = told.await {
                tracing::error!(error = %Chain(&panic), "draining the pools panicked");
            }
        }
        .boxed()
    }

    fn damaged(&self) -> BoxFuture<'_, Vec<SandboxId>> {
        self.found(|_, running| {
            let all = running.all().into_iter();
            let damaged = all.filter(|(_, sandbox)| sandbox.lease().has_lost_writes());
            damaged.map(|(id, _)| id).collect()
        })
    }

    fn hoarding(&self) -> BoxFuture<'_, Vec<SandboxId>> {
        self.found(|leases, running| {
            leases.hoarding(|| {
                let all = running.all().into_iter();
                all.map(|(id, sandbox)| (id, sandbox.pid())).collect()
            })
        })
    }

    fn adopt(&self, record: LaunchRecord) -> BoxFuture<'_, Result<Launched, AdoptError>> {
        async move {
            let adopted = self.adopt_recorded(&record);
            adopted.map(|sandbox| sandbox as Launched)
        }
        .boxed()
    }

    fn log(&self, id: SandboxId) -> BoxFuture<'_, io::Result<Vec<u8>>> {
        let running = Arc::clone(&self.running);
        self.blocking(move |leases| match running.get(&id) {
            Some(sandbox) => sandbox.lease().read_log(),
            None => leases.kept_log(&id),
        })
    }

    fn requests(&self, id: SandboxId) -> BoxFuture<'_, Vec<LoggedRequest>> {
        let sandbox = self.running.get(&id);
        let requests = sandbox.map(|sandbox| sandbox.lease().requests());
        async move { requests.unwrap_or_default() }.boxed()
    }

    fn kept_logs(&self) -> BoxFuture<'_, io::Result<Vec<(SandboxId, u64)>>> {
        self.blocking(Leases::kept_logs)
    }

    fn forget_log(&self, id: SandboxId) -> BoxFuture<'_, io::Result<()>> {
        self.blocking(move |leases| leases.forget_log(&id))
    }

    fn sweep(&self) -> BoxFuture<'_, Result<Swept, DestroyError>> {
        let leases = Arc::clone(self.leases());
        async move {
            let swept = tokio::task::spawn_blocking(move || leases.sweep())
                .await
                .map_err(|panic| DestroyError {
                    what: "leftovers".into(),
                    source: panic.into(),
                })?;
            let sandboxes = swept.map_err(destroy_error)?;
            Ok(Swept { sandboxes })
        }
        .boxed()
    }
}
