//! Requests to paused sandboxes that go on when somebody uses them.
//!
//! The first request resumes the sandbox, and all that arrive meanwhile wait for the same resume.
//! A stranger wakes no sandbox on a port that would not serve them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::request::Parts;
use parking_lot::Mutex;
use skep_types::{SandboxId, Sleeper};
use skep_wire::agent::AGENT_PORT;
use skep_wire::interpreter::INTERPRETER_PORT;
use tokio::sync::watch;

use crate::client::admission::Credentials;
use crate::refusal::Refusal;
use crate::request::credentials::shown_to_holder;
use crate::request::headers::is_lent_token;
use crate::routing::route::{Route, WakeError};
use crate::routing::signed_url::SignedUrl;
use crate::shared::Shared;

/// Time limit for a sandbox to go on. Its caller is told that it is on its way.
const WAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// Limit on the requests that wait for one sandbox.
const MOST_WAITING: usize = 1024;

/// The resumes that are under way, by sandbox.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// Held only for a look-up or a change of the map.
    under_way: Mutex<HashMap<SandboxId, Arc<Wake>>>,
}

type Woken = Result<Arc<Route>, WakeError>;

/// One resume, and those who wait for it.
#[derive(Debug)]
struct Wake {
    outcome: watch::Sender<Option<Woken>>,
    waiting: AtomicUsize,
}

/// One request that waits, until it is dropped.
struct Waiting(Arc<Wake>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Checks that a request may wake a sandbox, and returns its credentials.
///
/// # Errors
///
/// A refusal if the service behind the port would not serve it.
pub(crate) fn may_wake(
    shared: &Shared,
    sleeper: &Sleeper,
    port: u16,
    parts: &Parts,
) -> Result<Credentials, Refusal> {
    let token = sleeper.access_token.as_ref();
    let shown = shown_to_holder(token, parts);
    let is_signed = || {
        let url = SignedUrl::read(parts).filter(|_| parts.uri.path() == "/files");
        url.zip(token)
            .is_some_and(|(url, token)| url.is_signed_with(token))
    };
    // By the same rules as while it runs: one that is open is not open to everybody.
    let is_lent = || is_lent_token(parts, port, sleeper.is_open, &shared.config);
    let may = match port {
        _ if token.is_none() || shown == Credentials::Token => true,
        AGENT_PORT => is_signed() || is_lent(),
        INTERPRETER_PORT => is_lent(),
        _ => true,
    };
    may.then_some(shown).ok_or_else(|| Refusal::Locked {
        id: sleeper.id.clone(),
    })
}

/// Resumes a sandbox and returns the route to it. One resume serves all who ask meanwhile, and goes
/// on when they leave.
///
/// # Errors
///
/// The refusal for the caller; the sandbox is paused as it was, or on its way.
pub(crate) async fn wake(shared: &Arc<Shared>, id: &SandboxId) -> Result<Arc<Route>, Refusal> {
    let waiting = join(shared, id)?;
    let mut outcome = waiting.0.outcome.subscribe();
    let settled = outcome.wait_for(Option::is_some);
    let Ok(settled) = tokio::time::timeout(WAKE_TIMEOUT, settled).await else {
        return Err(Refusal::Transitioning { id: id.clone() });
    };
    // The sender is ours for as long as we wait.
    let woken = settled.ok().and_then(|woken| woken.clone());
    woken
        .unwrap_or(Err(WakeError::Failed))
        .map_err(|error| refusal(error, id))
}

fn join(shared: &Arc<Shared>, id: &SandboxId) -> Result<Waiting, Refusal> {
    let mut under_way = shared.wakes.under_way.lock();
    if let Some(wake) = under_way.get(id) {
        let waiting = wake.waiting.fetch_add(1, Ordering::Relaxed);
        let joined = Waiting(Arc::clone(wake));
        if waiting >= MOST_WAITING {
            return Err(Refusal::TooManyConnections {
                id: id.clone(),
                limit: MOST_WAITING,
            });
        }
        return Ok(joined);
    }
    let wake = Arc::new(Wake {
        outcome: watch::Sender::new(None),
        waiting: AtomicUsize::new(1),
    });
    under_way.insert(id.clone(), Arc::clone(&wake));
    drop(under_way);
    shared.metrics.wakes.add_one();
    let (ours, shared, id) = (Arc::clone(&wake), Arc::clone(shared), id.clone());
    let tasks = shared.tasks.clone();
    tasks.spawn("wake a sandbox", async move {
        let resumed = Resumed {
            shared: &shared,
            id: &id,
            wake: &ours,
        };
        let woken = shared.routes.wake(id.clone()).await;
        ours.outcome.send_replace(Some(woken));
        drop(resumed);
    });
    Ok(Waiting(wake))
}

/// Takes a resume out of the map when it is over, also when it panics.
struct Resumed<'a> {
    shared: &'a Shared,
    id: &'a SandboxId,
    wake: &'a Wake,
}

impl Drop for Resumed<'_> {
    fn drop(&mut self) {
        self.shared.wakes.under_way.lock().remove(self.id);
        self.wake.outcome.send_if_modified(|outcome| {
            let is_lost = outcome.is_none();
            outcome.get_or_insert(Err(WakeError::Failed));
            is_lost
        });
    }
}

fn refusal(error: WakeError, id: &SandboxId) -> Refusal {
    let id = id.clone();
    match error {
        WakeError::NotFound => Refusal::SandboxNotFound {
            name: id.to_string(),
            departure: None,
        },
        WakeError::LimitReached => Refusal::LimitReached { id },
        WakeError::Changing => Refusal::Transitioning { id },
        WakeError::Failed => Refusal::NotResumed { id },
    }
}
