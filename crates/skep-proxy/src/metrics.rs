//! The proxy's metrics: everything it counts, with its name for Prometheus.

use std::time::Duration;

skep_telemetry::metrics! {
    /// Metrics of the proxy since it started.
    pub struct Metrics {
        connections_open: Gauge = "skep_connections_open",
            "Client connections that are open.";
        sandbox_requests_open: Gauge = "skep_sandbox_requests_open",
            "Requests to sandboxes that are being served.";
        connections_accepted: Counter = "skep_connections_accepted_total",
            "Client connections ever accepted.";
        connections_evicted: Counter = "skep_connections_evicted_total",
            "Idle client connections without a key or token that made room for others.";
        anonymous_refused: Counter = "skep_anonymous_refused_total",
            "Requests without a key or token that were refused because too many were served.";
        connections_expired: Counter = "skep_connections_expired_total",
            "Client connections closed because they were idle or too slow.";
        connections_stalled: Counter = "skep_connections_stalled_total",
            "Client connections without a key or token cut because they did not read, or nobody took what they sent.";
        handshakes_failed: Counter = "skep_handshakes_failed_total",
            "TLS handshakes that failed.";
        api_requests: Counter = "skep_api_requests_total",
            "Requests to the API.";
        sandbox_requests: Counter = "skep_sandbox_requests_total",
            "Requests to sandboxes.";
        refusals: Counter = "skep_proxy_refusals_total",
            "Requests that the proxy answered itself, with an error.";
        wakes: Counter = "skep_wakes_total",
            "Paused sandboxes that requests to them resumed, or tried to.";
        hangups: Counter = "skep_hangups_total",
            "Clients that left before their answer was complete.";
        cut_by_end: Counter = "skep_cut_by_end_total",
            "Requests that were cut because their sandbox ended.";
        connections_refused_server: Counter = "skep_connections_refused_total{reason=\"server\"}",
            "Client connections turned away, by who had too many.";
        connections_refused_address: Counter = "skep_connections_refused_total{reason=\"address\"}",
            "Client connections turned away, by who had too many.";
        time_to_upstream: Durations = "skep_proxy_upstream_seconds",
            "From the head of a request until a connection to its sandbox was at hand.";
        time_to_answer: Durations = "skep_proxy_answer_seconds",
            "From the head of a request until the head of the sandbox's answer.";
        time_to_execute: Durations = "skep_execute_seconds",
            "The same, of requests that run code in a kernel.";
        upstream_connected: Counter,
            "Connections made to sandboxes.";
        upstream_reused: Counter,
            "Requests that found a kept connection to their sandbox.";
        upstream_tunnelled: Counter,
            "Connections made through an agent to a service on its loopback.";
    }
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
