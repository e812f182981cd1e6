//! Memory of the host that sandboxes hold and no cgroup counts.

use std::io;

use skep_types::SandboxId;

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
        let with_queues = self.queues.look(&sandboxes, memory);
        let mut hoarding = with_queues.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot see what sockets hold");
            Vec::new()
        });
        let with_files = self.open_files.look(&sandboxes, memory);
        hoarding.extend(with_files.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot see what open files hold");
            Vec::new()
        }));
        let with_locks = self.locks.look(&sandboxes);
        hoarding.extend(with_locks.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot see who holds locks");
            Vec::new()
        }));
        hoarding
    }
}
