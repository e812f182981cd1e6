//! A sandbox that runs.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use skep_isolation::{DestroyError, Exit, LaunchRecord, Sandbox, UsageError};
use skep_linux::Termination;
use skep_types::Usage;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use crate::disk_meter::DiskMeter;
use crate::host::{Host, read_last_words};
use crate::instance::Slot;
use crate::log::Log;
use crate::record::Record;

/// How long a launcher may take to end when its work is done: milliseconds, unless the machine
/// is overloaded.
const LEAVING: Duration = Duration::from_secs(30);

/// A sandbox that runs.
#[derive(Debug)]
pub(crate) struct Resident {
    host: Arc<Host>,
    record: Record,
    slot: Slot,
    exit: watch::Sender<Option<Exit>>,
    /// What it had used, once everything of it is removed.
    removed: tokio::sync::Mutex<Option<Usage>>,
    /// What its agent told the operator; missing if it was launched by an earlier server.
    last_words: Option<OwnedFd>,
    /// What it says to its owner; missing if it was lost.
    log: Option<Arc<Log>>,
}

/// The first process of a sandbox, to be watched.
#[derive(Debug)]
pub(crate) struct FirstProcess {
    pub(crate) pidfd: OwnedFd,
    /// Its launcher, whose child it is until that is gone.
    pub(crate) leaving: Option<OwnedFd>,
}

impl Resident {
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
        last_words: Option<OwnedFd>,
        log: Option<Log>,
    ) -> std::io::Result<Arc<Self>> {
        let FirstProcess { pidfd, leaving } = first_process;
        let (pidfd, leaving) = (watch(pidfd)?, leaving.map(watch).transpose()?);
        let resident = Arc::new(Self {
            host,
            record,
            slot,
            exit: watch::Sender::new(None),
            removed: tokio::sync::Mutex::default(),
            last_words,
            log: log.map(Arc::new),
        });
        let watched = Arc::clone(&resident);
        skep_telemetry::spawn("watch sandbox", async move {
            if let Some(leaving) = leaving {
                let left = tokio::time::timeout(LEAVING, end_of(&leaving)).await;
                if left.is_err() {
                    tracing::warn!(sandbox = %watched.record.id, "its launcher does not end");
                }
            }
            let exit = end_of(&pidfd).await;
            watched.exit.send_replace(Some(exit));
        });
        Ok(resident)
    }

    /// What its disk had counted before it.
    pub(crate) fn meter(&self) -> Option<DiskMeter> {
        self.record.meter
    }

    /// The last words of the agent, for the log of the server.
    pub(crate) fn last_words(&self) -> String {
        let words = self.last_words.as_ref().map(read_last_words);
        match words {
            Some(Ok(text)) => text.trim().to_owned(),
            Some(Err(error)) => format!("(log unreadable: {error})"),
            None => String::new(),
        }
    }

    /// What it has said to its owner so far. Blocks for as long as it takes to copy memory.
    pub(crate) fn said(&self) -> std::io::Result<Vec<u8>> {
        match &self.log {
            Some(log) => log.read(),
            None => Ok(Vec::new()),
        }
    }
}

fn watch(pidfd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    #[expect(
        deprecated,
        reason = "what the newer call demands is what an owned descriptor is: open, and always the same"
    )]
    AsyncFd::new(pidfd)
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

impl Sandbox for Resident {
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
            let mut removed = self.removed.lock().await;
            if let Some(usage) = *removed {
                return Ok(usage);
            }
            let (host, id, slot) = (Arc::clone(&self.host), self.record.id.clone(), self.slot);
            let log = self.log.clone();
            // Dropping the call does not stop what it started: the counters are read and the
            // sandbox is removed in one go, and a second call finds nothing left to do.
            let work = tokio::task::spawn_blocking(move || {
                let usage = host.usage(&id).unwrap_or_else(|error| {
                    tracing::debug!(sandbox = %id, %error, "counters are gone");
                    Usage::default()
                });
                let keep = || log.iter().for_each(|log| host.keep_log(&id, log));
                // Once for a server that is killed in the middle, once for the last lines.
                keep();
                host.remove(&id, Some(slot))?;
                keep();
                host.move_out(&id, slot);
                Ok(usage)
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
}
