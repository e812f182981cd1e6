//! One client connection: what it is doing, and what ends it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::socket::ResetOnClose;

/// What everybody who serves a client connection shares.
///
/// It lives as long as anything of the connection does, so it also holds its place among the
/// connections the server allows.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    pub(crate) peer: SocketAddr,
    pub(crate) secure: bool,
    pub(crate) reset: ResetOnClose,
    pub(crate) pulse: Arc<Pulse>,
    /// Ends the one request that an HTTP/1.1 connection is serving.
    served: watch::Sender<Option<CancellationToken>>,
    metrics: Arc<Metrics>,
    _place: OwnedSemaphorePermit,
}

impl ClientConnection {
    pub(crate) fn new(
        peer: SocketAddr,
        secure: bool,
        reset: ResetOnClose,
        pulse: Arc<Pulse>,
        metrics: Arc<Metrics>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        metrics.connections_open.enter();
        Self {
            peer,
            secure,
            reset,
            pulse,
            served: watch::Sender::new(None),
            metrics,
            _place: place,
        }
    }

    /// Ties the whole connection to the life of a sandbox until the guard is dropped.
    ///
    /// Only for HTTP/1.1, where a connection serves one request at a time. The request alone
    /// cannot do it: while the client does not read, nobody asks the request for more.
    pub(crate) fn depend_on(self: &Arc<Self>, ended: CancellationToken) -> Dependence {
        self.served.send_replace(Some(ended));
        Dependence(Arc::clone(self))
    }

    /// Resolves when the sandbox that this connection depends on has ended.
    pub(crate) async fn sandbox_ended(&self) {
        let mut served = self.served.subscribe();
        loop {
            let ended = served.borrow_and_update().clone();
            let changed = served.changed();
            match ended {
                Some(ended) => tokio::select! {
                    () = ended.cancelled() => return,
                    result = changed => result.expect("we hold the sender"),
                },
                None => changed.await.expect("we hold the sender"),
            }
        }
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.metrics.connections_open.leave();
    }
}

/// A connection's tie to the sandbox it is serving.
#[derive(Debug)]
pub(crate) struct Dependence(Arc<ClientConnection>);

impl Drop for Dependence {
    fn drop(&mut self) {
        self.0.served.send_replace(None);
    }
}

/// What a connection is doing, for the one who decides whether it has had enough time.
///
/// ```text
/// Asking ──request──► Busy ──last answer──► Idle
///    ▲                 ▲                     │
///    └────first byte───┼─────(HTTP/1)────────┤
///                      └───────request───────┘
/// ```
#[derive(Debug)]
pub(crate) struct Pulse {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    activity: Activity,
    multiplexed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// A request's head is on its way. Only this phase is the client's alone, so only here
    /// does slowness cost it the connection.
    Asking(Instant),
    /// This many requests are being served, at whatever speed either side likes.
    Busy(usize),
    /// Nothing is asked.
    Idle(Instant),
}

/// Why a connection has had enough time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// The head of a request did not arrive.
    Head,
    /// Nobody asked anything.
    Idle,
}

impl Pulse {
    /// A connection that was made at `now` and has not asked anything.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            state: Mutex::new(State {
                activity: Activity::Asking(now),
                multiplexed: false,
            }),
        }
    }

    /// The client sent something.
    pub(crate) fn bytes_arrived(&self, now: Instant) {
        let mut state = self.lock();
        // HTTP/2 has frames that ask nothing.
        if let Activity::Idle(_) = state.activity
            && !state.multiplexed
        {
            state.activity = Activity::Asking(now);
        }
    }

    /// A request's head is complete. It is being served until the guard is dropped.
    pub(crate) fn request(self: &Arc<Self>, multiplexed: bool) -> Serving {
        let mut state = self.lock();
        state.multiplexed = multiplexed;
        state.activity = match state.activity {
            Activity::Asking(_) | Activity::Idle(_) => Activity::Busy(1),
            Activity::Busy(count) => Activity::Busy(count + 1),
        };
        Serving(Arc::clone(self))
    }

    /// Whether the time of this connection is over.
    pub(crate) fn expired(&self, now: Instant, head: Duration, idle: Duration) -> Option<Expired> {
        match self.lock().activity {
            Activity::Asking(since) if now.duration_since(since) >= head => Some(Expired::Head),
            Activity::Idle(since) if now.duration_since(since) >= idle => Some(Expired::Idle),
            Activity::Asking(_) | Activity::Idle(_) | Activity::Busy(_) => None,
        }
    }

    fn answered(&self, now: Instant) {
        let mut state = self.lock();
        if let Activity::Busy(count) = state.activity {
            state.activity = match count {
                0 | 1 => Activity::Idle(now),
                more => Activity::Busy(more - 1),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being served.
#[derive(Debug)]
pub(crate) struct Serving(Arc<Pulse>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.answered(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Duration = Duration::from_secs(30);
    const IDLE: Duration = Duration::from_secs(600);

    #[track_caller]
    fn check(pulse: &Pulse, now: Instant, expected: Option<Expired>) {
        assert_eq!(pulse.expired(now, HEAD, IDLE), expected, "{pulse:?}");
    }

    #[test]
    fn a_head_that_trickles_in_costs_the_connection() {
        let start = Instant::now();
        let pulse = Pulse::new(start);
        pulse.bytes_arrived(start + HEAD / 2);
        check(&pulse, start + HEAD / 2, None);
        check(&pulse, start + HEAD, Some(Expired::Head));
    }

    #[test]
    fn a_request_may_take_as_long_as_it_likes() {
        let start = Instant::now();
        let pulse = Arc::new(Pulse::new(start));
        let first = pulse.request(true);
        let second = pulse.request(true);
        check(&pulse, start + 2 * IDLE, None);
        drop(first);
        check(&pulse, start + 2 * IDLE, None);
        drop(second);
        check(&pulse, Instant::now() + HEAD, None);
        check(&pulse, Instant::now() + IDLE, Some(Expired::Idle));
    }

    #[test]
    fn the_next_head_is_timed_from_its_first_byte() {
        let pulse = Arc::new(Pulse::new(Instant::now()));
        drop(pulse.request(false));
        let later = Instant::now() + IDLE / 2;
        pulse.bytes_arrived(later);
        check(&pulse, later + HEAD / 2, None);
        check(&pulse, later + HEAD, Some(Expired::Head));
    }

    #[test]
    fn frames_that_ask_nothing_do_not_start_a_head() {
        let pulse = Arc::new(Pulse::new(Instant::now()));
        drop(pulse.request(true));
        pulse.bytes_arrived(Instant::now());
        check(&pulse, Instant::now() + HEAD, None);
    }
}
