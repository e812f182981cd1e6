//! One client connection: what it is doing, and what ends it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use skep_types::SentAfter;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::ProxyConfig;
use crate::client::admission::{ConnectionPermit, Credentials, RequestClass, TooManyRequests};
use crate::metrics::Metrics;
use crate::reset_on_close::ResetOnClose;

/// State shared by all requests of a client connection.
///
/// It lives as long as anything of the connection does, and through its activity it holds the
/// place among the connections the server allows.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    pub(crate) peer: SocketAddr,
    pub(crate) secure: bool,
    pub(crate) reset: ResetOnClose,
    pub(crate) activity: Arc<ActivityTracker>,
    /// Ends the one request that an HTTP/1.1 connection is serving.
    served: watch::Sender<Option<CancellationToken>>,
    metrics: Arc<Metrics>,
}

impl ClientConnection {
    pub(crate) fn new(
        peer: SocketAddr,
        secure: bool,
        reset: ResetOnClose,
        activity: Arc<ActivityTracker>,
        metrics: Arc<Metrics>,
    ) -> Self {
        metrics.connections_open.enter();
        Self {
            peer,
            secure,
            reset,
            activity,
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

/// Activity of a connection, for those who decide whether it has had enough time and whether it can
/// make room for another.
///
/// ```text
/// Asking ──request──► Busy ──last answer──► Idle
///    ▲                 ▲                     │
///    └────first byte───┼─────(HTTP/1)────────┤
///                      └───────request───────┘
/// ```
#[derive(Debug)]
pub(crate) struct ActivityTracker {
    state: Mutex<State>,
    permit: ConnectionPermit,
    /// Set once it has made a request without valid credentials.
    anonymous: AtomicBool,
}

#[derive(Debug)]
struct State {
    activity: Activity,
    multiplexed: bool,
    /// Number of answers with a part handed out that the client has not made room for.
    untaken: usize,
    /// Time at which the client made room for a part of an answer, or at which the first of those
    /// was handed out.
    taken: Instant,
    /// Time at which the connection was made, until it has asked something.
    made: Option<Instant>,
    /// Time since which the socket takes nothing more.
    blocked: Option<Instant>,
    /// Parts of requests that nobody takes, with the time since which, by a number of their own. One
    /// that is taken does not hide another that is not.
    unsent: BTreeMap<u64, Instant>,
    next_unsent: u64,
}

impl State {
    /// Time since which the client has not read what it asked for, or nobody takes what it sends.
    fn stalled(&self) -> Option<Instant> {
        let answers = (self.untaken > 0).then_some(self.taken);
        let unsent = self.unsent.values().copied();
        self.blocked.into_iter().chain(answers).chain(unsent).min()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// A request's head is on its way. Only this phase is the client's alone, so only here
    /// does slowness cost it the connection.
    Asking(Instant),
    /// This many requests are being served, at whatever speed either side likes.
    Busy(usize),
    /// No request is under way.
    Idle(Instant),
}

/// Time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Time limit for the head of a request.
    pub(crate) head: Duration,
    /// Between two requests, once it has shown a key or a token.
    pub(crate) idle: Duration,
    /// Between two requests until then.
    pub(crate) anonymous_idle: Duration,
    /// Time for which an anonymous client may read nothing of an answer, and for which nobody may
    /// take what it sends.
    pub(crate) anonymous_stall: Duration,
}

impl Times {
    pub(crate) fn of(config: &ProxyConfig) -> Self {
        Self {
            head: config.head_timeout,
            idle: config.idle_timeout,
            anonymous_idle: config.anonymous_idle_timeout,
            anonymous_stall: config.anonymous_stall_timeout,
        }
    }

    /// Interval between two checks for expired connections.
    pub(crate) fn interval(&self) -> Duration {
        let anonymous = self.anonymous_idle.min(self.anonymous_stall);
        (self.head.min(self.idle).min(anonymous) / 4).max(Duration::from_millis(1))
    }
}

/// Reason for which a connection is closed by the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// The head of a request did not arrive.
    Head,
    /// No request came in time.
    Idle,
    /// The client does not read its answers, or nobody takes what it sends.
    Stalled,
}

impl ActivityTracker {
    /// A connection that was made at `now` and has not asked anything.
    pub(crate) fn new(now: Instant, permit: ConnectionPermit) -> Self {
        Self {
            state: Mutex::new(State {
                activity: Activity::Asking(now),
                multiplexed: false,
                untaken: 0,
                taken: now,
                made: Some(now),
                blocked: None,
                unsent: BTreeMap::new(),
                next_unsent: 0,
            }),
            permit,
            anonymous: AtomicBool::new(false),
        }
    }

    /// Returns true if the client has ever shown a key or a token that was right.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.permit.is_authenticated()
    }

    /// Returns true if the client has ever made a request without a key or token that was right.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.anonymous.load(Ordering::Relaxed)
    }

