//! The tasks that own builds.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_control::{BuildReports, Builds, CollectError};
use skep_image::Catalog;
use skep_telemetry::Tasks;
use skep_types::{BuildFailure, BuildId, BuildOrder, BuiltTemplate, LayerKey, Reserve};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::archives::Archives;
use crate::base;
use crate::build::OpenSandboxes;
use crate::images::Images;
use crate::log::Log;
use crate::sandboxes::Sandboxes;

/// Parts that an engine works with.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The store of layers.
    pub catalog: Arc<Catalog>,
    /// Lender of sandboxes.
    pub sandboxes: Arc<dyn Sandboxes>,
    /// Uploaded files.
    pub archives: Arc<dyn Archives>,
    /// Images of registries.
    pub images: Arc<dyn Images>,
    /// Settings of this host for images of registries; templates bring theirs.
    pub host_settings: HostSettings,
    /// Directory for files that nobody needs when a step is over.
    pub scratch: PathBuf,
    /// The part of its disk that such files leave free; `None` if they take all there is.
    pub reserve: Option<Reserve>,
    /// Limits of builds.
    pub limits: Limits,
}

/// Settings by which package clients find what this host finds: mirrors, proxies, certificates.
#[derive(Clone, Default)]
pub struct HostSettings {
    /// Files by their absolute paths.
    pub files: Vec<(String, String)>,
    /// Variables that every command of a build is given, by name and value.
    pub environment: Vec<(String, String)>,
}

/// Without the contents: mirrors may have passwords.
impl std::fmt::Debug for HostSettings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let paths = self.files.iter().map(|(path, _)| path);
        formatter.debug_list().entries(paths).finish()
    }
}

/// Limits of builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Time limit for a build.
    pub time: Duration,
    /// Most bytes of one layer, and of the files of one copy.
    pub layer_bytes: u64,
    /// Most bytes of a template beyond its base.
    pub template_bytes: u64,
    /// Most layers of a template.
    pub layers: usize,
    /// Most builds at the same time; others wait.
    pub concurrent: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_hours(1),
            layer_bytes: 10 << 30,
            template_bytes: 20 << 30,
            // An overlay takes 500, and a sandbox adds some of its own.
            layers: 400,
            concurrent: 4,
        }
    }
}

/// Builds templates: one task owns each build.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) sandboxes: Arc<dyn Sandboxes>,
    pub(crate) archives: Arc<dyn Archives>,
    pub(crate) images: Arc<dyn Images>,
    pub(crate) host_settings: HostSettings,
    pub(crate) scratch: PathBuf,
    pub(crate) reserve: Option<Reserve>,
    pub(crate) limits: Limits,
    slots: Semaphore,
    /// The builds that run, held for a look-up or a change.
    running: Mutex<HashMap<BuildId, CancellationToken>>,
    tasks: Tasks,
}

/// Reason for which a build was broken off.
enum Stopped {
    Cancelled,
    TimedOut(Duration),
    /// The server stops. The build goes on when the next one starts, so it has not ended.
    Stopping,
}

