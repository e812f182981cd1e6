//! The proxy's metrics in Prometheus' format: names and help, beside what is counted.

use skep_telemetry::Exposition;

use crate::Metrics;

impl Metrics {
    /// Writes the metrics of connections and requests.
    pub fn expose(&self, text: &mut Exposition) {
        for (name, help, value) in [
            (
                "skep_connections_open",
                "Client connections that are open.",
                self.connections_open.get(),
            ),
            (
                "skep_sandbox_requests_open",
                "Requests to sandboxes that are being served.",
                self.sandbox_requests_open.get(),
            ),
        ] {
            text.gauge(name, help, value);
        }
        for (name, help, counter) in [
            (
                "skep_connections_accepted_total",
                "Client connections ever accepted.",
                &self.connections_accepted,
            ),
            (
                "skep_connections_evicted_total",
                "Idle client connections without a key or token that made room for others.",
                &self.connections_evicted,
            ),
            (
                "skep_anonymous_refused_total",
                "Requests without a key or token that were refused because too many were served.",
                &self.anonymous_refused,
            ),
            (
                "skep_connections_expired_total",
                "Client connections closed because they were idle or too slow.",
                &self.connections_expired,
            ),
            (
                "skep_connections_stalled_total",
                "Client connections without a key or token that were cut because they did not read.",
                &self.connections_stalled,
            ),
            (
                "skep_handshakes_failed_total",
                "TLS handshakes that failed.",
                &self.handshakes_failed,
            ),
            (
                "skep_api_requests_total",
                "Requests to the API.",
                &self.api_requests,
            ),
            (
                "skep_sandbox_requests_total",
                "Requests to sandboxes.",
                &self.sandbox_requests,
            ),
            (
                "skep_proxy_refusals_total",
                "Requests that the proxy answered itself, with an error.",
                &self.refusals,
            ),
            (
                "skep_hangups_total",
                "Clients that left before their answer was complete.",
                &self.hangups,
            ),
            (
                "skep_cut_by_end_total",
                "Requests that were cut because their sandbox ended.",
                &self.cut_by_end,
            ),
        ] {
            text.counter(name, help, counter.get());
        }
        text.counters(
            "skep_connections_refused_total",
            "Client connections turned away, by who had too many.",
            "reason",
            [
                ("server", self.connections_refused_server.get()),
                ("address", self.connections_refused_address.get()),
            ],
        );
        for (name, help, durations) in [
            (
                "skep_proxy_upstream_seconds",
                "From the head of a request until a connection to its sandbox was at hand.",
                &self.time_to_upstream,
            ),
            (
                "skep_proxy_answer_seconds",
                "From the head of a request until the head of the sandbox's answer.",
                &self.time_to_answer,
            ),
            (
                "skep_execute_seconds",
                "The same, of requests that run code in a kernel.",
                &self.time_to_execute,
            ),
        ] {
            text.durations(name, help, durations);
        }
    }
}