    /// The client sent something.
    pub(crate) fn bytes_arrived(&self, now: Instant) {
        let mut state = self.state.lock();
        // HTTP/2 has frames that ask nothing.
        if let Activity::Idle(_) = state.activity
            && !state.multiplexed
        {
            state.activity = Activity::Asking(now);
        }
    }

    /// The socket takes nothing more, or takes something again.
    pub(crate) fn blocked(&self, blocked: bool) {
        let mut state = self.state.lock();
        if !blocked {
            state.blocked = None;
        } else if state.blocked.is_none() {
            state.blocked = Some(Instant::now());
        }
    }

    /// A request's head is complete, and it shows something or nothing. It is being answered
    /// until the guard is dropped.
    ///
    /// # Errors
    ///
    /// If too many requests are under way on connections like this.
    pub(crate) fn request(
        self: &Arc<Self>,
        multiplexed: bool,
        claims: bool,
    ) -> Result<RequestGuard, TooManyRequests> {
        let class = self.permit.arrive(claims)?;
        self.note(class);
        let mut state = self.state.lock();
        state.multiplexed = multiplexed;
        // One on a connection that lay idle may have been sent at any time since its last answer. It
        // counts as sent when it came: a client that has the answer to one request and asks again by
        // another connection of its pool must not look like one that asked twice at the same time.
        let sent_after = state.made.take().unwrap_or_else(Instant::now);
        state.activity = match state.activity {
            Activity::Asking(_) | Activity::Idle(_) => Activity::Busy(1),
            Activity::Busy(count) => Activity::Busy(count + 1),
        };
        Ok(RequestGuard(Arc::new(RequestState {
            sent_after: SentAfter(sent_after),
            activity: Arc::clone(self),
            class: Mutex::new(class),
        })))
    }

    /// Returns the time limit that this connection has exceeded, if any.
    pub(crate) fn expired(&self, now: Instant, times: &Times) -> Option<Expired> {
        let known = self.is_authenticated();
        let idle = if known {
            times.idle
        } else {
            times.anonymous_idle
        };
        let state = self.state.lock();
        let stalled = state.stalled().filter(|_| !known);
        if stalled.is_some_and(|since| now.duration_since(since) >= times.anonymous_stall) {
            return Some(Expired::Stalled);
        }
        match state.activity {
            Activity::Asking(since) if now.duration_since(since) >= times.head => {
                Some(Expired::Head)
            }
            Activity::Idle(since) if now.duration_since(since) >= idle => Some(Expired::Idle),
            Activity::Asking(_) | Activity::Idle(_) | Activity::Busy(_) => None,
        }
    }

    /// Resolves when an anonymous client does not read what it is sent, or nobody takes what it
    /// sends.
    pub(crate) async fn stalled(&self, times: &Times) {
        let mut clock = tokio::time::interval(times.interval());
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.expired(Instant::now(), times) != Some(Expired::Stalled) {
            clock.tick().await;
        }
    }

    fn note(&self, class: RequestClass) {
        match class {
            RequestClass::Unverified => {}
            RequestClass::Anonymous | RequestClass::Refused => {
                self.anonymous.store(true, Ordering::Relaxed);
            }
        }
    }

    fn answered(&self, now: Instant) {
        let mut state = self.state.lock();
        if let Activity::Busy(count) = state.activity {
            state.activity = match count {
                0 | 1 => Activity::Idle(now),
                more => Activity::Busy(more - 1),
            };
        }
    }
}

/// One thing that a client sends, a body or what follows a switch of protocols, on its way to
/// whoever takes it.
#[derive(Debug)]
pub(crate) struct Sending {
    activity: Arc<ActivityTracker>,
    /// The number of the part that is not taken.
    part: Option<u64>,
}

