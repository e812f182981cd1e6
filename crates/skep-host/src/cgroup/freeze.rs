//! Groups whose processes stand.
//!
//! A process that is frozen on v1 does not even die: a signal waits until it is thawed. On v2 it
//! can be killed where it stands.

mod doomed;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{
    CgroupError, Cgroups, Child, Group, MOST_COUNTED, destroy, file, open_directory, read,
    read_field, walk, write,
};
use doomed::Doomed;

/// First delay between two looks at processes on their way to a standstill; the delay doubles up
/// to the other. Idle ones take less than a millisecond.
const FIRST_WAIT: Duration = Duration::from_micros(200);
const LONGEST_WAIT: Duration = Duration::from_millis(4);

/// Files by which the processes of one group are frozen and thawed.
struct Freezer {
    directory: PathBuf,
    version: Version,
}

#[derive(Clone, Copy)]
enum Version {
    V1,
    V2,
}

impl Freezer {
    /// The same for a group in this one.
    fn below(&self, child: Child) -> Self {
        Self {
            directory: self.directory.join(child.name()),
            version: self.version,
        }
    }

    /// Tells the group. The kernel goes on by itself until every process stands.
    fn order(&self, freeze: bool) -> Result<(), CgroupError> {
        match (self.version, freeze) {
            (Version::V1, true) => write(&self.directory, "freezer.state", "FROZEN"),
            (Version::V1, false) => write(&self.directory, "freezer.state", "THAWED"),
            (Version::V2, freeze) => write(&self.directory, "cgroup.freeze", u8::from(freeze)),
        }
    }

    /// Returns true if every process of the group stands.
    fn is_frozen(&self) -> Result<bool, CgroupError> {
        match self.version {
            Version::V1 => Ok(read(&self.directory, "freezer.state")?.trim() == "FROZEN"),
            Version::V2 => Ok(read_field(&self.directory, "cgroup.events", "frozen")? == 1),
        }
    }

    fn freeze(&self, deadline: Instant) -> Result<(), CgroupError> {
        self.order(true)?;
        let mut wait = FIRST_WAIT;
        let mut doomed = Doomed::default();
        while !self.is_frozen()? {
            let now = Instant::now();
            if now >= deadline {
                let path = self.directory.clone();
                return Err(CgroupError::Restless { path });
            }
            pause(wait.min(deadline.saturating_duration_since(now)));
            wait = (wait * 2).min(LONGEST_WAIT);
            // Not at the first looks: nearly always all stand by then.
            if wait == LONGEST_WAIT
                && let Version::V1 = self.version
            {
                doomed.release(&self.directory)?;
            }
        }
        doomed.recall(&self.directory)
    }
}

impl Cgroups {
    /// Returns true if the processes of a group can be made to stand.
    pub(crate) fn can_freeze(&self) -> bool {
        match self {
            Self::V1(hierarchies) => hierarchies.freezer().is_some(),
            // The root has no such file; every other group has, since Linux 5.2.
            Self::V2(tree) => tree.parent().join("cgroup.freeze").exists(),
        }
    }

    /// Lets every process of the group stand, and returns when all do. Blocks until `deadline`
    /// at the latest.
    ///
    /// # Errors
    ///
    /// [`CgroupError::Restless`] if some do not stand by then. All go on.
    pub(crate) fn freeze(&self, group: &Group, deadline: Instant) -> Result<(), CgroupError> {
        let freezer = self.freezer(group)?;
        freezer.freeze(deadline).inspect_err(|_| {
            if let Err(error) = freezer.order(false) {
                tracing::warn!(%error, "cannot thaw what could not be frozen");
            }
        })
    }

    /// Tells the processes of the group, or of what user code has started in it, to stand or to go
    /// on, and does not wait until they do.
    pub(crate) fn order_freeze(
        &self,
        group: &Group,
        child: Option<Child>,
        freeze: bool,
    ) -> Result<(), CgroupError> {
        let freezer = self.freezer(group)?;
        match child {
            Some(child) => freezer.below(child).order(freeze),
            None => freezer.order(freeze),
        }
    }

    /// Lets the processes of the group go on. One that does not stand is no error.
    pub(crate) fn thaw(&self, group: &Group) -> Result<(), CgroupError> {
        let freezer = self.freezer(group)?;
        // What user code has started may have been told to stand by itself, and would stand on. It
        // is told first: as long as the group stands, so does everything in it.
        let work = freezer.below(Child::Work);
        if work.directory.exists() {
            work.order(false)?;
        }
        freezer.order(false)
    }

    /// Lets the agent of a group that stands go on, and nobody else.
    pub(crate) fn thaw_agent(&self, group: &Group) -> Result<(), CgroupError> {
        let freezer = self.freezer(group)?;
        // It stands already, with the group, so it does not run for a moment in between.
        freezer.below(Child::Work).order(true)?;
        freezer.order(false)
    }

    /// Returns true if every process of the group stands.
    pub(crate) fn is_frozen(&self, group: &Group) -> Result<bool, CgroupError> {
        self.freezer(group)?.is_frozen()
    }

    /// Lets memory of the group go to the host's swap, or forbids it. What is there already stays until it
    /// is looked at. On v1 memory and swap have one limit, and nothing is to be changed.
    pub(crate) fn allow_swap(&self, group: &Group, allow: bool) -> Result<(), CgroupError> {
        let Self::V2(tree) = self else {
            return Ok(());
        };
        let top = tree.directory(group);
        let work = top.join(Child::Work.name());
        for directory in [top, work] {
            if directory.join("memory.swap.max").exists() {
                let limit = if allow { "max" } else { "0" };
                write(&directory, "memory.swap.max", limit)?;
            }
        }
        Ok(())
    }

    /// Sends a frozen group to its death: every process is killed before any of them is thawed, so
    /// that none runs on. One that does not stand is left alone.
    pub(crate) fn kill_frozen(&self, group: &Group) -> Result<(), CgroupError> {
        let Self::V1(_) = self else {
            // What stands can be killed there.
            return Ok(());
        };
        let Ok(freezer) = self.freezer(group) else {
            return Ok(());
        };
        let work = freezer.below(Child::Work);
        let stands = |freezer: &Freezer| {
            let state = read(&freezer.directory, "freezer.state")?;
            Ok(state.trim() != "THAWED")
        };
        let work_stands = work.directory.exists() && stands(&work)?;
        if !work_stands && !stands(&freezer)? {
            return Ok(());
        }
        let top = open_directory(&freezer.directory)?;
        let killed = walk::visit(top, MOST_COUNTED, destroy::kill_members);
        // Thawed whatever became of that: one that stands for ever is worse than one that runs.
        self.thaw(group)?;
        killed.map_err(file("kill what is in", &freezer.directory))
    }

    fn freezer(&self, group: &Group) -> Result<Freezer, CgroupError> {
        match self {
            Self::V1(hierarchies) => {
                let parent = hierarchies.freezer().ok_or_else(|| CgroupError::Missing {
                    missing: "freezer".to_owned(),
                })?;
                Ok(Freezer {
                    directory: of(parent, group),
                    version: Version::V1,
                })
            }
            Self::V2(tree) => Ok(Freezer {
                directory: tree.directory(group),
                version: Version::V2,
            }),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "called where blocking is allowed, and v1 tells nobody when all stand"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

fn of(parent: &Path, group: &Group) -> PathBuf {
    parent.join(&group.name)
}
