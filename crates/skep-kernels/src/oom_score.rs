//! Processes that the Linux kernel's OOM killer takes first when there is no memory left.

use std::io;
use std::path::PathBuf;

/// The highest `oom_score_adj`: the OOM killer takes such a process before all others.
const FIRST: &str = "1000";

/// A process marked as the OOM killer's first choice, until it is spared.
#[derive(Debug)]
pub(crate) struct OomFirst {
    path: PathBuf,
    usual: String,
}

impl OomFirst {
    /// Marks a process.
    ///
    /// # Errors
    ///
    /// If it has ended, or is not ours to mark.
    pub(crate) fn mark(pid: u32) -> io::Result<Self> {
        let path = PathBuf::from(format!("/proc/{pid}/oom_score_adj"));
        let usual = std::fs::read_to_string(&path)?.trim().to_owned();
        std::fs::write(&path, FIRST)?;
        Ok(Self { path, usual })
    }

    /// Restores the usual score: from now on it is killed when others like it are.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub(crate) fn spare(&self) -> io::Result<()> {
        std::fs::write(&self.path, &self.usual)
    }
}
