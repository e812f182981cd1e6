//! The log of a build.

use std::sync::Arc;

use parking_lot::Mutex;
use skep_control::BuildReports;
use skep_types::{BuildId, BuildLogEntry, BuildPhase, LogLevel};

use crate::sandboxes::{Output, Stream};

/// Longest line of output. A longer one is several.
const LONGEST_LINE: usize = 4 << 10;

/// Most output that a build may have in its log. Fewer lines than are kept of a build, so that
/// whatever it prints, its later steps and its end are in the log.
const MOST_OUTPUT: Room = Room {
    bytes: 16 << 20,
    lines: 45_000,
};

/// Room for output.
#[derive(Debug, Clone, Copy)]
struct Room {
    bytes: usize,
    lines: usize,
}

/// The log of a build, and the phase that it is in.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    build: BuildId,
    reports: Arc<dyn BuildReports>,
    phase: Option<BuildPhase>,
    /// Output that may still come; `None` once there was more.
    left: Arc<Mutex<Option<Room>>>,
}

impl Log {
    pub(crate) fn new(build: BuildId, reports: Arc<dyn BuildReports>) -> Self {
        Self {
            build,
            reports,
            phase: None,
            left: Arc::new(Mutex::new(Some(MOST_OUTPUT))),
        }
    }

    /// The log of a phase.
    pub(crate) fn of(&self, phase: BuildPhase) -> Self {
        Self {
            phase: Some(phase),
            ..self.clone()
        }
    }

    pub(crate) fn info(&self, message: impl Into<String>) {
        self.say(LogLevel::Info, message.into());
    }

    pub(crate) fn debug(&self, message: impl Into<String>) {
        self.say(LogLevel::Debug, message.into());
    }

    pub(crate) fn warn(&self, message: impl Into<String>) {
        self.say(LogLevel::Warn, message.into());
    }

    pub(crate) fn error(&self, message: impl Into<String>) {
        self.say(LogLevel::Error, message.into());
    }

    fn say(&self, level: LogLevel, message: String) {
        let entry = BuildLogEntry {
            level,
            phase: self.phase,
            message,
        };
        self.reports.log(self.build, entry);
    }

    /// Receiver of a command's output, whose lines begin with `prefix`.
    pub(crate) fn output(&self, prefix: impl Into<String>, level: LogLevel) -> Arc<Lines> {
        Arc::new(Lines {
            log: self.clone(),
            prefix: prefix.into(),
            level,
            begun: Mutex::default(),
        })
    }

    /// Takes room for a line of output. Says once that there is none.
    fn take_room(&self, bytes: usize) -> bool {
        let mut left = self.left.lock();
        let Some(room) = left.as_mut() else {
            return false;
        };
        if bytes <= room.bytes && room.lines > 0 {
            room.bytes -= bytes;
            room.lines -= 1;
            return true;
        }
        *left = None;
        drop(left);
        self.warn("The output of this build is longer than its log may be; the rest is left out");
        false
    }
}

/// Output of a command, as lines of the log. What is left of a line when it is dropped is one.
pub(crate) struct Lines {
    log: Log,
    prefix: String,
    level: LogLevel,
    /// The lines that have begun on both streams.
    begun: Mutex<[Vec<u8>; 2]>,
}

impl Lines {
    fn line(&self, stream: Stream, bytes: &[u8]) {
        let line = String::from_utf8_lossy(bytes);
        let text = line.trim_end();
        if !text.is_empty() && self.log.take_room(text.len()) {
            let message = format!("{} [{}]: {text}", self.prefix, stream.as_str());
            self.log.say(self.level, message);
        }
    }

    /// Says what has begun and was not ended by a line break.
    pub(crate) fn finish(&self) {
        let begun = std::mem::take(&mut *self.begun.lock());
        for (stream, bytes) in [Stream::Stdout, Stream::Stderr].into_iter().zip(begun) {
            self.line(stream, &bytes);
        }
    }
}

impl Output for Lines {
    fn write(&self, stream: Stream, mut bytes: &[u8]) {
        let mut begun = self.begun.lock();
        let begun = match stream {
            Stream::Stdout => &mut begun[0],
            Stream::Stderr => &mut begun[1],
        };
        while !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let room = LONGEST_LINE - begun.len();
            let taken = end.unwrap_or(bytes.len()).min(room);
            begun.extend_from_slice(&bytes[..taken]);
            let is_whole = end == Some(taken);
            bytes = &bytes[taken + usize::from(is_whole)..];
            if is_whole || begun.len() == LONGEST_LINE {
                self.line(stream, begun);
                begun.clear();
            }
        }
    }
}

/// Output that is kept, as far as it is short.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Vec<u8>>);

impl Kept {
    /// The output so far, without blanks at its ends.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).trim().to_owned()
    }
}

impl Output for Kept {
    fn write(&self, _stream: Stream, bytes: &[u8]) {
        let mut kept = self.0.lock();
        let room = LONGEST_LINE.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeReports;

    fn lines(pieces: &[(Stream, &str)]) -> Vec<String> {
        let reports = Arc::new(FakeReports::default());
        let log = Log::new(BuildId::random(), reports.clone());
        let output = log.output("[builder 1/1]", LogLevel::Info);
        for (stream, piece) in pieces {
            output.write(*stream, piece.as_bytes());
        }
        output.finish();
        reports.messages()
    }

    #[test]
    fn pieces_become_whole_lines_with_their_indentation() {
        use Stream::{Stderr, Stdout};
        let pieces = [
            (Stdout, "  on"),
            (Stderr, "oops\n"),
            (Stdout, "e \n\ntwo\nthr"),
            (Stdout, "ee"),
        ];
        assert_eq!(
            lines(&pieces),
            [
                "[builder 1/1] [stderr]: oops",
                "[builder 1/1] [stdout]:   one",
                "[builder 1/1] [stdout]: two",
                "[builder 1/1] [stdout]: three",
            ]
        );
    }

    #[test]
    fn a_line_is_cut_and_a_log_has_an_end() {
        let long = "x".repeat(LONGEST_LINE + 1);
        let lengths: Vec<_> = lines(&[(Stream::Stdout, &long)])
            .iter()
            .map(|line| line.matches('x').count())
            .collect();
        assert_eq!(lengths, [LONGEST_LINE, 1]);
        let endless = format!("{}\n", "y".repeat(1000)).repeat(20_000);
        let said = lines(&[(Stream::Stdout, &endless)]);
        assert!(said.len() < 17_000, "{}", said.len());
        assert!(said.last().unwrap().contains("left out"));
        let many = lines(&[(Stream::Stdout, &"z\n".repeat(60_000))]);
        assert_eq!(many.len(), MOST_OUTPUT.lines + 1);
        assert!(many.last().unwrap().contains("left out"));
    }
}