impl Sending {
    pub(crate) fn new(activity: &Arc<ActivityTracker>) -> Self {
        Self {
            activity: Arc::clone(activity),
            part: None,
        }
    }

    /// A part is there, and nobody takes it yet.
    pub(crate) fn waits(&mut self) {
        if self.part.is_some() || self.activity.is_authenticated() {
            return;
        }
        let mut state = self.activity.state.lock();
        let part = state.next_unsent;
        state.next_unsent += 1;
        state.unsent.insert(part, Instant::now());
        self.part = Some(part);
    }

    /// Notes that the part which was there is taken.
    pub(crate) fn is_taken(&mut self) {
        if let Some(part) = self.part.take() {
            self.activity.state.lock().unsent.remove(&part);
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.is_taken();
    }
}

/// Decision on a request whose credentials were checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It is served.
    Served,
    /// It has shown nothing, and too many requests like it are served.
    AnonymousFull,
}

/// A request that is being answered, until the last copy of this is dropped.
#[derive(Debug, Clone)]
pub(crate) struct RequestGuard(Arc<RequestState>);

#[derive(Debug)]
struct RequestState {
    activity: Arc<ActivityTracker>,
    sent_after: SentAfter,
    class: Mutex<RequestClass>,
}

impl RequestGuard {
    /// Earliest moment at which the client can have sent the request.
    pub(crate) fn sent_after(&self) -> SentAfter {
        self.0.sent_after
    }

    /// It is known what the request has shown. Says whether it is served.
    ///
    /// # Errors
    ///
    /// If there is not even room to tell it that it is not.
    pub(crate) fn begin(&self, shown: Credentials) -> Result<Decision, TooManyRequests> {
        let permit = &self.0.activity.permit;
        match shown {
            Credentials::Token => permit.authenticate(),
            Credentials::Key => {}
            Credentials::None => self.0.become_as(|before| permit.unknown(before))?,
        }
        let full = *self.0.class.lock() == RequestClass::Refused && !permit.is_authenticated();
        Ok(if full {
            Decision::AnonymousFull
        } else {
            Decision::Served
        })
    }

    /// It is known whether the key was right that the request has shown, if it has.
    ///
    /// # Errors
    ///
    /// If there is no room to tell its client that it was not.
    pub(crate) fn judge(&self, right: bool) -> Result<(), TooManyRequests> {
        let permit = &self.0.activity.permit;
        if right {
            permit.authenticate();
            return Ok(());
        }
        self.0.become_as(|before| permit.wrong(before))
    }

    /// A part of the answer was handed out. Says whether anybody wants to know what becomes of it.
    pub(crate) fn handed_out(&self) -> bool {
        let activity = &self.0.activity;
        if activity.is_authenticated() {
            return false;
        }
        let mut state = activity.state.lock();
        if state.untaken == 0 {
            state.taken = Instant::now();
        }
        state.untaken += 1;
        true
    }

    /// The client made room for a part of the answer that was handed out.
    pub(crate) fn taken(&self) {
        let mut state = self.0.activity.state.lock();
        state.untaken = state.untaken.saturating_sub(1);
        state.taken = Instant::now();
    }
}

impl RequestState {
    fn become_as(
        &self,
        change: impl FnOnce(RequestClass) -> Result<RequestClass, TooManyRequests>,
    ) -> Result<(), TooManyRequests> {
        let mut class = self.class.lock();
        *class = change(*class)?;
        self.activity.note(*class);
        Ok(())
    }
}

