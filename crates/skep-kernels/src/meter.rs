//! Resource usage of a kernel, measured and limited from outside.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::usage::{reset_peak, usage_of};

/// Measures a kernel and what it started, and limits it, where its code cannot reach.
pub trait Meter: fmt::Debug + Send + Sync {
    /// Returns the resources used until now; `None` if that cannot be seen. Asked after the end of
    /// the kernel too.
    fn usage(&self) -> Option<Usage>;

    /// Lets [`Usage::peak_memory`] begin anew, where that is possible.
    fn reset_peak(&self);

    /// Returns true if [`Usage::peak_memory`] is only the most that [`Meter::usage`] has seen, so
    /// that it must be called often.
    fn is_sampled(&self) -> bool;

    /// Limits the memory of everything that is measured together, or lifts the limit.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if more is used already, `Unsupported` if there is no way to limit it.
    fn limit_memory(&self, limit: Option<u64>) -> io::Result<()>;

    /// Kills everything that is measured.
    fn kill(&self);

    /// Returns true unless it is certain that a process is not among those that are measured.
    fn may_hold(&self, _pid: u32) -> bool {
        true
    }
}

/// Counters. All but the memory only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all processes together.
    pub processor: Duration,
    /// The memory it has now, in bytes.
    pub memory: Option<u64>,
    /// The most memory it has had at once, in bytes.
    pub peak_memory: Option<u64>,
    /// Bytes that disks have moved for it.
    pub storage: Option<Moved>,
    /// Bytes that its living processes have read from and written to files on disks.
    pub files: Option<Moved>,
    /// Number of its processes that the OOM killer took.
    pub out_of_memory_kills: Option<u64>,
}

/// Bytes in two directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes read from files or disks.
    pub read: u64,
    /// Bytes written to files or disks.
    pub written: u64,
}

/// Resources used between two readings of a meter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Processor time of all processes together.
    pub processor: Duration,
    /// The memory at the second look, in bytes.
    pub memory: Option<u64>,
    /// The most memory at once between them, in bytes.
    pub peak_memory: Option<u64>,
    /// Bytes read from and written to storage. What is written into memory that belongs to a
    /// file counts when it is written, even if the disk gets it later or never.
    pub moved: Option<Moved>,
    /// Number of processes that the OOM killer took.
    pub out_of_memory_kills: Option<u64>,
}

impl Usage {
    /// Returns the difference to the earlier reading `before`.
    pub fn since(&self, before: &Self) -> Spent {
        let moved = |after: Option<Moved>, before: Option<Moved>| {
            let (after, before) = (after?, before?);
            Some(Moved {
                read: after.read.saturating_sub(before.read),
                written: after.written.saturating_sub(before.written),
            })
        };
        // Disks do not see what waits in memory, and files do not see processes that have ended
        // and that nobody of theirs has waited for. Each sees what it sees.
        let seen = [
            moved(self.storage, before.storage),
            moved(self.files, before.files),
        ];
        let more = |some: Moved, other: Moved| Moved {
            read: some.read.max(other.read),
            written: some.written.max(other.written),
        };
        Spent {
            processor: self.processor.saturating_sub(before.processor),
            memory: self.memory,
            peak_memory: self.peak_memory,
            moved: seen.into_iter().flatten().reduce(more),
            out_of_memory_kills: match (self.out_of_memory_kills, before.out_of_memory_kills) {
                (Some(after), Some(before)) => Some(after.saturating_sub(before)),
                (None, _) | (_, None) => None,
            },
        }
    }
}

/// A limit of memory that is lifted when this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryLimit(Arc<dyn Meter>);

impl MemoryLimit {
    pub(crate) fn set(meter: &Arc<dyn Meter>, limit: u64) -> io::Result<Self> {
        meter.limit_memory(Some(limit))?;
        Ok(Self(Arc::clone(meter)))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        if let Err(error) = self.0.limit_memory(None) {
            tracing::warn!(%error, "a limit of memory cannot be lifted");
        }
    }
}

/// Looks at one process alone, where there is nothing better. Time of its children is included
/// once they have been waited for; their memory is not.
#[derive(Debug)]
pub struct ProcessMeter(u32);

impl ProcessMeter {
    /// Measures the process with this id.
    pub fn new(pid: u32) -> Self {
        Self(pid)
    }
}

impl Meter for ProcessMeter {
    fn usage(&self) -> Option<Usage> {
        usage_of(self.0)
    }

    fn reset_peak(&self) {
        reset_peak(self.0);
    }

    fn is_sampled(&self) -> bool {
        false
    }

    fn limit_memory(&self, limit: Option<u64>) -> io::Result<()> {
        match limit {
            Some(_) => Err(io::ErrorKind::Unsupported.into()),
            None => Ok(()),
        }
    }

    /// Its owner kills the process and its group.
    fn kill(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_counter_does_not_see_the_other_does() {
        let moved = |read, written| Some(Moved { read, written });
        let before = Usage {
            storage: moved(100, 100),
            files: moved(10, 10),
            ..Usage::default()
        };
        let after = Usage {
            processor: Duration::from_secs(1),
            storage: moved(150, 100),
            files: moved(10, 90),
            ..Usage::default()
        };
        let spent = after.since(&before);
        assert_eq!(spent.moved, moved(50, 80));
        assert_eq!(spent.processor, Duration::from_secs(1));
        assert_eq!(spent.out_of_memory_kills, None);
        let dead = Usage {
            files: None,
            ..after
        };
        assert_eq!(dead.since(&before).moved, moved(50, 0));
        assert_eq!(Usage::default().since(&before).moved, None);
    }
}
