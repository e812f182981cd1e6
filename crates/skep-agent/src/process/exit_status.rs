//! Exit status of a process, as it is reported to callers. The texts are part of the contract: the
//! CLI compares them.

use rustix::process::WaitStatus;

/// The end of a process as the wire tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) exit_code: i32,
    pub(crate) exited: bool,
    pub(crate) status: String,
    /// True if the kernel killed it, or what it waited for, because there was no memory left.
    pub(crate) out_of_memory: bool,
}

impl Ended {
    /// Puts the kernel's answer into words.
    pub(crate) fn from_wait(status: WaitStatus) -> Self {
        if let Some(code) = status.exit_status() {
            return Self {
                exit_code: code,
                exited: true,
                status: format!("exit status {code}"),
                out_of_memory: false,
            };
        }
        let signal = status.terminating_signal().unwrap_or_default();
        const CORE_DUMPED: i32 = 0x80;
        let dumped = if status.as_raw() & CORE_DUMPED != 0 {
            " (core dumped)"
        } else {
            ""
        };
        Self {
            exit_code: -1,
            exited: false,
            status: format!("signal: {}{dumped}", signal_name(signal)),
            out_of_memory: false,
        }
    }

    /// Returns true if it ended as a process does that was killed, or a shell whose command was.
    pub(crate) fn is_killed(&self) -> bool {
        const KILLED_BELOW_SHELL: i32 = 128 + 9;
        self.status == "signal: killed" || self.exit_code == KILLED_BELOW_SHELL
    }

    /// The same text again if the end was no success, with its cause if that is known.
    pub(crate) fn error(&self) -> Option<String> {
        let cause = if self.out_of_memory {
            " (out of memory)"
        } else {
            ""
        };
        (self.exit_code != 0).then(|| format!("{}{cause}", self.status))
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        10 => "user defined signal 1",
        11 => "segmentation fault",
        12 => "user defined signal 2",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        16 => "stack fault",
        24 => "CPU time limit exceeded",
        25 => "file size limit exceeded",
        26 => "virtual timer expired",
        27 => "profiling timer expired",
        31 => "bad system call",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
