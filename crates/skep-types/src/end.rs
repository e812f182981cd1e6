//! The end of a sandbox: its reason, and the resources used.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Reason for which a sandbox ended. Kept after death, shown wherever the sandbox is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// A caller asked for it.
    Killed,
    /// Its deadline passed.
    Timeout,
    /// The kernel had to kill inside it because its memory limit was reached, and it did not
    /// survive that.
    OutOfMemory,
    /// The host's disk was full and the sandbox lost what it had written. Filling its own is
    /// an error to whoever writes, and no end.
    DiskFull,
    /// Its first process ended by itself.
    Crashed,
    /// It never came up.
    StartFailed,
    /// The host was restarted under it.
    HostRestart,
    /// The server was told to end its sandboxes when it stops.
    ServerStopped,
}

impl EndReason {
    /// All reasons, for tables and tests.
    pub const ALL: [Self; 8] = [
        Self::Killed,
        Self::Timeout,
        Self::OutOfMemory,
        Self::DiskFull,
        Self::Crashed,
        Self::StartFailed,
        Self::HostRestart,
        Self::ServerStopped,
    ];

    /// The stable code of the reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Timeout => "timeout",
            Self::OutOfMemory => "out_of_memory",
            Self::DiskFull => "disk_full",
            Self::Crashed => "crashed",
            Self::StartFailed => "start_failed",
            Self::HostRestart => "host_restart",
            Self::ServerStopped => "server_stopped",
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for EndReason {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| format!("`{text}` is not an end reason"))
    }
}

/// Resources that a sandbox used, as its cgroup counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Processor time of all its processes, the dead ones included.
    pub cpu_time: Duration,
    /// Memory in use now, in bytes.
    pub memory_bytes: u64,
    /// Page cache within `memory_bytes` that the kernel can take back.
    pub cache_bytes: u64,
    /// The most memory ever in use, in bytes.
    pub memory_peak_bytes: u64,
    /// Memory in use on average, in bytes: of straight lines between the moments at which
    /// somebody read it.
    pub memory_average_bytes: u64,
    /// Space on its own disk that it has written and still holds, in bytes.
    pub disk_bytes: u64,
    /// Bytes read from its own disk. What is in memory already is not read.
    pub disk_read_bytes: u64,
    /// Bytes written to its own disk. What is removed before it leaves memory is never written.
    pub disk_written_bytes: u64,
    /// Bytes received over the network.
    pub received_bytes: u64,
    /// Bytes sent over the network.
    pub sent_bytes: u64,
    /// Processes and threads now.
    pub pids: u32,
    /// Number of its processes that the OOM killer took.
    pub out_of_memory_kills: u64,
}

impl Usage {
    /// This usage of the last run of a sandbox with that of the runs before it. What is of a moment
    /// is the last one's.
    #[must_use]
    pub fn after(self, earlier: &Self) -> Self {
        Self {
            cpu_time: self.cpu_time.saturating_add(earlier.cpu_time),
            memory_peak_bytes: self.memory_peak_bytes.max(earlier.memory_peak_bytes),
            disk_read_bytes: self.disk_read_bytes.saturating_add(earlier.disk_read_bytes),
            disk_written_bytes: (self.disk_written_bytes)
                .saturating_add(earlier.disk_written_bytes),
            received_bytes: self.received_bytes.saturating_add(earlier.received_bytes),
            sent_bytes: self.sent_bytes.saturating_add(earlier.sent_bytes),
            out_of_memory_kills: (self.out_of_memory_kills)
                .saturating_add(earlier.out_of_memory_kills),
            ..self
        }
    }
}

/// A sandbox's end: why, and the bill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Reason of the end.
    pub reason: EndReason,
    /// Resources used until then.
    pub usage: Usage,
    /// Time of the end.
    pub at: jiff::Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_reads_back_from_its_code() {
        for reason in EndReason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(reason));
        }
    }
}
