//! The node's metrics in Prometheus' format: names and help, beside what is counted.

use skep_telemetry::Exposition;
use skep_types::{HostResource, Phase};

use crate::{HostReport, Node};

impl Node {
    /// Writes the metrics of sandboxes, spares and the host.
    pub fn expose(&self, text: &mut Exposition) {
        self.expose_sandboxes(text);
        expose_host(text, &self.host());
    }

    fn expose_sandboxes(&self, text: &mut Exposition) {
        let phases = [
            (Phase::Starting, "starting"),
            (Phase::Running, "running"),
            (Phase::Snapshotting, "snapshotting"),
            (Phase::Pausing, "pausing"),
            (Phase::Paused, "paused"),
            (Phase::Resuming, "resuming"),
            (Phase::Stopping, "stopping"),
            (Phase::Stuck, "stuck"),
        ];
        let sandboxes = self.list();
        let counted = phases.map(|(phase, name)| {
            let count = sandboxes.iter().filter(|status| status.phase == phase);
            (name, u64::try_from(count.count()).unwrap_or(u64::MAX))
        });
        let metrics = self.metrics();
        text.gauges(
            "skep_isolation_tier",
            "1 for the tier of isolation that holds the sandboxes.",
            "tier",
            [(self.tier().as_str(), 1)],
        );
        text.gauges(
            "skep_sandboxes",
            "Sandboxes that are there.",
            "phase",
            counted,
        );
        text.durations(
            "skep_sandbox_create_seconds",
            "From the order of a sandbox until it runs and the database knows.",
            &metrics.create,
        );
        let spares = self.spares();
        text.gauge(
            "skep_pool_ready",
            "Spares: sandboxes that run and wait for an owner.",
            u64::try_from(spares.ready).unwrap_or(u64::MAX),
        );
        text.counters(
            "skep_pool_requests_total",
            "Sandboxes that were asked for, by whether there was a spare.",
            "found",
            [("ready", spares.given), ("none", spares.missing)],
        );
        text.counters(
            "skep_sandbox_launch_failures_total",
            "Sandboxes that did not come up, by where it failed.",
            "step",
            metrics.launch_failures(),
        );
        text.counters(
            "skep_sandbox_endings_total",
            "Sandboxes that ended, by why.",
            "reason",
            metrics.endings(),
        );
        text.counters(
            "skep_sandbox_pauses_total",
            "Pauses and resumes of sandboxes, frozen ones that were written to an image, and images that were compressed.",
            "change",
            [
                ("paused", metrics.paused.get()),
                ("resumed", metrics.resumed.get()),
                ("stored", metrics.stored.get()),
                ("compressed", metrics.compressed.get()),
            ],
        );
        text.counters(
            "skep_sandbox_store_failures_total",
            "Sandboxes that could not be written to an image, paused or for a copy, by where it failed.",
            "step",
            metrics.store_failures(),
        );
        text.counter(
            "skep_sandboxes_adopted_total",
            "Sandboxes of an earlier server that were taken over.",
            metrics.adopted.get(),
        );
    }
}

/// Metrics of the host's resources, and of refused sandboxes.
fn expose_host(text: &mut Exposition, host: &HostReport) {
    if let Some(capacity) = host.capacity {
        let all = HostResource::ALL;
        text.gauges(
            "skep_host_total",
            "What the host has of each resource; 0 is not counted.",
            "resource",
            all.map(|resource| (resource, capacity.of(resource).total)),
        );
        text.gauges(
            "skep_host_available",
            "What nobody uses of each resource of the host.",
            "resource",
            all.map(|resource| (resource, capacity.of(resource).available)),
        );
    }
    if let Some((room, _)) = host.room {
        text.gauge(
            "skep_host_room",
            "About how many more sandboxes of the default size the host can hold.",
            room,
        );
    }
    text.gauges(
        "skep_host_promised_bytes",
        "The limits of all sandboxes together.",
        "resource",
        [
            (HostResource::Memory, host.promised.memory),
            (HostResource::Disk, host.promised.disk),
        ],
    );
    text.counters(
        "skep_create_refused_total",
        "Sandboxes that were refused, by what the host has too little of.",
        "reason",
        host.refusals.iter().copied(),
    );
}
