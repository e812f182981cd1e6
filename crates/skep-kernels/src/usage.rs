//! Resource usage of a single process, from the counters in `/proc`.

use std::fs;
use std::time::Duration;

use crate::meter::{Moved, Usage};

/// The kernel counts processor time in hundredths of a second everywhere Linux runs today.
const TICK: Duration = Duration::from_millis(10);

/// Looks at a process.
pub(crate) fn usage_of(pid: u32) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let read = field(&io, "read_bytes:");
    let written = field(&io, "write_bytes:");
    Some(Usage {
        processor: processor(&stat)?,
        memory: field(&status, "VmRSS:").map(|kibibytes| kibibytes << 10),
        peak_memory: field(&status, "VmHWM:").map(|kibibytes| kibibytes << 10),
        storage: None,
        files: read
            .zip(written)
            .map(|(read, written)| Moved { read, written }),
        out_of_memory_kills: None,
    })
}

/// Lets the peak of memory begin anew. Where that is forbidden the peak is that of the
/// process's whole life, which is never too small.
pub(crate) fn reset_peak(pid: u32) {
    if let Err(error) = fs::write(format!("/proc/{pid}/clear_refs"), "5") {
        tracing::trace!(%error, "cannot reset the peak of memory");
    }
}

/// User and system time of a process and the children it has waited for.
fn processor(stat: &str) -> Option<Duration> {
    // The name stands in parentheses and may contain anything, closing parentheses too.
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let mut ticks = 0_u64;
    for _ in 0..4 {
        ticks = ticks.saturating_add(fields.next()?.parse().ok()?);
    }
    Some(TICK * u32::try_from(ticks).unwrap_or(u32::MAX))
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194304 1 2 3 4 100 20 3 1 20 0 1 0 5 6 7";
        assert_eq!(processor(stat), Some(Duration::from_millis(1240)));
        assert_eq!(processor("7 (a S 1"), None);
        assert_eq!(processor(""), None);
    }

    #[test]
    fn our_own_process_can_be_measured() {
        let usage = usage_of(std::process::id()).unwrap();
        assert!(usage.peak_memory.unwrap() > 1 << 20);
    }
}
