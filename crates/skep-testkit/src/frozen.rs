//! Processes that do not die.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::wait_for;

const DEADLINE: Duration = Duration::from_secs(30);

/// Processes in a group of the v1 freezer that is nobody else's. As long as it is frozen they do
/// not die of a kill, as a process does not that waits for broken hardware. Thawed and removed
/// when it is dropped.
#[derive(Debug)]
pub struct Frozen(PathBuf);

impl Frozen {
    /// Freezes processes; `None` on a host whose freezer is not of that kind: on v2 what is
    /// frozen dies.
    ///
    /// # Panics
    ///
    /// If they cannot be frozen, as when the test is not root.
    pub fn new(processes: &[i32]) -> Option<Self> {
        let freezer = Path::new("/sys/fs/cgroup/freezer");
        if !freezer.join("cgroup.procs").exists() {
            return None;
        }
        let first = processes.first().expect("there is something to freeze");
        let name = format!("skep-test-{}-{first}", std::process::id());
        let frozen = Self(freezer.join(name));
        fs::create_dir(&frozen.0).expect("the test may make groups");
        for process in processes {
            let joined = fs::write(frozen.0.join("cgroup.procs"), process.to_string());
            joined.expect("the process lives");
        }
        frozen.set("FROZEN");
        wait_for(DEADLINE, || {
            let state =
                fs::read_to_string(frozen.0.join("freezer.state")).expect("the group is there");
            (state.trim() == "FROZEN").then_some(()).ok_or(state)
        });
        Some(frozen)
    }

    /// Lets them die, or go on.
    ///
    /// # Panics
    ///
    /// If the group is gone.
    pub fn thaw(&self) {
        self.set("THAWED");
    }

    fn set(&self, state: &str) {
        let written = fs::write(self.0.join("freezer.state"), state);
        written.expect("the group is there");
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.thaw();
        wait_for(DEADLINE, || fs::remove_dir(&self.0));
    }
}
