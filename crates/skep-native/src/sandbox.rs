//! A sandbox that runs.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::Signal;
use skep_host::{LastLook, Lease, ReleaseError};
use skep_isolation::{DestroyError, Exit, LaunchRecord, Sandbox, UsageError};
use skep_linux::Termination;
use skep_types::Usage;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use crate::record::Record;
use crate::running::RunningSandboxes;
use crate::stderr::Stderr;
use crate::watch::watch;
use crate::zygote::Zygotes;

/// Time limit for a launcher to end when its work is done: milliseconds, unless the host is
/// overloaded.
const LAUNCHER_EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Registries that are told when nothing of a sandbox is left.
type Owners = (Arc<RunningSandboxes>, Arc<Zygotes>);

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
    /// Standard error of its agent; missing if it was launched by an earlier server.
    stderr: Option<Stderr>,
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
            stderr,
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
            let mut exit = self.exit.subscribe();
            let exit = exit.wait_for(Option::is_some).await;
            let exit = exit.expect("the sender is in self");
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

    fn destroy(&self) -> BoxFuture<'_, Result<Usage, DestroyError>> {
        async move {
            // First and always, before anything that can wait or fail.
            kill(self.process.get_ref());
            let last_look = *self.last_look.get_or_init(|| self.lease.last_look());
            let mut removed = self.removed.lock().await;
            if let Some(usage) = *removed {
                return Ok(usage);
            }
            let (lease, process) = (Arc::clone(&self.lease), Arc::clone(&self.process));
            let (running, zygotes) = self.owners.clone();
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
            let usage = (work.await).map_err(|panic| DestroyError {
                what: "sandbox".into(),
                source: panic.into(),
            })?;
            let usage = usage.map_err(destroy_error)?;
            *removed = Some(usage);
            Ok(usage)
        }
        .boxed()
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        async move {
            if let Err(DestroyError { what, source }) = self.destroy().await {
                self.lease.abandon(&ReleaseError { what, source });
                self.owners.0.remove(self.lease.id());
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
