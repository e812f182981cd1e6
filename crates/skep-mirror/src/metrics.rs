//! Numbers of the mirror.

skep_telemetry::metrics! {
    /// Metrics of the mirror.
    pub struct Metrics {
        hits: Counter = "skep_mirror_requests_total{result=\"hit\"}",
            "Requests of sandboxes to the mirror, by where the answer came from.";
        misses: Counter = "skep_mirror_requests_total{result=\"miss\"}",
            "Requests that asked a registry.";
        joined: Counter = "skep_mirror_requests_total{result=\"joined\"}",
            "Requests that waited for what another one had asked for.";
        stale: Counter = "skep_mirror_requests_total{result=\"stale\"}",
            "Requests answered with an old index, because the registry did not answer or may not be asked.";
        refused: Counter = "skep_mirror_requests_total{result=\"refused\"}",
            "Requests that the mirror does not answer.";
        failed: Counter = "skep_mirror_requests_total{result=\"failed\"}",
            "Requests that failed at a registry.";
        upstream: Counter = "skep_mirror_upstream_requests_total",
            "Requests to registries.";
        fetched: Counter = "skep_mirror_upstream_bytes_total",
            "Bytes that came from registries.";
        rejected: Counter = "skep_mirror_rejected_total",
            "Answers of registries that were not what their index promised, or nothing that can be passed on.";
        evicted: Counter = "skep_mirror_evicted_total",
            "Files that made room for others.";
        bytes: Gauge = "skep_mirror_cache_bytes",
            "Bytes of the cache.";
        connections: Gauge = "skep_mirror_connections",
            "Connections of sandboxes.";
    }
}
