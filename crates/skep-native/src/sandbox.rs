//! A sandbox that runs.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::Signal;
use skep_host::{Capture, LastLook, Lease, ReleaseError};
use skep_isolation::{
    AfterCheckpoint, Apart, ChangeError, DestroyError, Exit, LaunchRecord, Sandbox, UsageError,
};
use skep_linux::Termination;
use skep_telemetry::Chain;
use skep_types::{
    Capability, Checkpoint, Connections, Egress, ImageKind, ImagePurpose, Obstacle, Redacted,
    Unsupported, Usage,
};
use tokio::io::unix::AsyncFd;
use tokio::sync::{Semaphore, watch};

use crate::changes::{self, CopyError};
use crate::config::CheckpointedAgents;
use crate::image::{self, Images, LaunchOrder};
use crate::memory::{self, Checkpointer, DumpError, Dumped};
use crate::record::Record;
use crate::running::RunningSandboxes;
use crate::stderr::Stderr;
use crate::watch::watch;
use crate::zygote::Zygotes;

/// Time limit for a launcher to end when its work is done: milliseconds, unless the host is
/// overloaded.
const LAUNCHER_EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for the processes of a sandbox to stand still: a millisecond, unless the host is
/// overloaded or one of them waits in the kernel for something that does not come.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(5);

/// Registries that know sandboxes, and are told when nothing of one is left.
#[derive(Debug, Clone)]
pub(crate) struct Owners {
    pub(crate) running: Arc<RunningSandboxes>,
    pub(crate) zygotes: Arc<Zygotes>,
    pub(crate) images: Arc<Images>,
    /// One sandbox is paged out at a time: they share the host's swap.
    pub(crate) paging: Arc<Semaphore>,
    /// Missing where no images with memory are made.
    pub(crate) checkpoints: Option<Checkpoints>,
}

/// The way to images with memory.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoints {
    pub(crate) checkpointer: Arc<Checkpointer>,
    pub(crate) agents: Arc<dyn CheckpointedAgents>,
}

pub(crate) type Source = Box<dyn std::error::Error + Send + Sync>;

/// A sandbox that runs.
#[derive(Debug)]
pub(crate) struct NativeSandbox {
    lease: Arc<Lease>,
    record: Record,
    /// Its first process, with which all others of its pid namespace die.
    process: Arc<AsyncFd<OwnedFd>>,
    exit: watch::Sender<Option<Exit>>,
    /// Counters of the moment when it was killed.
    last_look: OnceLock<LastLook>,
    /// Its usage, once everything of it is removed.
    removed: tokio::sync::Mutex<Option<Usage>>,
    /// Set while its agent is prepared to be written to an image.
    is_prepared: AtomicBool,
    /// Set while its memory may be paged out.
    is_paged_out: Arc<AtomicBool>,
    /// Standard error of its agent; missing if it was launched by an earlier server.
    stderr: Option<Stderr>,
    /// Its disk, if its changes are to become a layer. Taken when it is destroyed, because the disk
    /// stays mounted as long as somebody has it open.
    layer_disk: Mutex<Option<Arc<OwnedFd>>>,
    owners: Owners,
}

/// The first process of a sandbox, to be watched.
#[derive(Debug)]
pub(crate) struct FirstProcess {
    process: AsyncFd<OwnedFd>,
    /// Its launcher, whose child it is until that is gone.
    exiting: Option<AsyncFd<OwnedFd>>,
}

impl FirstProcess {
    /// Watches a process and its launcher.
    ///
    /// # Errors
    ///
    /// If one cannot be watched.
    pub(crate) fn watch(pidfd: OwnedFd, exiting: Option<OwnedFd>) -> std::io::Result<Self> {
        Ok(Self {
            process: watch(pidfd)?,
            exiting: exiting.map(watch).transpose()?,
        })
    }
}

