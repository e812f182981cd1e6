//! The server's metrics, in Prometheus' text format.

use std::sync::{Arc, OnceLock};

use skep_api::{Problem, ServerMetrics};
use skep_native::{LaunchCounts, ZygoteCounts};
use skep_node::{HostReport, Node};
use skep_store::Store;
use skep_telemetry::{Exposition, Gauge};
use skep_types::{HostResource, Phase, SandboxStatus};

/// The counters of all parts.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) node: Node,
    pub(crate) store: Store,
    pub(crate) launches: Arc<LaunchCounts>,
    pub(crate) zygotes: Arc<ZygoteCounts>,
    pub(crate) leftovers: Arc<Gauge>,
    /// Set when the proxy is there, which is made last.
    pub(crate) proxy: OnceLock<Arc<skep_proxy::Metrics>>,
}

impl ServerMetrics for Metrics {
    fn render(&self) -> String {
        let mut text = Exposition::default();
        let version = [(env!("CARGO_PKG_VERSION"), 1)];
        text.gauges(
            "skep_build_info",
            "The version that runs.",
            "version",
            version,
        );
        self.sandboxes(&mut text);
        host(&mut text, &self.node.host());
        launches(&mut text, &self.launches);
        zygotes(&mut text, &self.zygotes);
        if let Some(proxy) = self.proxy.get() {
            requests(&mut text, proxy);
        }
        self.record(&mut text);
        if let Some(traces) = skep_telemetry::trace::metrics() {
            spans(&mut text, traces);
        }
        process(&mut text);
        text.into_text()
    }

    fn problems(&self) -> Vec<Problem> {
        let record = self.store.metrics();
        let unwritten = record.is_failing().then(|| Problem {
            code: "record_not_written",
            message: format!(
                "the disk does not take the database; {} changes are kept in memory until it does, \
                 and nothing new is taken",
                record.retained.get()
            ),
        });
        let exhausted = self.node.host().exhausted;
        let exhausted = exhausted.into_iter().map(|resource| Problem {
            code: exhausted_code(resource),
            message: format!(
                "only the reserve of {resource} is left on this machine; new sandboxes are refused"
            ),
        });
        let (sandboxes, leftovers) = self.stuck();
        let stuck = (sandboxes + leftovers > 0).then(|| Problem {
            code: "sandboxes_stuck",
            message: format!(
                "{sandboxes} sandboxes and what is left of {leftovers} others could not be \
                 removed; the log says why, and the server keeps trying"
            ),
        });
        unwritten
            .into_iter()
            .chain(exhausted)
            .chain(stuck)
            .collect()
    }
}

fn exhausted_code(resource: HostResource) -> &'static str {
    match resource {
        HostResource::Memory => "memory_exhausted",
        HostResource::Disk => "disk_exhausted",
        HostResource::Inodes => "inodes_exhausted",
        HostResource::Processes => "processes_exhausted",
        HostResource::OpenFiles => "open_files_exhausted",
        HostResource::Cgroups => "cgroups_exhausted",
        HostResource::Slots => "slots_exhausted",
    }
}

impl Metrics {
    /// Number of stuck sandboxes, and number of those that have left something and have no owner.
    fn stuck(&self) -> (u64, u64) {
        let is_stuck = |status: &SandboxStatus| status.phase == Phase::Stuck;
        let stuck = self.node.list().into_iter().filter(is_stuck).count();
        let stuck = u64::try_from(stuck).unwrap_or(u64::MAX);
        (stuck, self.leftovers.get())
    }

