//! The host on which something was measured.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// A description of this host: numbers from another one mean little.
#[derive(Debug, Clone, Serialize)]
pub struct HostInfo {
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the processor.
    pub processor: String,
    /// Number of processors that this process may use.
    pub cores: usize,
    /// All of the host's memory.
    pub memory_bytes: u64,
    /// Generation of the cgroup hierarchy.
    pub cgroup_version: u8,
    /// Average number of runnable tasks in the minute before.
    pub load_before: f64,
    /// The same, when everything was measured. The bench itself is part of it.
    pub load_after: Option<f64>,
}

impl HostInfo {
    /// Looks at this host. What it does not tell is left empty.
    pub(crate) fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: processor(&read("/proc/cpuinfo"))
                .unwrap_or("unknown")
                .to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kibibytes(&read("/proc/meminfo"), "MemTotal:").unwrap_or_default() << 10,
            cgroup_version: if unified { 2 } else { 1 },
            load_before: load(),
            load_after: None,
        }
    }

    /// Notes the load at the end.
    pub(crate) fn look_again(&mut self) {
        self.load_after = Some(load());
    }

    /// Returns true if others use so much of this host that times say little.
    pub(crate) fn is_busy(&self) -> bool {
        self.load_before > self.cores as f64 * 0.5
    }
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|load| load.parse().ok()).unwrap_or_default()
}

fn processor(information: &str) -> Option<&str> {
    let line = information
        .lines()
        .find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim())
}

/// The value of a line such as `MemTotal:  16 kB`.
pub(crate) fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let information = "processor\t: 0\nmodel name\t: A Fine One @ 3 GHz\n";
        assert_eq!(processor(information), Some("A Fine One @ 3 GHz"));
        let memory = "MemFree:  1 kB\nMemTotal:       24602144 kB\n";
        assert_eq!(kibibytes(memory, "MemTotal:"), Some(24_602_144));
        assert_eq!(kibibytes(memory, "Swap:"), None);
    }

    #[test]
    fn this_host_is_described() {
        let host = HostInfo::look();
        assert!(host.cores > 0);
        assert!(host.memory_bytes > 1 << 20);
        assert!(!host.kernel.is_empty());
    }

    #[test]
    fn a_host_with_much_else_to_do_is_busy() {
        let host = |load_before| HostInfo {
            cores: 4,
            load_before,
            ..HostInfo::look()
        };
        assert!(host(2.1).is_busy());
        assert!(!host(1.9).is_busy());
    }
}