impl NativeSandbox {
    /// Takes charge of a sandbox, whose lease is kept.
    pub(crate) fn new(
        lease: Arc<Lease>,
        record: Record,
        first_process: FirstProcess,
        stderr: Option<Stderr>,
        layer_disk: Option<OwnedFd>,
        owners: Owners,
    ) -> Arc<Self> {
        let FirstProcess { process, exiting } = first_process;
        let process = Arc::new(process);
        let sandbox = Arc::new(Self {
            lease,
            record,
            process: Arc::clone(&process),
            exit: watch::Sender::new(None),
            last_look: OnceLock::new(),
            removed: tokio::sync::Mutex::default(),
            is_prepared: AtomicBool::new(false),
            is_paged_out: Arc::default(),
            stderr,
            layer_disk: Mutex::new(layer_disk.map(Arc::new)),
            owners,
        });
        let watched = Arc::clone(&sandbox);
        skep_telemetry::spawn("watch sandbox", async move {
            // Until its launcher is gone it is no child of ours, and its exit status is not for us.
            if let Some(exiting) = exiting {
                let exited = tokio::time::timeout(LAUNCHER_EXIT_TIMEOUT, end_of(&exiting)).await;
                if exited.is_err() {
                    tracing::warn!(sandbox = %watched.lease.id(), "its launcher does not end");
                }
            }
            let exit = end_of(&process).await;
            watched.exit.send_replace(Some(exit));
        });
        sandbox
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// Its first process. Another one may have the number when it has ended.
    pub(crate) fn pid(&self) -> i32 {
        self.record.pid
    }

    /// Calls `work` with the lease where blocking is allowed.
    fn changing<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Lease) -> Result<T, Source> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, ChangeError>> {
        let lease = Arc::clone(&self.lease);
        async move {
            let failed = |source| ChangeError::Failed {
                operation: operation.to_owned(),
                source,
            };
            let done = tokio::task::spawn_blocking(move || work(&lease))
                .await
                .map_err(|panic| failed(panic.into()))?;
            done.map_err(failed)
        }
        .boxed()
    }

    /// Writes the sandbox with its memory to an image.
    async fn checkpoint_memory(&self, after: AfterCheckpoint) -> Result<Checkpoint, ChangeError> {
        const OPERATION: &str = "write the memory of the sandbox";
        let unsupported = || Unsupported(Capability::Checkpoint);
        let checkpoints = self.owners.checkpoints.clone().ok_or_else(unsupported)?;
        self.is_paged_out.store(false, Ordering::Relaxed);
        let was_frozen = self.changing(OPERATION, Lease::is_frozen).await?;
        if was_frozen {
            // The agent alone: what was paused does nothing while that prepares.
            self.changing(OPERATION, Lease::thaw_agent).await?;
        }
        let prepared = self.prepare(&checkpoints).await;
        let made = match prepared {
            Err(source) => Err(DumpError::from(source)),
            Ok(()) => {
                let dumped = Dumped {
                    pid: self.record.pid,
                    log_fd: self.record.log_holder().fd,
                    was_frozen,
                    after,
                };
                let (lease, images) = (Arc::clone(&self.lease), Arc::clone(&self.owners.images));
                let checkpointer = Arc::clone(&checkpoints.checkpointer);
                let dumping = move || checkpointer.dump(&lease, &images, dumped);
                let done = tokio::task::spawn_blocking(dumping).await;
                done.unwrap_or_else(|panic| {
                    let is_damaged = true;
                    Err(DumpError {
                        is_damaged,
                        ..panic.into()
                    })
                })
            }
        };
        let mut is_lost = false;
        if let Err(DumpError { is_damaged, .. }) = &made {
            is_lost = *is_damaged && !self.recovers(&checkpoints).await;
            if was_frozen {
                let deadline = Instant::now() + FREEZE_TIMEOUT;
                self.changing(OPERATION, move |lease| lease.freeze(deadline))
                    .await?;
            } else if is_lost {
                kill(self.process.get_ref());
            } else {
                self.changing(OPERATION, Lease::thaw).await?;
            }
        }
        let stands = was_frozen || (made.is_ok() && after == AfterCheckpoint::Stand);
        if !stands && !is_lost {
            self.go_on().await;
        }
        made.map_err(|DumpError { source, reason, .. }| {
            let operation = format!("{OPERATION} ({reason})");
            match Obstacle::named(reason) {
                _ if is_lost => ChangeError::Damaged { operation, source },
                Some(obstacle) => ChangeError::Unwritable {
                    operation,
                    obstacle,
                    source,
                },
                None => ChangeError::Failed { operation, source },
            }
        })
    }

