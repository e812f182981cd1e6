//! The proxy's metrics. Everything it counts is declared here.

use std::time::Duration;

pub use skep_telemetry::{Counter, Durations, Gauge};

/// Metrics of the proxy since it started.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Client connections that are open.
    pub connections_open: Gauge,
    /// Client connections ever accepted.
    pub connections_accepted: Counter,
    /// Client connections turned away because the server had no room.
    pub connections_refused_server: Counter,
    /// Client connections turned away because their address had too many.
    pub connections_refused_address: Counter,
    /// Idle client connections without a key or token that made room for others.
    pub connections_evicted: Counter,
    /// Requests without a key or token that were refused because too many of them were served.
    pub anonymous_refused: Counter,
    /// Client connections closed because they were idle or too slow to say what they want.
    pub connections_expired: Counter,
    /// Client connections without a key or token that were cut because they did not read.
    pub connections_stalled: Counter,
    /// TLS handshakes that failed.
    pub handshakes_failed: Counter,
    /// Requests handed to the API.
    pub api_requests: Counter,
    /// Requests for sandboxes.
    pub sandbox_requests: Counter,
    /// Requests for sandboxes that are being served.
    pub sandbox_requests_open: Gauge,
    /// Requests the proxy answered itself, with an error.
    pub refusals: Counter,
    /// Connections made to sandboxes.
    pub upstream_connected: Counter,
    /// Requests that found a kept connection to their sandbox.
    pub upstream_reused: Counter,
    /// Connections made through an agent to a service on its loopback.
    pub upstream_tunnelled: Counter,
    /// Clients that left before their answer was complete.
    pub hangups: Counter,
    /// Requests that were cut because their sandbox ended.
    pub cut_by_end: Counter,
    /// Time from the arrival of a request's head until a connection to its sandbox was at hand.
    pub time_to_upstream: Durations,
    /// Time from the arrival of a request's head until the head of the sandbox's answer.
    pub time_to_answer: Durations,
    /// The same, of those that run code in a kernel.
    pub time_to_execute: Durations,
}

impl Metrics {
    pub(crate) fn answered(&self, kind: RequestKind, after: Duration) {
        self.time_to_answer.record(after);
        match kind {
            RequestKind::Execute => self.time_to_execute.record(after),
            RequestKind::Other => {}
        }
    }
}

/// Purpose of a request to a sandbox, as far as it is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// It runs code in a kernel.
    Execute,
    /// Any request that is not counted apart.
    Other,
}
