//! Report of a sandbox that has ended, for those who may know.

use jiff::{SignedDuration, Timestamp};

use crate::EndReason;

/// Age from which on the end of a sandbox is told with its date.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// The end of a sandbox, as its owner is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Reason of the end.
    pub reason: EndReason,
    /// Moment of the end.
    pub at: Timestamp,
    /// Memory that the sandbox had, in MiB.
    pub memory_mib: u32,
}

impl Departure {
    /// The end in words, such as `ended 06:16 UTC: out_of_memory (512 MiB)`, with what to do.
    pub fn words(&self, now: Timestamp) -> String {
        let is_recent = now.duration_since(self.at) < DAY;
        let format = if is_recent { "%H:%M" } else { "%Y-%m-%d %H:%M" };
        let size = match self.reason {
            EndReason::OutOfMemory => format!(" ({} MiB)", self.memory_mib),
            EndReason::Killed
            | EndReason::Timeout
            | EndReason::DiskFull
            | EndReason::Crashed
            | EndReason::StartFailed
            | EndReason::HostRestart
            | EndReason::ServerStopped => String::new(),
        };
        format!(
            "ended {} UTC: {}{size}; {}",
            self.at.strftime(format),
            self.reason,
            advice(self.reason)
        )
    }
}

fn advice(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Killed => "create another one",
        EndReason::Timeout => "create another one with a longer timeout, or extend it in time",
        EndReason::OutOfMemory => "use less memory, or a template that has more",
        EndReason::DiskFull => "the disk of the host is full: its operator has to make room",
        EndReason::Crashed => "its first process ended; its log may say why",
        EndReason::StartFailed => "create another one; the server's log says why it did not start",
        EndReason::HostRestart => "its host was restarted: create another one",
        EndReason::ServerStopped => "its server was stopped: create another one",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_with_its_time_its_reason_and_what_to_do() {
        let at: Timestamp = "2026-01-02T06:16:05Z".parse().unwrap();
        let words = |reason, hours| {
            let departure = Departure {
                reason,
                at,
                memory_mib: 512,
            };
            departure.words(at + SignedDuration::from_hours(hours))
        };
        assert_eq!(
            words(EndReason::OutOfMemory, 1),
            "ended 06:16 UTC: out_of_memory (512 MiB); use less memory, or a template that has more"
        );
        assert_eq!(
            words(EndReason::Killed, 30),
            "ended 2026-01-02 06:16 UTC: killed; create another one"
        );
        for reason in EndReason::ALL {
            assert!(words(reason, 0).contains(reason.as_str()));
        }
    }
}
