//! Log of a sandbox: the output of its processes, kept for its owner.
//!
//! The server hands the agent a piece of memory of a fixed size to write to (`ring.rs`) and
//! reads it whenever somebody asks. Who floods it pays with older entries, and beyond a certain
//! rate with newer ones; both losses are entries themselves. What appears on a terminal is not
//! kept: it is made for an eye, not for a log.

mod budget;
mod ring;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use parking_lot::Mutex;
use skep_agent_protocol::log::{LogEntry, LogLevel};

use crate::process::exit_status::Ended;
use budget::Budget;
use ring::Ring;

/// A longer line is cut into several entries. As JSON it can become six times as long, which is
/// still less than a line of the ring.
const LONGEST_MESSAGE: usize = 4 << 10;
/// Estimated size of an entry beside its message, in bytes.
const OVERHEAD: usize = 128;

/// The log of this sandbox. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct SandboxLog {
    /// Writer of the log; `None` if the server keeps none. Never held while waiting.
    kept: Option<Arc<Mutex<LogWriter>>>,
}

#[derive(Debug)]
struct LogWriter {
    ring: Ring,
    budget: Budget,
    /// Bytes of output that came too fast since the last entry about them.
    skipped: usize,
}

/// Output stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl SandboxLog {
    /// A log in the memory that the server has given, if it has given any.
    ///
    /// # Errors
    ///
    /// If the memory cannot be written.
    pub(crate) fn open(memory: Option<OwnedFd>) -> io::Result<Self> {
        let open = |memory| -> io::Result<_> {
            Ok(Arc::new(Mutex::new(LogWriter {
                ring: Ring::new(memory)?,
                budget: Budget::new(Instant::now()),
                skipped: 0,
            })))
        };
        Ok(Self {
            kept: memory.map(open).transpose()?,
        })
    }

    /// A process was started. Its arguments are not kept: they may hold more than its owner
    /// wants to read in a log.
    pub(crate) fn started(&self, pid: u32, command: &str) {
        let fields = [("pid", pid.to_string()), ("command", cut(command))];
        self.add(LogLevel::Info, "process started", &fields);
    }

    /// A process has ended.
    pub(crate) fn ended(&self, pid: u32, ended: &Ended) {
        let level = match ended.exit_code {
            0 => LogLevel::Info,
            _ => LogLevel::Warn,
        };
        let fields = [("pid", pid.to_string()), ("status", ended.status.clone())];
        self.add(level, "process ended", &fields);
    }

    /// Takes note of what a process writes from now on.
    pub(crate) fn listen(&self, pid: u32, stream: Stream) -> Lines {
        Lines {
            log: self.clone(),
            pid,
            stream,
            unfinished: Vec::new(),
        }
    }

    fn add(&self, level: LogLevel, message: &str, fields: &[(&str, String)]) {
        let Some(kept) = &self.kept else {
            return;
        };
        let entry = entry(level, message, fields);
        let mut kept = kept.lock();
        kept.add_if_slow(&entry);
    }

    /// Returns true if so many bytes may be taken now. Those that may not are counted.
    fn admits(&self, bytes: usize) -> bool {
        let Some(kept) = &self.kept else {
            return false;
        };
        let mut kept = kept.lock();
        let admitted = kept.budget.admits(Instant::now(), bytes);
        if !admitted {
            kept.skipped = kept.skipped.saturating_add(bytes);
        }
        admitted
    }
}

impl LogWriter {
    fn add_if_slow(&mut self, new: &LogEntry) {
        let bytes = new.message.len();
        if !self.budget.spend(Instant::now(), bytes + OVERHEAD) {
            self.skipped = self.skipped.saturating_add(bytes);
            return;
        }
        let skipped = std::mem::take(&mut self.skipped);
        if skipped > 0 {
            let fields = [("bytes", skipped.to_string())];
            let note = entry(LogLevel::Warn, "output came too fast to be kept", &fields);
            self.ring.append(&note);
        }
        self.ring.append(new);
    }
}

fn entry(level: LogLevel, message: &str, fields: &[(&str, String)]) -> LogEntry {
    let fields = fields.iter();
    LogEntry {
        timestamp: Timestamp::now(),
        message: message.to_owned(),
        level,
        fields: fields
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .chain([("logger".to_owned(), "process".to_owned())])
            .collect::<BTreeMap<_, _>>(),
    }
}

/// A text that fits into an entry.
fn cut(text: &str) -> String {
    text.chars().take(256).collect()
}