    fn sandboxes(&self, text: &mut Exposition) {
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
        let sandboxes = self.node.list();
        let counted = phases.map(|(phase, name)| {
            let count = sandboxes.iter().filter(|status| status.phase == phase);
            (name, u64::try_from(count.count()).unwrap_or(u64::MAX))
        });
        let metrics = self.node.metrics();
        text.gauges(
            "skep_isolation_tier",
            "1 for the tier of isolation that holds the sandboxes.",
            "tier",
            [(self.node.tier().as_str(), 1)],
        );
        text.gauges(
            "skep_sandboxes",
            "Sandboxes that are there.",
            "phase",
            counted,
        );
        let (stuck, leftovers) = self.stuck();
        text.gauges(
            "skep_sandboxes_stuck",
            "Sandboxes that were killed and could not be removed, and what is left of others.",
            "kind",
            [("sandbox", stuck), ("leftover", leftovers)],
        );
        text.durations(
            "skep_sandbox_create_seconds",
            "From the order of a sandbox until it runs and the database knows.",
            &metrics.create,
        );
        let spares = self.node.spares();
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
        text.counter(
            "skep_sandboxes_adopted_total",
            "Sandboxes of an earlier server that were taken over.",
            metrics.adopted.get(),
        );
    }

    fn record(&self, text: &mut Exposition) {
        let metrics = self.store.metrics();
        text.gauge(
            "skep_store_queue",
            "Writes to the database that wait.",
            metrics.queued.get(),
        );
        text.counter(
            "skep_store_refused_total",
            "Writes to the database that were refused because too many waited.",
            metrics.refused.get(),
        );
        text.gauge(
            "skep_store_failing",
            "1 while the disk does not take the database.",
            u64::from(metrics.is_failing()),
        );
        text.gauge(
            "skep_store_retained",
            "Writes that the disk did not take and that are tried again.",
            metrics.retained.get(),
        );
        text.counter(
            "skep_store_failures_total",
            "Transactions that the disk did not take.",
            metrics.failed.get(),
        );
        text.durations(
            "skep_store_commit_seconds",
            "Transactions of the database.",
            &metrics.commits,
        );
    }
}

