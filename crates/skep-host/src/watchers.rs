//! Memory of the host that sandboxes hold and no cgroup counts.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use skep_types::SandboxId;

use crate::capacity::host_memory;
use crate::cgroup::{Cgroups, Group};
use crate::file_locks::LockWatch;
use crate::open_files::OpenFileWatch;
use crate::pace::has_run;
use crate::queues::QueueWatch;

/// Interval between two looks at the host's memory while no sandbox runs. What others send to them
/// meanwhile takes memory, too, and that is slow.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// The watchers of memory that no cgroup counts.
#[derive(Debug)]
pub(crate) struct Watchers {
    queues: QueueWatch,
    open_files: OpenFileWatch,
    locks: LockWatch,
    /// Time of the last look, and the processor time that all sandboxes had used before it.
    last: Mutex<Option<(Instant, Duration)>>,
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Self {
            queues: QueueWatch::default(),
            open_files: OpenFileWatch::default(),
            locks: LockWatch::new(),
            last: Mutex::default(),
        }
    }

    /// The sandboxes whose sockets, open files or locks hold too much, of those that `sandboxes`
    /// names with their first processes. Blocks.
    pub(crate) fn look(
        &self,
        cgroups: &Cgroups,
        sandboxes: impl Fn() -> Vec<(SandboxId, i32)>,
    ) -> Vec<SandboxId> {
        // Read before anything else: what is taken during a look is found by the next one.
        let used = cgroups.processor_time_of_all().ok();
        if !self.is_due(Instant::now(), used) {
            return Vec::new();
        }
        let memory = |id: &SandboxId| {
            let limit = cgroups.memory_limit(&Group::new(id));
            limit.map_err(io::Error::other)
        };
        let mut hoarding = Vec::new();
        let mut add = |found: io::Result<Vec<SandboxId>>, what| match found {
            Ok(found) => hoarding.extend(found),
            Err(error) => {
                tracing::warn!(%error, what, "cannot look for memory that no limit counts")
            }
        };
        let host = host_memory(Path::new("/proc/meminfo"));
        let processor_time = |id: &SandboxId| {
            let time = cgroups.processor_time(&Group::new(id));
            time.map_err(io::Error::other)
        };
        match host {
            Ok(host) => {
                let with_queues = self.queues.look((host, used), &sandboxes, memory);
                add(with_queues, "sockets");
                let with_files =
                    (self.open_files).look((host, used), &sandboxes, memory, processor_time);
                add(with_files, "open files");
            }
            Err(error) => add(Err(error), "memory of the host"),
        }
        add(self.locks.look(&sandboxes, used), "locks");
        hoarding
    }

    /// Returns true, and remembers it, if somebody may have taken something since the last look.
    fn is_due(&self, now: Instant, used: Option<Duration>) -> bool {
        let mut last = self.last.lock();
        let is_idle = last.is_some_and(|(at, before)| {
            !has_run(Some(before), used) && now.saturating_duration_since(at) < IDLE_INTERVAL
        });
        if !is_idle {
            *last = used.map(|used| (now, used));
        }
        !is_idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_looked_at_often_only_while_sandboxes_run() {
        let watchers = Watchers::new();
        let start = Instant::now();
        let used = |milliseconds| Some(Duration::from_millis(milliseconds));
        let soon = start + Duration::from_millis(100);
        assert!(watchers.is_due(start, used(7)));
        assert!(!watchers.is_due(soon, used(7)));
        assert!(watchers.is_due(soon, used(8)));
        assert!(watchers.is_due(soon + IDLE_INTERVAL, used(8)));
        assert!(watchers.is_due(soon + IDLE_INTERVAL, None), "nobody knows");
        assert!(watchers.is_due(soon + IDLE_INTERVAL, used(8)));
    }
}
