//! Groups that are made before their sandbox is asked for.
//!
//! On v1 a sandbox has three groups in each of up to six hierarchies, with a dozen limits. They
//! are the same for all sandboxes of the same resources, and can be renamed: only that is left
//! for the launch. On v2, where they cannot, there is one hierarchy and much less to make.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use skep_types::Resources;

use super::{CgroupError, Cgroups, DiskSpeed, Group, JoinFds};
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
    /// Speed limit of each sandbox's disk.
    speed: Option<DiskSpeed>,
    ready: Pool<Resources, ReadyGroup>,
}

impl ReadyGroups {
    /// Removes what an earlier server had ready, and keeps up to `high` of a kind ready.
    pub(crate) fn new(
        cgroups: &Cgroups,
        high: usize,
        speed: Option<DiskSpeed>,
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
            speed,
            ready: Pool::new(high),
        })
    }

    /// Makes the group of a sandbox, with its limits, that has this disk. Takes one that is ready
    /// if there is one. Blocks.
    pub(crate) fn make(
        &self,
        cgroups: &Cgroups,
        group: &Group,
        resources: &Resources,
        disk: BorrowedFd<'_>,
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
        let io = self.speed.and_then(|speed| match cgroups {
            // Made before there is a disk, so that it can be ready.
            Cgroups::V1(_) => speed.on_host_disk(),
            Cgroups::V2(_) => speed.on_mounted_disk(disk),
        });
        let settings = cgroups.create(group, resources, io)?;
        cgroups.open_join_fds(group, settings)
    }

    /// Returns true if another group should be made ahead.
    pub(crate) fn wants_more(&self) -> bool {
        self.ready.wants_more()
    }

    /// Makes a group ready, if one is wanted. Blocks.
    pub(crate) fn make_one_ready(&self, cgroups: &Cgroups) {
        let unwanted = self.ready.make_one(|resources, name| {
            let group = Group::ready(name);
            let io = self.speed.and_then(DiskSpeed::on_host_disk);
            let settings = cgroups.create(&group, resources, io)?;
            let join_fds = cgroups.open_join_fds(&group, settings).inspect_err(|_| {
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
