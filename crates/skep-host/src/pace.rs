//! Times at which somebody looks for memory that no cgroup counts: when the host's memory shrinks.
//!
//! The memory of a busy host goes up and down for many reasons. A small fall is no reason to look as long as no sandbox has run:
//! what others send to one that sleeps is found by a large fall, or after a while.

use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use skep_types::Capacity;

/// Decrease of the host's available memory that causes a look.
const FALL: u64 = 32 << 20;
/// Divisor of the host's memory, and the least number of bytes, for a decrease that causes a look
/// whatever that takes: however many sandboxes there are, one of them takes no more than that
/// unseen.
const STEEP_PART: u64 = 64;
const LEAST_STEEP: u64 = 256 << 20;
/// Interval after which somebody looks even if memory does not shrink.
const LONGEST: Duration = Duration::from_secs(10);
/// Ratio of rest to work, so that looking takes a twentieth of one processor's time, but for steep
/// falls.
const SHARE: u32 = 20;

/// A look that is taken at its pace, by one caller at a time.
#[derive(Debug, Default)]
pub(crate) struct PacedLook {
    /// `None` before the first look.
    pace: Mutex<Option<Pace>>,
}

impl PacedLook {
    /// Calls `look` if it is time to, with this memory of the host; otherwise there is nothing to
    /// find. A look that fails is taken again at the next call. `used` is the processor time that
    /// all sandboxes have used, if that is known.
    pub(crate) fn if_due<T: Default>(
        &self,
        memory: Capacity,
        used: Option<Duration>,
        look: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let now = Instant::now();
        let mut pace = self.pace.lock();
        let pace = pace.get_or_insert_with(|| Pace::new(now));
        if !pace.is_due(now, memory, used) {
            return Ok(T::default());
        }
        let before = processor_time();
        let found = look()?;
        let work = processor_time().saturating_sub(before);
        pace.looked(Instant::now(), work, memory.available, used);
        Ok(found)
    }
}

/// Processor time of this thread. A look on a busy host takes long because it waits, and a rest of
/// many times that would give whoever keeps the host busy the time to take what it wants.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns true if a sandbox may have run since all of them had used `before`.
pub(crate) fn has_run(before: Option<Duration>, used: Option<Duration>) -> bool {
    used.is_none() || used != before
}

/// Schedule of looks.
#[derive(Debug)]
struct Pace {
    /// The most memory that was available since the last look.
    most: u64,
    /// Time before which no look is taken, unless memory falls steeply.
    earliest: Instant,
    /// Time at which a look is taken in any case.
    latest: Instant,
    /// Processor time that all sandboxes had used before the last look, if that was known.
    used: Option<Duration>,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self {
            most: 0,
            earliest: now,
            latest: now,
            used: None,
        }
    }

    /// Returns true if it is time to look, with this much memory available and so much processor
    /// time used by all sandboxes.
    fn is_due(&mut self, now: Instant, memory: Capacity, used: Option<Duration>) -> bool {
        self.most = self.most.max(memory.available);
        let fall = self.most - memory.available;
        let steep = (memory.total / STEEP_PART).max(LEAST_STEEP);
        let has_run = has_run(self.used, used);
        now >= self.latest || fall >= steep || (fall >= FALL && has_run && now >= self.earliest)
    }

    /// Remembers a look that took so much work and began with so much memory and processor time.
    fn looked(&mut self, ended: Instant, work: Duration, available: u64, used: Option<Duration>) {
        self.most = available;
        self.used = used;
        self.earliest = ended + SHARE * work;
        self.latest = self.earliest.max(ended + LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A host with a gibibyte, of which so much is available.
    fn available(bytes: u64) -> Capacity {
        Capacity {
            total: 1024 * MIB,
            available: bytes,
        }
    }

    #[test]
    fn nobody_looks_until_memory_shrinks() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert!(
            pace.is_due(start, available(1000 * MIB), None),
            "the first look"
        );
        pace.looked(start, Duration::ZERO, 1000 * MIB, None);
        let later = start + Duration::from_millis(100);
        assert!(!pace.is_due(later, available(1000 * MIB), None));
        assert!(!pace.is_due(later, available(990 * MIB), None));
        assert!(pace.is_due(later, available(960 * MIB), None));
        // Memory that came back can go again.
        pace.looked(later, Duration::ZERO, 900 * MIB, None);
        assert!(!pace.is_due(later, available(1000 * MIB), None));
        assert!(pace.is_due(later, available(960 * MIB), None));
    }

    #[test]
    fn looking_takes_a_part_of_the_time_and_is_not_forgotten() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let took = Duration::from_millis(30);
        pace.looked(start + took, took, 1000 * MIB, None);
        let fallen = available(900 * MIB);
        assert!(!pace.is_due(start + SHARE * took, fallen, None), "too soon");
        assert!(pace.is_due(start + (SHARE + 1) * took, fallen, None));
        let same = available(1000 * MIB);
        assert!(!pace.is_due(start + LONGEST, same, None));
        assert!(pace.is_due(start + took + LONGEST, same, None));
    }

    #[test]
    fn a_small_fall_is_nobodys_as_long_as_no_sandbox_runs() {
        let start = Instant::now();
        let used = |milliseconds| Some(Duration::from_millis(milliseconds));
        let mut pace = Pace::new(start);
        pace.looked(start, Duration::ZERO, 1000 * MIB, used(7));
        let fallen = available(900 * MIB);
        assert!(!pace.is_due(start, fallen, used(7)));
        assert!(pace.is_due(start, fallen, used(8)));
        assert!(pace.is_due(start, available(700 * MIB), used(7)), "steep");
        assert!(pace.is_due(start + LONGEST, fallen, used(7)));
    }

    #[test]
    fn only_the_work_of_a_look_counts() {
        let before = processor_time();
        std::thread::park_timeout(Duration::from_millis(50));
        assert!(processor_time() - before < Duration::from_millis(25));
    }

    #[test]
    fn a_steep_fall_waits_for_nothing() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let ended = start + Duration::from_secs(3);
        pace.looked(ended, Duration::from_secs(3), 1000 * MIB, None);
        assert!(!pace.is_due(ended, available(800 * MIB), None));
        assert!(pace.is_due(ended, available(700 * MIB), None));
        // On a large host that is a part of what it has.
        let large = |bytes| Capacity {
            total: 1 << 40,
            available: bytes,
        };
        pace.looked(ended, Duration::from_secs(3), 1 << 39, None);
        assert!(!pace.is_due(ended, large((1 << 39) - 15 * 1024 * MIB), None));
        assert!(pace.is_due(ended, large((1 << 39) - 16 * 1024 * MIB), None));
    }
}