    /// Lets processes go on that CRIU had hold of when it was killed, and returns false if they do not.
    async fn recovers(&self, checkpoints: &Checkpoints) -> bool {
        let pid = self.record.pid;
        let recovering = move |lease: &Lease| {
            // Whoever stands neither recovers nor dies.
            lease.thaw()?;
            memory::recover(lease, pid)
        };
        let recovering = self.changing("let go of the sandbox", recovering);
        let recovered = match recovering.await {
            // One that is about to die of what CRIU has left in it does not answer any more.
            Ok(()) => self.tell_to_go_on(checkpoints).await,
            Err(error) => Err(error.into()),
        };
        match recovered {
            Ok(()) => {
                self.is_prepared.store(false, Ordering::Relaxed);
                tracing::warn!(sandbox = %self.lease.id(), "criu was killed, and let go of the sandbox");
                true
            }
            Err(error) => {
                tracing::error!(sandbox = %self.lease.id(), error = %Chain(error.as_ref()), "criu was killed, and the sandbox has not recovered");
                false
            }
        }
    }

    async fn prepare(&self, checkpoints: &Checkpoints) -> Result<(), Source> {
        let config = self.agent_config().await?;
        self.is_prepared.store(true, Ordering::Relaxed);
        let address = self.address();
        Ok(checkpoints.agents.prepare(address, &config).await?)
    }

    /// Tells the agent that it goes on, if it was prepared for something else.
    async fn go_on(&self) {
        let Some(checkpoints) = &self.owners.checkpoints else {
            return;
        };
        if !self.is_prepared.swap(false, Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.tell_to_go_on(checkpoints).await {
            tracing::warn!(sandbox = %self.lease.id(), error = %Chain(error.as_ref()), "cannot tell the agent that its sandbox was resumed");
        }
    }

    async fn tell_to_go_on(&self, checkpoints: &Checkpoints) -> Result<(), Source> {
        let config = self.agent_config().await?;
        let telling = checkpoints.agents.go_on(self.address(), &config, None);
        Ok(telling.await?)
    }

    async fn agent_config(&self) -> Result<Redacted<Vec<u8>>, Source> {
        let lease = Arc::clone(&self.lease);
        let read = tokio::task::spawn_blocking(move || LaunchOrder::kept(&lease)).await?;
        Ok(read?.agent_config())
    }

    /// Text that the agent wrote to its standard error, for the log of the server.
    pub(crate) fn agent_stderr(&self) -> String {
        self.stderr.as_ref().map(Stderr::text).unwrap_or_default()
    }
}

/// Kills, waits, counts, and gives everything back, in this order: what is counted is read when
/// nothing runs any more and before the counters go. Blocks.
fn remove(
    lease: &Lease,
    process: &OwnedFd,
    last_look: LastLook,
    deadline: Instant,
) -> Result<Usage, ReleaseError> {
    // One that stands has not even noticed that it was killed.
    lease.kill_frozen();
    // Once for a server that is killed in the middle, once for the last lines.
    lease.keep_log();
    wait_for_end(process, deadline);
    let usage = lease.usage().unwrap_or_else(|error| {
        tracing::debug!(sandbox = %lease.id(), %error, "counters are gone");
        Usage::default()
    });
    lease.release(deadline)?;
    lease.keep_log();
    Ok(last_look.complete(usage))
}

/// Makes an image of the files of a sandbox while its processes stand. Blocks.
fn capture(lease: &Lease, images: &Images, after: AfterCheckpoint) -> Result<Checkpoint, Source> {
    let was_frozen = lease.is_frozen()?;
    let how = match after {
        AfterCheckpoint::Continue(ImagePurpose::Keep) => Capture::Copy,
        AfterCheckpoint::Continue(ImagePurpose::Copy) => Capture::PassingCopy,
        AfterCheckpoint::Stand => Capture::Keep,
    };
    lease.freeze(Instant::now() + FREEZE_TIMEOUT)?;
    let made = images.make(lease, how);
    let stands = made.is_ok() && after == AfterCheckpoint::Stand;
    if !was_frozen && !stands {
        lease.thaw()?;
    }
    made
}

/// Waits until a process is gone, and takes its exit status.
async fn end_of(pidfd: &AsyncFd<OwnedFd>) -> Exit {
    loop {
        let Ok(mut ready) = pidfd.readable().await else {
            return Exit::Unknown;
        };
        match skep_linux::termination(pidfd.get_ref().as_fd()) {
            Ok(None) => ready.clear_ready(),
            Ok(Some(Termination::Code(code))) => return Exit::Code(code),
            Ok(Some(Termination::Signal(signal))) => return Exit::Signal(signal),
            Ok(Some(Termination::Unknown)) => return Exit::Unknown,
            Err(error) => {
                tracing::warn!(%error, "cannot learn how a sandbox ended");
                return Exit::Unknown;
            }
        }
    }
}

impl Sandbox for NativeSandbox {
    fn address(&self) -> IpAddr {
        IpAddr::V4(self.lease.slot().address())
    }

