//! The server's metrics, in Prometheus' text format.

use std::sync::{Arc, OnceLock};

use skep_api::{Problem, ServerMetrics};
use skep_native::{LaunchCounts, ZygoteCounts};
use skep_node::Node;
use skep_store::Store;
use skep_telemetry::{Exposition, Gauge};
use skep_types::{HostResource, Phase, SandboxStatus};
use skep_volume::{Backend as _, LocalVolumes};

/// The counters of all parts.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) node: Node,
    pub(crate) store: Store,
    pub(crate) launches: Arc<LaunchCounts>,
    pub(crate) zygotes: Arc<ZygoteCounts>,
    pub(crate) leftovers: Arc<Gauge>,
    pub(crate) volumes: Arc<LocalVolumes>,
    pub(crate) mirror: Option<Arc<skep_mirror::Metrics>>,
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
        self.node.expose(&mut text);
        self.expose_stuck(&mut text);
        self.launches.expose(&mut text);
        self.zygotes.expose(&mut text);
        text.gauge(
            "skep_volume_bytes",
            "Bytes of this host's disk that volumes take.",
            self.volumes.bytes(),
        );
        if let Some(mirror) = &self.mirror {
            mirror.expose(&mut text);
        }
        if let Some(proxy) = self.proxy.get() {
            proxy.expose(&mut text);
        }
        self.store.expose(&mut text);
        if let Some(traces) = skep_telemetry::trace::metrics() {
            traces.expose(&mut text);
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
        let exhausted = self
            .node
            .host()
            .exhausted
            .into_iter()
            .map(|resource| Problem {
                code: exhausted_code(resource),
                message: format!(
                    "only the reserve of {resource} is left on this host; new sandboxes are refused"
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

    fn expose_stuck(&self, text: &mut Exposition) {
        let (stuck, leftovers) = self.stuck();
        text.gauges(
            "skep_sandboxes_stuck",
            "Sandboxes that were killed and could not be removed, and what is left of others.",
            "kind",
            [("sandbox", stuck), ("leftover", leftovers)],
        );
    }
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
