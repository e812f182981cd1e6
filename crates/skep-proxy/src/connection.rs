//! One client connection: what it is doing, and what ends it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::FrontConfig;
use crate::admission::{Place, Shown, TooManyRequests, Turn};
use crate::metrics::Metrics;
use crate::socket::ResetOnClose;

/// What everybody who serves a client connection shares.
///
/// It lives as long as anything of the connection does, and through its pulse it holds the
/// place among the connections the server allows.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    pub(crate) peer: SocketAddr,
    pub(crate) secure: bool,
    pub(crate) reset: ResetOnClose,
    pub(crate) pulse: Arc<Pulse>,
    /// Ends the one request that an HTTP/1.1 connection is serving.
    served: watch::Sender<Option<CancellationToken>>,
    metrics: Arc<Metrics>,
}

impl ClientConnection {
    pub(crate) fn new(
        peer: SocketAddr,
        secure: bool,
        reset: ResetOnClose,
        pulse: Arc<Pulse>,
        metrics: Arc<Metrics>,
    ) -> Self {
        metrics.connections_open.enter();
        Self {
            peer,
            secure,
            reset,
            pulse,
            served: watch::Sender::new(None),
            metrics,
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

/// What a connection is doing, for those who decide whether it has had enough time and
/// whether it can make room for another.
///
/// ```text
/// Asking ──request──► Busy ──last answer──► Idle
///    ▲                 ▲                     │
///    └────first byte───┼─────(HTTP/1)────────┤
///                      └───────request───────┘
/// ```
#[derive(Debug)]
pub(crate) struct Pulse {
    /// Held while the place is told what changes, so that both always say the same.
    state: Mutex<State>,
    place: Place,
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

/// How long a connection may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// For the head of a request.
    pub(crate) head: Duration,
    /// Between two requests, once it has shown a key or a token.
    pub(crate) idle: Duration,
    /// Between two requests until then.
    pub(crate) anonymous_idle: Duration,
}

impl Times {
    pub(crate) fn of(config: &FrontConfig) -> Self {
        Self {
            head: config.head_timeout,
            idle: config.idle_timeout,
            anonymous_idle: config.anonymous_idle_timeout,
        }
    }

    /// How often to look at what has expired.
    pub(crate) fn interval(&self) -> Duration {
        let shortest = self.head.min(self.idle).min(self.anonymous_idle);
        (shortest / 4).max(Duration::from_millis(1))
    }
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
    pub(crate) fn new(now: Instant, place: Place) -> Self {
        Self {
            state: Mutex::new(State {
                activity: Activity::Asking(now),
                multiplexed: false,
            }),
            place,
        }
    }

    /// The client has shown a key or a token that was right.
    pub(crate) fn authenticate(&self) {
        self.place.authenticate();
    }

    /// Whether the client has ever shown a key or a token that was right.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.place.is_authenticated()
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

    /// A request's head is complete. It is being answered until the guard is dropped.
    ///
    /// # Errors
    ///
    /// If too many requests are under way on connections like this.
    pub(crate) fn request(self: &Arc<Self>, multiplexed: bool) -> Result<Serving, TooManyRequests> {
        let mut state = self.lock();
        state.multiplexed = multiplexed;
        if multiplexed {
            self.place.arrive()?;
        }
        state.activity = match state.activity {
            Activity::Asking(_) | Activity::Idle(_) => Activity::Busy(1),
            Activity::Busy(count) => Activity::Busy(count + 1),
        };
        Ok(Serving {
            pulse: Arc::clone(self),
            multiplexed,
        })
    }

    /// Whether the time of this connection is over.
    pub(crate) fn expired(&self, now: Instant, times: &Times) -> Option<Expired> {
        let idle = if self.is_authenticated() {
            times.idle
        } else {
            times.anonymous_idle
        };
        match self.lock().activity {
            Activity::Asking(since) if now.duration_since(since) >= times.head => {
                Some(Expired::Head)
            }
            Activity::Idle(since) if now.duration_since(since) >= idle => Some(Expired::Idle),
            Activity::Asking(_) | Activity::Idle(_) | Activity::Busy(_) => None,
        }
    }

    fn answered(&self, now: Instant, multiplexed: bool) {
        let mut state = self.lock();
        if multiplexed {
            self.place.end();
        }
        if let Activity::Busy(count) = state.activity {
            state.activity = match count {
                0 | 1 => {
                    self.place.rest();
                    Activity::Idle(now)
                }
                more => Activity::Busy(more - 1),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Serving {
    pulse: Arc<Pulse>,
    multiplexed: bool,
}

impl Serving {
    /// It is known what the request has shown. Says whether it is served.
    pub(crate) fn begin(&self, shown: Shown) -> Turn {
        let _state = self.pulse.lock();
        self.pulse.place.begin(shown)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.pulse.answered(Instant::now(), self.multiplexed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::admission::Admission;

    const TIMES: Times = Times {
        head: Duration::from_secs(30),
        idle: Duration::from_secs(600),
        anonymous_idle: Duration::from_secs(60),
    };

    fn pulse(start: Instant) -> Arc<Pulse> {
        let admission = Arc::new(Admission::new(&FrontConfig::new("skep.test")));
        let place = admission.admit(Ipv4Addr::LOCALHOST.into()).unwrap();
        Arc::new(Pulse::new(start, place))
    }

    #[track_caller]
    fn check(pulse: &Pulse, now: Instant, expected: Option<Expired>) {
        assert_eq!(pulse.expired(now, &TIMES), expected, "{pulse:?}");
    }

    #[test]
    fn a_head_that_trickles_in_costs_the_connection() {
        let start = Instant::now();
        let pulse = pulse(start);
        pulse.bytes_arrived(start + TIMES.head / 2);
        check(&pulse, start + TIMES.head / 2, None);
        check(&pulse, start + TIMES.head, Some(Expired::Head));
    }

    #[test]
    fn a_request_may_take_as_long_as_it_likes() {
        let start = Instant::now();
        let pulse = pulse(start);
        let first = pulse.request(true).unwrap();
        first.begin(Shown::Token);
        let second = pulse.request(true).unwrap();
        check(&pulse, start + 2 * TIMES.idle, None);
        drop(first);
        check(&pulse, start + 2 * TIMES.idle, None);
        drop(second);
        check(&pulse, Instant::now() + TIMES.anonymous_idle, None);
        check(&pulse, Instant::now() + TIMES.idle, Some(Expired::Idle));
    }

    #[test]
    fn a_stranger_is_not_waited_for_as_long() {
        let pulse = pulse(Instant::now());
        pulse.request(false).unwrap().begin(Shown::Key);
        check(&pulse, Instant::now() + TIMES.head, None);
        let later = Instant::now() + TIMES.anonymous_idle;
        check(&pulse, later, Some(Expired::Idle));
        pulse.authenticate();
        check(&pulse, later, None);
    }

    #[test]
    fn the_next_head_is_timed_from_its_first_byte() {
        let pulse = pulse(Instant::now());
        pulse.request(false).unwrap().begin(Shown::Token);
        let later = Instant::now() + TIMES.idle / 2;
        pulse.bytes_arrived(later);
        check(&pulse, later + TIMES.head / 2, None);
        check(&pulse, later + TIMES.head, Some(Expired::Head));
    }

    #[test]
    fn frames_that_ask_nothing_do_not_start_a_head() {
        let pulse = pulse(Instant::now());
        pulse.request(true).unwrap().begin(Shown::Nothing);
        pulse.bytes_arrived(Instant::now());
        check(&pulse, Instant::now() + TIMES.head, None);
    }
}