    fn record(&self) -> LaunchRecord {
        self.record.write()
    }

    fn exited(&self) -> BoxFuture<'_, Exit> {
        async move {
            let mut exits = self.exit.subscribe();
            let exit = exits
                .wait_for(Option::is_some)
                .await
                .expect("the sender is in self");
            exit.expect("waited for it")
        }
        .boxed()
    }

    fn usage(&self) -> BoxFuture<'_, Result<Usage, UsageError>> {
        let lease = Arc::clone(&self.lease);
        async move {
            let unreadable = |source| UsageError {
                what: format!("the counters of `{}`", self.lease.id()),
                source,
            };
            let read = tokio::task::spawn_blocking(move || lease.usage()).await;
            read.map_err(|panic| unreadable(panic.into()))?
                .map_err(unreadable)
        }
        .boxed()
    }

    fn freeze(&self) -> BoxFuture<'_, Result<(), ChangeError>> {
        self.changing("freeze the sandbox", |lease| {
            lease.freeze(Instant::now() + FREEZE_TIMEOUT)
        })
    }

    fn page_out(&self) -> BoxFuture<'_, Result<u64, ChangeError>> {
        async move {
            // Before it waits for its turn: who is thawed meanwhile has no turn any more.
            self.is_paged_out.store(true, Ordering::Relaxed);
            let _turn = self.owners.paging.acquire().await;
            let wanted = Arc::clone(&self.is_paged_out);
            self.changing("page out the memory of the sandbox", move |lease| {
                let is_wanted = || wanted.load(Ordering::Relaxed);
                if is_wanted() && lease.is_frozen()? {
                    lease.page_out(&is_wanted)
                } else {
                    Ok(0)
                }
            })
            .await
        }
        .boxed()
    }

    fn thaw(&self) -> BoxFuture<'_, Result<(), ChangeError>> {
        async move {
            self.is_paged_out.store(false, Ordering::Relaxed);
            self.changing("thaw the sandbox", Lease::thaw).await?;
            self.go_on().await;
            Ok(())
        }
        .boxed()
    }

    fn reconfigured(&self, agent_config: Redacted<Vec<u8>>) -> BoxFuture<'_, io::Result<()>> {
        let lease = Arc::clone(&self.lease);
        async move {
            let keeping = move || image::keep_config(&lease, &agent_config);
            let kept = tokio::task::spawn_blocking(keeping).await;
            kept.map_err(io::Error::other)?
        }
        .boxed()
    }

    fn checkpoint(
        &self,
        kind: ImageKind,
        after: AfterCheckpoint,
    ) -> BoxFuture<'_, Result<Checkpoint, ChangeError>> {
        match kind {
            ImageKind::Filesystem => {
                let images = Arc::clone(&self.owners.images);
                self.changing("capture the files of the sandbox", move |lease| {
                    capture(lease, &images, after)
                })
            }
            ImageKind::Memory => self.checkpoint_memory(after).boxed(),
        }
    }

    fn copy_changes(
        &self,
        into: PathBuf,
        limit: u64,
        apart: Option<Apart>,
    ) -> BoxFuture<'_, Result<u64, ChangeError>> {
        let disk = self.layer_disk.lock().clone();
        self.changing("copy the changes of the sandbox", move |lease| {
            let disk = disk.ok_or("it was not launched for that")?;
            lease.freeze(Instant::now() + FREEZE_TIMEOUT)?;
            let copied = changes::copy(&disk, &into, limit, apart.as_ref());
            copied.map_err(|error| match error {
                // The kind tells callers that it is theirs.
                CopyError::TooLarge(_) | CopyError::TooMany => {
                    io::Error::new(io::ErrorKind::FileTooLarge, error).into()
                }
                CopyError::Files { .. } => error.into(),
            })
        })
    }

    fn set_egress(
        &self,
        egress: Egress,
        connections: Connections,
    ) -> BoxFuture<'_, Result<(), ChangeError>> {
        self.changing("change what the sandbox reaches", move |lease| {
            lease.set_egress(egress, connections)
        })
    }

    fn destroy(&self) -> BoxFuture<'_, Result<Usage, DestroyError>> {
        async move {
            self.is_paged_out.store(false, Ordering::Relaxed);
            // First and always, before anything that can wait or fail.
            kill(self.process.get_ref());
            let last_look = *self.last_look.get_or_init(|| self.lease.last_look());
            let mut removed = self.removed.lock().await;
            if let Some(usage) = *removed {
                return Ok(usage);
            }
            let (lease, process) = (Arc::clone(&self.lease), Arc::clone(&self.process));
            let Owners {
                running, zygotes, ..
            } = self.owners.clone();
            drop(self.layer_disk.lock().take());
            let deadline = Instant::now() + lease.kill_deadline();
            // Dropping the call does not stop what it started: the counters are read and the
            // sandbox is removed in one go, and a second call finds nothing left to do.
            let work = tokio::task::spawn_blocking(move || {
                let usage = remove(&lease, process.get_ref(), last_look, deadline)?;
                running.remove(lease.id());
                // It may have been the last of a zygote that was replaced.
                zygotes.end_unused();
                Ok(usage)
            });
            let usage = (work.await)
                .map_err(|panic| DestroyError {
                    what: "sandbox".into(),
                    source: panic.into(),
                })?
                .map_err(destroy_error)?;
            *removed = Some(usage);
            Ok(usage)
        }
        .boxed()
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        async move {
            if let Err(DestroyError { what, source }) = self.destroy().await {
                self.lease.abandon(&ReleaseError { what, source });
                self.owners.running.remove(self.lease.id());
            }
        }
        .boxed()
    }
}

pub(crate) fn destroy_error(error: ReleaseError) -> DestroyError {
    DestroyError {
        what: error.what,
        source: error.source,
    }
}

/// Kills a process, unless it is gone.
fn kill(process: &OwnedFd) {
    match rustix::process::pidfd_send_signal(process, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => {}
        // Its cgroups are killed, too.
        Err(error) => tracing::error!(%error, "cannot kill the first process of a sandbox"),
    }
}

/// Waits until a process has ended, or until `deadline`. The first process of a pid namespace
/// ends after all others. Blocks.
fn wait_for_end(process: &OwnedFd, deadline: Instant) {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        let mut waiting = [PollFd::new(process, PollFlags::IN)];
        match rustix::event::poll(&mut waiting, timeout.as_ref()) {
            Ok(_) => return,
            Err(Errno::INTR) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot wait for the end of a process");
                return;
            }
        }
    }
}