/// Metrics of the host's resources, and of refused sandboxes.
fn host(text: &mut Exposition, host: &HostReport) {
    if let Some(capacity) = host.capacity {
        let all = HostResource::ALL;
        text.gauges(
            "skep_host_total",
            "What the machine has of each resource; 0 is not counted.",
            "resource",
            all.map(|resource| (resource, capacity.of(resource).total)),
        );
        text.gauges(
            "skep_host_available",
            "What nobody uses of each resource of the machine.",
            "resource",
            all.map(|resource| (resource, capacity.of(resource).available)),
        );
    }
    if let Some((room, _)) = host.room {
        text.gauge(
            "skep_host_room",
            "About how many more sandboxes of the default size the machine can hold.",
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
        "Sandboxes that were refused, by what the machine has too little of.",
        "reason",
        host.refusals.iter().copied(),
    );
}

fn launches(text: &mut Exposition, counts: &LaunchCounts) {
    text.counters(
        "skep_sandbox_launches_total",
        "Sandboxes that were launched, by a fork of the launcher that stays or one of their own.",
        "launcher",
        [
            ("fork", counts.by_fork.get()),
            ("own", counts.by_own_launcher.get()),
        ],
    );
}

fn zygotes(text: &mut Exposition, counts: &ZygoteCounts) {
    text.gauge(
        "skep_zygotes",
        "Warmed processes that kernels are forked from.",
        counts.alive.get(),
    );
    text.counters(
        "skep_zygote_starts_total",
        "Zygotes that were to be started, by what became of them.",
        "outcome",
        [
            ("ready", counts.made.get()),
            ("failed", counts.not_made.get()),
            ("no_room", counts.no_room.get()),
        ],
    );
    text.counters(
        "skep_zygote_kernels_total",
        "Kernels that were asked for, by whether one was forked, or why it had to be started.",
        "outcome",
        [
            ("forked", counts.forked.get()),
            ("cold", counts.cold.get()),
            ("dead", counts.dead.get()),
            ("slow", counts.slow.get()),
            ("stalled", counts.stalled.get()),
            ("declined", counts.declined.get()),
            ("different", counts.different.get()),
            ("nonsense", counts.nonsense.get()),
        ],
    );
    text.durations(
        "skep_zygote_fork_seconds",
        "From the question for a kernel until it was forked and found to be right.",
        &counts.fork,
    );
}

fn requests(text: &mut Exposition, proxy: &skep_proxy::Metrics) {
    for (name, help, value) in [
        (
            "skep_connections_open",
            "Client connections that are open.",
            proxy.connections_open.get(),
        ),
        (
            "skep_sandbox_requests_open",
            "Requests to sandboxes that are being served.",
            proxy.sandbox_requests_open.get(),
        ),
    ] {
        text.gauge(name, help, value);
    }
    for (name, help, counter) in [
        (
            "skep_connections_accepted_total",
            "Client connections ever accepted.",
            &proxy.connections_accepted,
        ),
        (
            "skep_connections_evicted_total",
            "Idle client connections without a key or token that made room for others.",
            &proxy.connections_evicted,
        ),
        (
            "skep_anonymous_refused_total",
            "Requests without a key or token that were refused because too many were served.",
            &proxy.anonymous_refused,
        ),
        (
            "skep_connections_expired_total",
            "Client connections closed because they were idle or too slow.",
            &proxy.connections_expired,
        ),
        (
            "skep_connections_stalled_total",
            "Client connections without a key or token that were cut because they did not read.",
            &proxy.connections_stalled,
        ),
        (
            "skep_handshakes_failed_total",
            "TLS handshakes that failed.",
            &proxy.handshakes_failed,
        ),
        (
            "skep_api_requests_total",
            "Requests to the API.",
            &proxy.api_requests,
        ),
        (
            "skep_sandbox_requests_total",
            "Requests to sandboxes.",
            &proxy.sandbox_requests,
        ),
        (
            "skep_proxy_refusals_total",
            "Requests that the proxy answered itself, with an error.",
            &proxy.refusals,
        ),
        (
            "skep_hangups_total",
            "Clients that left before their answer was complete.",
            &proxy.hangups,
        ),
        (
            "skep_cut_by_end_total",
            "Requests that were cut because their sandbox ended.",
            &proxy.cut_by_end,
        ),
    ] {
        text.counter(name, help, counter.get());
    }
    text.counters(
        "skep_connections_refused_total",
        "Client connections turned away, by who had too many.",
        "reason",
        [
            ("server", proxy.connections_refused_server.get()),
            ("address", proxy.connections_refused_address.get()),
        ],
    );
    for (name, help, durations) in [
        (
            "skep_proxy_upstream_seconds",
            "From the head of a request until a connection to its sandbox was at hand.",
            &proxy.time_to_upstream,
        ),
        (
            "skep_proxy_answer_seconds",
            "From the head of a request until the head of the sandbox's answer.",
            &proxy.time_to_answer,
        ),
        (
            "skep_execute_seconds",
            "The same, of requests that run code in a kernel.",
            &proxy.time_to_execute,
        ),
    ] {
        text.durations(name, help, durations);
    }
}

fn spans(text: &mut Exposition, traces: &skep_telemetry::trace::TraceMetrics) {
    text.counter(
        "skep_trace_spans_sent_total",
        "Spans that the collector took.",
        traces.sent.get(),
    );
    text.counters(
        "skep_trace_spans_dropped_total",
        "Spans that were lost, by why.",
        "reason",
        [
            ("queue_full", traces.overflowed.get()),
            ("not_delivered", traces.undelivered.get()),
        ],
    );
}

/// Metrics of this process from the kernel, under the names that dashboards know.
fn process(text: &mut Exposition) {
    let page = u64::try_from(rustix::param::page_size()).unwrap_or_default();
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    if let Some(pages) = pages.map(|pages: u64| pages * page) {
        let help = "Memory of the server.";
        text.gauge("process_resident_memory_bytes", help, pages);
    }
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    if let Ok(used) = std::time::Duration::try_from(used) {
        let help = "Processor time of the server.";
        text.counter("process_cpu_seconds_total", help, used.as_secs_f64());
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        let help = "Descriptors that the server has open.";
        text.gauge("process_open_fds", help, open.count());
    }
}
