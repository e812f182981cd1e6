//! The backend's metrics in Prometheus' format: names and help, beside what is counted.

use skep_telemetry::Exposition;

use crate::{LaunchCounts, ZygoteCounts};

impl LaunchCounts {
    /// Writes the metrics of launches.
    pub fn expose(&self, text: &mut Exposition) {
        text.counters(
        "skep_sandbox_launches_total",
        "Sandboxes that were launched, by a fork of the launcher that stays or one of their own.",
        "launcher",
        [
            ("fork", self.by_fork.get()),
            ("own", self.by_own_launcher.get()),
        ],
    );
    }
}

impl ZygoteCounts {
    /// Writes the metrics of zygotes.
    pub fn expose(&self, text: &mut Exposition) {
        text.gauge(
            "skep_zygotes",
            "Warmed processes that kernels are forked from.",
            self.alive.get(),
        );
        text.counters(
            "skep_zygote_starts_total",
            "Zygotes that were to be started, by what became of them.",
            "outcome",
            [
                ("ready", self.made.get()),
                ("failed", self.not_made.get()),
                ("no_room", self.no_room.get()),
            ],
        );
        text.counters(
            "skep_zygote_kernels_total",
            "Kernels that were asked for, by whether one was forked, or why it had to be started.",
            "outcome",
            [
                ("forked", self.forked.get()),
                ("cold", self.cold.get()),
                ("dead", self.dead.get()),
                ("slow", self.slow.get()),
                ("stalled", self.stalled.get()),
                ("declined", self.declined.get()),
                ("different", self.different.get()),
                ("nonsense", self.nonsense.get()),
            ],
        );
        text.durations(
            "skep_zygote_fork_seconds",
            "From the question for a kernel until it was forked and found to be right.",
            &self.fork,
        );
    }
}
