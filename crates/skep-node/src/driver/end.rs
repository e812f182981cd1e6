//! The end of a sandbox, which is over only when nothing of it is left.

use std::time::{Duration, Instant};

use skep_isolation::DestroyError;
use skep_telemetry::Chain;
use skep_types::{Departure, EndReason, Event, KillError, NotHere, Usage};

use super::{Driver, Held, Killer, Request, answer};
use crate::clock::wall_now;

/// Time limit for the journal before a kill. A disk that is full or broken keeps nobody alive.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Delay between two attempts to remove what is left of a sandbox, at first and at most.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_mins(1);

/// Limit on the callers that wait for one attempt. Others wait in the queue.
const MOST_KILLERS: usize = 32;

/// Reason for the next attempt, or for none.
enum Next {
    /// Somebody asked, or it is time.
    Attempt(Option<Killer>),
    /// The server stops and leaves it to the next one.
    Leave,
}

impl Driver {
    /// Kills the sandbox, removes what is left of it and writes down its end. Tries until
    /// nothing is left; until then the sandbox is [`skep_types::Phase::Stuck`], keeps what it
    /// has, and nobody can reach it.
    pub(super) async fn end(
        &mut self,
        mut held: Held,
        reason: EndReason,
        mut killer: Option<Killer>,
    ) {
        self.remember_departure(reason);
        // The route goes first: when the caller has its answer the proxy has already stopped.
        self.close(&held);
        self.sleeper.send_replace(None);
        self.enter(Event::Kill);
        held.record.ending = Some(reason);
        // A server that is killed in the middle is not to find a sandbox that seems to have
        // crashed.
        let noted = self.journal_record(&held.record);
        if tokio::time::timeout(JOURNAL_TIMEOUT, noted).await.is_err() {
            tracing::warn!("sandbox is killed before its end is journalled");
        }
        let mut delay = FIRST_DELAY;
        let mut failures = 0_u32;
        loop {
            let (destroyed, others) = self.destroy(&held).await;
            match destroyed {
                Ok(usage) => {
                    let mut usage = held.record.whole_usage(usage);
                    let memory = &mut held.memory;
                    usage.memory_average_bytes = memory.look(Instant::now(), usage.memory_bytes);
                    self.forget_image(held.record.image.take()).await;
                    self.finish(reason, usage).await;
                    killer.into_iter().for_each(|killer| answer(killer, Ok(())));
                    // They find what they would have found a moment later.
                    let gone = Err(KillError::NotHere(NotHere));
                    others.into_iter().for_each(|killer| answer(killer, gone));
                    return;
                }
                Err(error) => {
                    failures += 1;
                    report(&error, failures);
                    self.enter(Event::KillFailed);
                    let all = killer.take().into_iter().chain(others);
                    all.for_each(|killer| answer(killer, Err(KillError::Stuck)));
                }
            }
            match self.wait_for_next(delay).await {
                Next::Attempt(asking) => killer = asking,
                Next::Leave => {
                    tracing::warn!("leftovers of sandbox are left to the next server");
                    return;
                }
            }
            delay = (delay * 2).min(LONGEST_DELAY);
        }
    }

    /// Keeps the reason for those who have used the sandbox, and may ask for it again.
    fn remember_departure(&self, reason: EndReason) {
        let token = self
            .route
            .borrow()
            .as_ref()
            .and_then(|route| route.access_token.clone());
        if let Some(token) = token {
            let departure = Departure {
                reason,
                at: wall_now(),
                memory_mib: self.resources.memory_mib,
            };
            let id = self.status.borrow().id.clone();
            self.node.departures.remember(&id, token, departure);
        }
    }

    /// Makes one attempt, and says who else has asked for the end meanwhile.
    async fn destroy(&mut self, held: &Held) -> (Result<Usage, DestroyError>, Vec<Killer>) {
        // One that is paused without a process has nothing on the host.
        let Some(launched) = held.launched.clone() else {
            return (Ok(Usage::default()), Vec::new());
        };
        let mut destroying = launched.destroy();
        let mut others = Vec::new();
        loop {
            tokio::select! {
                biased;
                destroyed = &mut destroying => return (destroyed, others),
                Some(request) = self.queue.recv(), if others.len() < MOST_KILLERS => {
                    others.extend(killer_in(request));
                }
            }
        }
    }

    /// Waits until the next attempt is due.
    async fn wait_for_next(&mut self, delay: Duration) -> Next {
        let due = tokio::time::Instant::now() + delay;
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Next::Leave,
                () = tokio::time::sleep_until(due) => return Next::Attempt(None),
                Some(request) = self.queue.recv() => {
                    if let Some(killer) = killer_in(request) {
                        return Next::Attempt(Some(killer));
                    }
                }
            }
        }
    }
}

/// The caller who asks for the end. One that asks for something else learns from a dropped answer
/// that the sandbox is no longer there.
fn killer_in(request: Request) -> Option<Killer> {
    match request {
        Request::End { answer, .. } => Some(answer),
        Request::Deadline { .. }
        | Request::Usage { .. }
        | Request::Pause { .. }
        | Request::Resume { .. }
        | Request::Store
        | Request::RollBack { .. }
        | Request::Snapshot { .. }
        | Request::Egress { .. } => None,
    }
}

/// Tells the operator, once: somebody has to look at the host.
fn report(error: &DestroyError, failures: u32) {
    if failures == 1 {
        tracing::error!(
            error = %Chain(error),
            "cannot remove sandbox; nobody can reach it, and removal is retried"
        );
    } else {
        tracing::debug!(error = %Chain(error), failures, "still cannot remove sandbox");
    }
}