impl Drop for RequestState {
    fn drop(&mut self) {
        let class = *self.class.lock();
        self.activity.permit.end(class);
        self.activity.answered(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::client::admission::Admission;

    const TIMES: Times = Times {
        head: Duration::from_secs(30),
        idle: Duration::from_secs(600),
        anonymous_idle: Duration::from_secs(60),
        anonymous_stall: Duration::from_secs(90),
    };

    fn activity(start: Instant) -> Arc<ActivityTracker> {
        let admission = Arc::new(Admission::new(&ProxyConfig::new("skep.test")));
        let permit = admission.admit(Ipv4Addr::LOCALHOST.into()).unwrap();
        Arc::new(ActivityTracker::new(start, permit))
    }

    #[track_caller]
    fn check(activity: &ActivityTracker, now: Instant, expected: Option<Expired>) {
        assert_eq!(activity.expired(now, &TIMES), expected, "{activity:?}");
    }

    #[test]
    fn a_head_that_trickles_in_costs_the_connection() {
        let start = Instant::now();
        let activity = activity(start);
        activity.bytes_arrived(start + TIMES.head / 2);
        check(&activity, start + TIMES.head / 2, None);
        check(&activity, start + TIMES.head, Some(Expired::Head));
    }

    #[test]
    fn a_request_may_take_as_long_as_it_likes() {
        let start = Instant::now();
        let activity = activity(start);
        let first = activity.request(true, true).unwrap();
        first.begin(Credentials::Token).unwrap();
        let second = activity.request(true, true).unwrap();
        check(&activity, start + 2 * TIMES.idle, None);
        drop(first);
        check(&activity, start + 2 * TIMES.idle, None);
        drop(second);
        check(&activity, Instant::now() + TIMES.anonymous_idle, None);
        check(&activity, Instant::now() + TIMES.idle, Some(Expired::Idle));
    }

    #[test]
    fn a_request_was_sent_when_its_connection_was_new_or_when_it_came() {
        let start = Instant::now();
        let activity = activity(start);
        let first = activity.request(false, true).unwrap();
        assert_eq!(first.sent_after(), SentAfter(start));
        drop(first);
        let before = Instant::now();
        let second = activity.request(false, true).unwrap();
        assert!(second.sent_after().0 >= before, "{:?}", second.sent_after());
    }

    #[test]
    fn a_stranger_is_not_waited_for_as_long() {
        let activity = activity(Instant::now());
        activity
            .request(false, true)
            .unwrap()
            .begin(Credentials::Key)
            .unwrap();
        check(&activity, Instant::now() + TIMES.head, None);
        let later = Instant::now() + TIMES.anonymous_idle;
        check(&activity, later, Some(Expired::Idle));
        activity.permit.authenticate();
        check(&activity, later, None);
    }

    #[test]
    fn the_next_head_is_timed_from_its_first_byte() {
        let activity = activity(Instant::now());
        activity
            .request(false, true)
            .unwrap()
            .begin(Credentials::Token)
            .unwrap();
        let later = Instant::now() + TIMES.idle / 2;
        activity.bytes_arrived(later);
        check(&activity, later + TIMES.head / 2, None);
        check(&activity, later + TIMES.head, Some(Expired::Head));
    }

    #[test]
    fn frames_that_ask_nothing_do_not_start_a_head() {
        let activity = activity(Instant::now());
        activity
            .request(true, false)
            .unwrap()
            .begin(Credentials::None)
            .unwrap();
        activity.bytes_arrived(Instant::now());
        check(&activity, Instant::now() + TIMES.head, None);
    }

    #[test]
    fn a_stranger_that_reads_nothing_is_not_waited_for() {
        let activity = activity(Instant::now());
        let serving = activity.request(true, false).unwrap();
        serving.begin(Credentials::None).unwrap();
        let (soon, later) = (Instant::now(), Instant::now() + 2 * TIMES.anonymous_stall);
        check(&activity, later, None);
        assert!(serving.handed_out() && serving.handed_out());
        check(&activity, soon + TIMES.anonymous_stall / 2, None);
        check(&activity, later, Some(Expired::Stalled));
        serving.taken();
        serving.taken();
        check(&activity, later, None);
        activity.blocked(true);
        check(&activity, later, Some(Expired::Stalled));
        activity.blocked(false);
        check(&activity, later, None);
        // Whoever is known may take as long as they like.
        activity.blocked(true);
        serving.judge(true).unwrap();
        check(&activity, later, None);
    }

    #[test]
    fn what_nobody_takes_of_a_stranger_is_not_waited_for() {
        let activity = activity(Instant::now());
        let serving = activity.request(true, false).unwrap();
        serving.begin(Credentials::None).unwrap();
        let later = Instant::now() + 2 * TIMES.anonymous_stall;
        let (mut one, mut other) = (Sending::new(&activity), Sending::new(&activity));
        one.waits();
        check(&activity, later, Some(Expired::Stalled));
        // One that is taken again and again does not hide another.
        other.waits();
        other.is_taken();
        check(&activity, later, Some(Expired::Stalled));
        one.is_taken();
        check(&activity, later, None);
        other.waits();
        drop(other);
        check(&activity, later, None);
        one.waits();
        serving.judge(true).unwrap();
        check(&activity, later, None);
    }
}