impl Engine {
    /// Makes an engine of these parts.
    pub fn new(options: EngineOptions) -> Self {
        let slots = Semaphore::new(options.limits.concurrent.max(1));
        let inner = Inner {
            catalog: options.catalog,
            sandboxes: options.sandboxes,
            archives: options.archives,
            images: options.images,
            host_settings: options.host_settings,
            scratch: options.scratch,
            reserve: options.reserve,
            limits: options.limits,
            slots,
            running: Mutex::default(),
            tasks: Tasks::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Breaks off all builds, and returns when nothing of them runs. None of them has ended: started
    /// again, they go on at their last layer.
    pub async fn shut_down(&self) {
        self.inner.tasks.finish().await;
    }
}

impl Builds for Engine {
    fn start(&self, order: BuildOrder, reports: Arc<dyn BuildReports>) {
        let cancelled = CancellationToken::new();
        {
            let mut running = self.inner.running.lock();
            if running.contains_key(&order.build) {
                tracing::warn!(build = %order.build, "a build was started that runs already");
                return;
            }
            running.insert(order.build, cancelled.clone());
        }
        let engine = Arc::clone(&self.inner);
        let span = tracing::info_span!(parent: None, "build", build = %order.build);
        let owning = async move {
            let build = order.build;
            own(&engine, order, reports, cancelled).await;
            engine.running.lock().remove(&build);
        };
        let spawned = tracing::info_span!(parent: None, "builds");
        spawned.in_scope(|| self.inner.tasks.spawn("own build", owning.instrument(span)));
    }

    fn cancel(&self, build: BuildId) {
        if let Some(cancelled) = self.inner.running.lock().get(&build) {
            cancelled.cancel();
        }
    }

    fn collect(
        &self,
        needed: HashSet<LayerKey>,
        before: SystemTime,
    ) -> BoxFuture<'_, Result<u64, CollectError>> {
        let catalog = Arc::clone(&self.inner.catalog);
        // What a running build uses it has used since it began.
        let began = SystemTime::now().checked_sub(self.inner.limits.time);
        let before = began.map_or(before, |began| began.min(before));
        let sandboxes = Arc::clone(&self.inner.sandboxes);
        let collecting = tokio::task::spawn_blocking(move || {
            if let Err(error) = sandboxes.forget_unused(before) {
                tracing::warn!(%error, "old downloads of builds are not removed");
            }
            catalog.collect(&needed, before)
        });
        async move {
            let collected = collecting
                .await
                .map_err(|panic| CollectError(panic.into()))?
                .map_err(|error| CollectError(error.into()))?;
            if collected.steps + collected.layers > 0 {
                let (steps, layers) = (collected.steps, collected.layers);
                tracing::info!(steps, layers, "collected what no build uses");
            }
            Ok(collected.bytes)
        }
        .boxed()
    }
}

/// Owns a build until it has ended, and reports its end.
async fn own(
    engine: &Arc<Inner>,
    order: BuildOrder,
    reports: Arc<dyn BuildReports>,
    cancelled: CancellationToken,
) {
    let begun = Instant::now();
    let build = order.build;
    let log = Log::new(build, Arc::clone(&reports));
    log.info(format!("Building template {}/{build}", order.template));
    let open = Arc::new(OpenSandboxes::default());
    let building = carry_out(Arc::clone(engine), order, log.clone(), Arc::clone(&open));
    // A task of its own, because one that panics has ended, too.
    let mut building = skep_telemetry::spawn("build template", building);
    let built = tokio::select! {
        biased;
        () = engine.tasks.stopping().cancelled_owned() => Err(Stopped::Stopping),
        () = cancelled.cancelled() => Err(Stopped::Cancelled),
        () = tokio::time::sleep(engine.limits.time) => Err(Stopped::TimedOut(engine.limits.time)),
        built = &mut building => Ok(built),
    };
    if built.is_err() {
        building.abort();
        // Its sandbox may be on its way until it is gone.
        drop(building.await);
    }
    open.clear().await;
    let result = match built {
        Ok(Ok(Some(result))) => result,
        Ok(Ok(None) | Err(_)) => Err(BuildFailure {
            phase: None,
            message: "the build failed inside the server; its operator finds the reason in the server's log".to_owned(),
        }),
        Err(Stopped::Stopping) => return,
        Err(Stopped::Cancelled) => Err(BuildFailure {
            phase: None,
            message: "build was cancelled".to_owned(),
        }),
        Err(Stopped::TimedOut(limit)) => Err(BuildFailure {
            phase: None,
            message: format!("the build took longer than {} minutes", limit.as_secs() / 60),
        }),
    };
    match &result {
        Ok(_) => log.info(format!(
            "Build finished, took {}s",
            begun.elapsed().as_secs()
        )),
        Err(failure) => log.error(format!("Build failed: {failure}")),
    }
    reports.end(build, result);
}

/// Carries out a build once there is a slot for it.
async fn carry_out(
    engine: Arc<Inner>,
    order: BuildOrder,
    log: Log,
    open: Arc<OpenSandboxes>,
) -> Result<BuiltTemplate, BuildFailure> {
    let _slot = engine.slots.acquire().await;
    // In a box: what a build keeps while it waits is much, and its owner is small.
    let building = Box::pin(async {
        let build = base::begin(&engine, &order, &log, &open).await?;
        build.finish().await
    });
    building.await
}
