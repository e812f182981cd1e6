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
use skep_isolation::{DestroyError, Exit, LaunchRecord, Sandbox, UsageError};
use skep_linux::Termination;
use skep_types::Usage;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use crate::disk_meter::DiskMeter;
use crate::host::{Host, LastLook, read_stderr};
use crate::instance::Slot;
use crate::log::Log;
use crate::record::Record;
use crate::watch::watch;

/// Time limit for a launcher to end when its work is done: milliseconds, unless the host
/// is overloaded.
const LAUNCHER_EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A sandbox that runs.
#[derive(Debug)]
pub(crate) struct NativeSandbox {
    host: Arc<Host>,
    record: Record,
    slot: Slot,
    /// Its first process, with which all others of its pid namespace die.
    process: Arc<AsyncFd<OwnedFd>>,
    exit: watch::Sender<Option<Exit>>,
    /// Counters of the moment when it was killed.
    last_look: OnceLock<LastLook>,
    /// Its usage, once everything of it is removed.
    removed: tokio::sync::Mutex<Option<Usage>>,
    /// Standard error of its agent; missing if it was launched by an earlier server.
    agent_stderr: Option<OwnedFd>,
    /// Its log for its owner; missing if it was lost.
    log: Option<Arc<Log>>,
}

/// The first process of a sandbox, to be watched.
#[derive(Debug)]
pub(crate) struct FirstProcess {
    pub(crate) pidfd: OwnedFd,
    /// Its launcher, whose child it is until that is gone.
    pub(crate) exiting: Option<OwnedFd>,
}

impl NativeSandbox {
    /// Takes charge of a sandbox: watches its first process from now on.
    ///
    /// # Errors
    ///
    /// If the process cannot be watched.
    pub(crate) fn new(
        host: Arc<Host>,
        record: Record,
        slot: Slot,
        first_process: FirstProcess,
        agent_stderr: Option<OwnedFd>,
        log: Option<Log>,
    ) -> std::io::Result<Arc<Self>> {
        let FirstProcess { pidfd, exiting } = first_process;
        let (process, exiting) = (Arc::new(watch(pidfd)?), exiting.map(watch).transpose()?);
        let sandbox = Arc::new(Self {
            host,
            record,
            slot,
            process: Arc::clone(&process),
            exit: watch::Sender::new(None),
            last_look: OnceLock::new(),
            removed: tokio::sync::Mutex::default(),
            agent_stderr,
            log: log.map(Arc::new),
        });
        let watched = Arc::clone(&sandbox);
        skep_telemetry::spawn("watch sandbox", async move {
            if let Some(exiting) = exiting {
                let left = tokio::time::timeout(LAUNCHER_EXIT_TIMEOUT, end_of(&exiting)).await;
                if left.is_err() {
                    tracing::warn!(sandbox = %watched.record.id, "its launcher does not end");
                }
            }
            let exit = end_of(&process).await;
            watched.exit.send_replace(Some(exit));
        });
        Ok(sandbox)
    }

    /// The counters of its disk before it.
    pub(crate) fn meter(&self) -> Option<DiskMeter> {
        self.record.meter
    }

    /// Its first process. Another one may have the number when it has ended.
    pub(crate) fn pid(&self) -> i32 {
        self.record.pid
    }

    /// Text that the agent wrote to its standard error, for the log of the server.
    pub(crate) fn agent_stderr(&self) -> String {
        let words = self.agent_stderr.as_ref().map(read_stderr);
        match words {
            Some(Ok(text)) => text.trim().to_owned(),
            Some(Err(error)) => format!("(log unreadable: {error})"),
            None => String::new(),
        }
    }

    /// Reads its log so far. Blocks for as long as it takes to copy memory.
    pub(crate) fn read_log(&self) -> std::io::Result<Vec<u8>> {
        match &self.log {
            Some(log) => log.read(),
            None => Ok(Vec::new()),
        }
    }
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
        IpAddr::V4(self.slot.address())
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
        let (host, id) = (Arc::clone(&self.host), self.record.id.clone());
        async move {
            let unreadable = |source| UsageError {
                what: format!("the counters of `{}`", self.record.id),
                source,
            };
            let read = tokio::task::spawn_blocking(move || host.usage(&id)).await;
            read.map_err(|panic| unreadable(panic.into()))?
                .map_err(unreadable)
        }
        .boxed()
    }

    fn destroy(&self) -> BoxFuture<'_, Result<Usage, DestroyError>> {
        async move {
            // First and always, before anything that can wait or fail.
            kill(self.process.get_ref());
            let look = || self.host.last_look(&self.record.id, self.slot);
            let last_look = *self.last_look.get_or_init(look);
            let mut removed = self.removed.lock().await;
            if let Some(usage) = *removed {
                return Ok(usage);
            }
            let (host, id, slot) = (Arc::clone(&self.host), self.record.id.clone(), self.slot);
            let (process, log) = (Arc::clone(&self.process), self.log.clone());
            let deadline = Instant::now() + host.config.kill_deadline;
            // Dropping the call does not stop what it started: the counters are read and the
            // sandbox is removed in one go, and a second call finds nothing left to do.
            let work = tokio::task::spawn_blocking(move || {
                let keep = || log.iter().for_each(|log| host.keep_log(&id, log));
                // Once for a server that is killed in the middle, once for the last lines.
                keep();
                wait_for_end(process.get_ref(), deadline);
                let usage = host.usage(&id).unwrap_or_else(|error| {
                    tracing::debug!(sandbox = %id, %error, "counters are gone");
                    Usage::default()
                });
                host.remove(&id, Some(slot), deadline)?;
                keep();
                host.unregister(&id, slot);
                Ok(last_look.complete(usage))
            });
            let usage = work.await.map_err(|panic| DestroyError {
                what: "sandbox".into(),
                source: panic.into(),
            })??;
            *removed = Some(usage);
            Ok(usage)
        }
        .boxed()
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        async move {
            if let Err(error) = self.destroy().await {
                let slots = vec![self.slot];
                self.host.leftovers.add(&self.record.id, slots, &error);
            }
        }
        .boxed()
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
