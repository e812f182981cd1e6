//! Memory of the host that sandboxes hold and no cgroup counts.

use std::io;
use std::path::Path;

use skep_types::SandboxId;

use crate::capacity::host_memory;
use crate::cgroup::{Cgroups, Group};
use crate::file_locks::LockWatch;
use crate::open_files::OpenFileWatch;
use crate::queues::QueueWatch;

/// The watchers of memory that no cgroup counts.
#[derive(Debug)]
pub(crate) struct Watchers {
    queues: QueueWatch,
    open_files: OpenFileWatch,
    locks: LockWatch,
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Self {
            queues: QueueWatch::default(),
            open_files: OpenFileWatch::default(),
            locks: LockWatch::new(),
        }
    }

    /// The sandboxes whose sockets, open files or locks hold too much, of those that `sandboxes`
    /// names with their first processes. Blocks.
    pub(crate) fn look(
        &self,
        cgroups: &Cgroups,
        sandboxes: impl Fn() -> Vec<(SandboxId, i32)>,
    ) -> Vec<SandboxId> {
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
        // Read before anything else: what is taken during a look is found by the next one.
        let used = cgroups.processor_time_of_all().ok();
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
}