/// Turns the pieces of an output into lines.
#[derive(Debug)]
pub(crate) struct Lines {
    log: SandboxLog,
    pid: u32,
    stream: Stream,
    /// The start of a line whose end has not come; never longer than a message.
    unfinished: Vec<u8>,
}

impl Lines {
    /// Takes note of a piece.
    pub(crate) fn take(&mut self, piece: &[u8]) {
        // Asked for the whole piece, so that a flood costs no more than the question.
        if !self.log.admits(piece.len()) {
            return;
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            for part in part.chunks(LONGEST_MESSAGE) {
                if self.unfinished.len() + part.len() > LONGEST_MESSAGE {
                    self.flush();
                }
                self.unfinished.extend_from_slice(part);
                if part.ends_with(b"\n") {
                    self.flush();
                }
            }
        }
    }

    fn flush(&mut self) {
        let bytes = std::mem::take(&mut self.unfinished);
        let line = String::from_utf8_lossy(&bytes);
        let text = line.trim_end_matches(['\n', '\r']);
        if text.is_empty() {
            return;
        }
        let (level, stream) = match self.stream {
            Stream::Stdout => (LogLevel::Info, "stdout"),
            Stream::Stderr => (LogLevel::Warn, "stderr"),
        };
        let fields = [("pid", self.pid.to_string()), ("stream", stream.to_owned())];
        self.log.add(level, text, &fields);
    }
}

impl Drop for Lines {
    /// The last line may have no end.
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    use skep_agent_protocol::log;

    use super::*;

    struct Memory(File);

    impl Memory {
        fn new() -> (Self, SandboxLog) {
            let file = tempfile::tempfile().unwrap();
            file.set_len(u64::try_from(log::BYTES).unwrap()).unwrap();
            let theirs = file.try_clone().unwrap();
            (Self(file), SandboxLog::open(Some(theirs.into())).unwrap())
        }

        fn entries(&self) -> Vec<LogEntry> {
            let mut bytes = vec![0; log::BYTES];
            self.0.read_exact_at(&mut bytes, 0).unwrap();
            let lines = log::lines(&bytes).into_iter();
            lines
                .map(|line| serde_json::from_slice(line).unwrap())
                .collect()
        }

        fn messages(&self) -> Vec<String> {
            let entries = self.entries().into_iter();
            entries.map(|entry| entry.message).collect()
        }
    }

    #[test]
    fn output_becomes_lines_however_it_is_cut() {
        let (memory, log) = Memory::new();
        let mut lines = log.listen(7, Stream::Stderr);
        for piece in ["one\ntw", "o\r\n\n", "thr", "ee"] {
            lines.take(piece.as_bytes());
        }
        drop(lines);
        assert_eq!(memory.messages(), ["one", "two", "three"]);
        let entry = &memory.entries()[0];
        assert_eq!(entry.level, LogLevel::Warn);
        assert_eq!(
            (&*entry.fields["pid"], &*entry.fields["stream"]),
            ("7", "stderr")
        );
    }

    #[test]
    fn a_line_without_end_is_cut_into_entries() {
        let (memory, log) = Memory::new();
        let mut lines = log.listen(7, Stream::Stdout);
        lines.take(&vec![b'x'; 3 * LONGEST_MESSAGE + 1]);
        drop(lines);
        let lengths: Vec<_> = memory.messages().iter().map(String::len).collect();
        assert_eq!(
            lengths,
            [LONGEST_MESSAGE, LONGEST_MESSAGE, LONGEST_MESSAGE, 1]
        );
    }

    #[test]
    fn a_flood_is_bounded_and_its_loss_is_told() {
        let (memory, log) = Memory::new();
        let mut lines = log.listen(7, Stream::Stdout);
        for _ in 0..1000 {
            lines.take(&b"flood\n".repeat(1000));
        }
        drop(lines);
        // The budget grows again with time, and the next entry tells what was missed.
        skep_testkit::wait_for(std::time::Duration::from_secs(10), || {
            log.started(8, "sh");
            let messages = memory.messages();
            let told = messages.iter().any(|message| message.contains("too fast"));
            told.then_some(()).ok_or("not told")
        });
        assert!(memory.entries().len() < 100_000);
    }

    #[test]
    fn without_memory_nothing_is_kept_and_nothing_fails() {
        let log = SandboxLog::open(None).unwrap();
        log.started(1, "sh");
        log.listen(1, Stream::Stdout).take(b"hello\n");
    }
}
