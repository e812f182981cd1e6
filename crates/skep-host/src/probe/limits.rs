//! Counters of the kernel that this host cannot bound for a single sandbox.

use std::path::Path;

use crate::config::HostConfig;
use crate::counters::{Bound, COUNTERS, Counter, Host, Lack};
use skep_types::{Check, CheckStatus};

/// One check for each number that is too low or not counted, or one for all.
pub(super) fn limits(config: &HostConfig) -> Vec<Check> {
    let host = Host {
        proc: Path::new("/proc"),
        cgroups: &config.cgroup_root,
    };
    let lacks: Vec<_> = COUNTERS
        .iter()
        .filter_map(|counter| Some(check(counter, counter.lack(host)?)))
        .collect();
    if lacks.is_empty() {
        let count = COUNTERS.len();
        let detail = format!("{count} numbers that all sandboxes share are as they should be");
        return vec![Check::good("limits of the host", detail)];
    }
    lacks
}

fn check(counter: &Counter, lack: Lack) -> Check {
    let share = match counter.bound {
        Bound::Nothing { by } => format!("a sandbox should take none, by {by}"),
        Bound::AtMost { most, by } => format!("a sandbox should take {most}, by {by}"),
        Bound::Unbounded { because } => because.to_owned(),
    };
    Check {
        name: counter.what,
        status: CheckStatus::Limited,
        detail: format!("{}; {share}", lack.detail),
        cure: Some(lack.hint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_counts_hears_of_each() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = HostConfig::new(directory.path());
        config.cgroup_root = directory.path().to_owned();
        let checks = limits(&config);
        let sockets = checks
            .iter()
            .find(|check| check.name == "memory of sockets")
            .unwrap();
        assert_eq!(sockets.status, CheckStatus::Limited);
        assert!(sockets.cure.as_deref().unwrap().contains("cgroup v2"));
    }
}
