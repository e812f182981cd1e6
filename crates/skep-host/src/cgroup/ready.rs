//! Groups that are made before their sandbox is asked for.
//!
//! On v1 a sandbox has three groups in each of up to six hierarchies, with a dozen limits. They
//! are the same for all sandboxes of the same resources, and can be renamed: only that is left
//! for the launch. On v2, where they cannot, there is one hierarchy and much less to make.

use std::time::Instant;

use skep_types::Resources;

use super::{CgroupError, Cgroups, Group, IoLimit, JoinFds};
use crate::pool::{PREFIX, Pool};

/// A group that has its limits, and no sandbox yet.
#[derive(Debug)]
struct ReadyGroup {
    group: Group,
    join_fds: JoinFds,
}

/// The groups that are made ahead, and how all of them are made.
#[derive(Debug)]
pub(crate) struct ReadyGroups {
    /// Limit of each sandbox's I/O on the disk that holds the data directory.
    io: Option<IoLimit>,
    ready: Pool<Resources, ReadyGroup>,
}

impl ReadyGroups {
    /// Removes what an earlier server had ready, and keeps up to `high` of a kind ready.
    pub(crate) fn new(
        cgroups: &Cgroups,
        high: usize,
        io: Option<IoLimit>,
    ) -> Result<Self, CgroupError> {
        for name in cgroups.list()? {
            if name.starts_with(PREFIX)
                && let Err(error) = cgroups.destroy(&Group::ready(&name), Instant::now())
            {
                // No reason not to start: whoever gets the name writes every limit anew.
                tracing::warn!(%error, "a cgroup of the last server is left");
            }
        }
        let high = match cgroups {
            Cgroups::V1(_) => high,
            Cgroups::V2(_) => 0,
        };
        Ok(Self {
            io,
            ready: Pool::new(high),
        })
    }

    /// Makes a sandbox's group with its limits. Takes one that is ready if there is one. Blocks.
    pub(crate) fn make(
        &self,
        cgroups: &Cgroups,
        group: &Group,
        resources: &Resources,
    ) -> Result<JoinFds, CgroupError> {
        let (ready, cleared) = self.ready.take(resources);
        cleared.iter().for_each(|ready| remove(cgroups, ready));
        if let Some(ready) = ready {
            match cgroups.rename(&ready.group, group) {
                Ok(()) => return Ok(ready.join_fds),
                Err(error) => {
                    tracing::warn!(%error, "a cgroup that was ready is gone; another is made");
                    remove(cgroups, &ready);
                    cgroups.destroy(group, Instant::now())?;
                }
            }
        }
        cgroups.create(group, resources, self.io)?;
        cgroups.open_join_fds(group)
    }

    /// Returns true if another group should be made ahead.
    pub(crate) fn wants_more(&self) -> bool {
        self.ready.wants_more()
    }

    /// Makes a group ready, if one is wanted. Blocks.
    pub(crate) fn make_one_ready(&self, cgroups: &Cgroups) {
        let unwanted = self.ready.make_one(|resources, name| {
            let group = Group::ready(name);
            cgroups.create(&group, resources, self.io)?;
            let join_fds = cgroups.open_join_fds(&group);
            let join_fds = join_fds.inspect_err(|_| {
                if let Err(error) = cgroups.destroy(&group, Instant::now()) {
                    tracing::warn!(%error, "a cgroup is left");
                }
            })?;
            Ok::<_, CgroupError>(ReadyGroup { group, join_fds })
        });
        unwanted.iter().for_each(|ready| remove(cgroups, ready));
    }

    /// Removes everything that is ready. Blocks.
    pub(crate) fn clear(&self, cgroups: &Cgroups) {
        let ready = self.ready.clear();
        ready.iter().for_each(|ready| remove(cgroups, ready));
    }
}

fn remove(cgroups: &Cgroups, ready: &ReadyGroup) {
    if let Err(error) = cgroups.destroy(&ready.group, Instant::now()) {
        // The next start tries again.
        tracing::warn!(%error, "a cgroup is left");
    }
}
