//! Layout of a sandbox's log: the memory that its agent writes and the server reads.
//!
//! It is of one size, which nobody can change, and has two halves that are used in turn. A half
//! starts with a header and goes on with lines, each a [`LogEntry`] as JSON. When a half is full, the other one is started over, so at least half of what fits is
//! kept.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The size of the memory.
pub const BYTES: usize = 1 << 20;
/// The size of each half.
pub const HALF: usize = BYTES / 2;
/// Offset at which the lines of a half start.
pub const HEADER: usize = 16;
/// No line is longer, its end included.
pub const LONGEST_LINE: usize = 32 << 10;

/// Severity of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Detail that helps to find a fault.
    Debug,
    /// Normal course of events.
    Info,
    /// Unexpected event that was handled.
    Warn,
    /// Failure of something that was asked for.
    Error,
}

/// One entry in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Time of the event.
    pub timestamp: Timestamp,
    /// Text for people.
    pub message: String,
    /// Severity of the event.
    pub level: LogLevel,
    /// Further data about the event, by name.
    pub fields: BTreeMap<String, String>,
}

/// Header of a half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Counts how often a half was started. Zero: this one never was.
    pub turn: u64,
    /// Number of bytes of lines that follow.
    pub length: u64,
}

impl Header {
    /// Returns the header as it is written.
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.turn.to_le_bytes());
        bytes[8..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; HEADER]) -> Self {
        let [turn, length] = [&bytes[..8], &bytes[8..]]
            .map(|part| u64::from_le_bytes(part.try_into().expect("a half of sixteen is eight")));
        Self { turn, length }
    }
}

/// The lines in `memory`, the oldest first. Whatever was written there, by whomever.
pub fn lines(memory: &[u8]) -> Vec<&[u8]> {
    let mut halves: Vec<_> = memory.chunks(HALF).filter_map(read_half).collect();
    halves.sort_by_key(|(turn, _)| *turn);
    let lines = halves
        .into_iter()
        .flat_map(|(_, text)| text.split(|byte| *byte == b'\n'));
    lines.filter(|line| !line.is_empty()).collect()
}

fn read_half(half: &[u8]) -> Option<(u64, &[u8])> {
    let (header, text) = half.split_first_chunk::<HEADER>()?;
    let header = Header::from_bytes(*header);
    let length = usize::try_from(header.length).ok()?;
    (header.turn > 0).then_some((header.turn, text.get(..length)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(memory: &mut [u8], half: usize, turn: u64, text: &[u8]) {
        let length = u64::try_from(text.len()).unwrap();
        let start = half * HALF;
        let header = Header { turn, length }.to_bytes();
        memory[start..start + HEADER].copy_from_slice(&header);
        memory[start + HEADER..][..text.len()].copy_from_slice(text);
    }

    #[test]
    fn halves_are_read_in_the_order_of_their_turns() {
        let mut memory = vec![0; BYTES];
        assert!(lines(&memory).is_empty());
        write(&mut memory, 0, 3, b"three\n");
        write(&mut memory, 1, 2, b"one\ntwo\n");
        assert_eq!(lines(&memory), [&b"one"[..], b"two", b"three"]);
    }

    #[test]
    fn a_header_that_promises_more_than_there_is_hides_only_its_half() {
        let mut memory = vec![0; BYTES];
        write(&mut memory, 0, 1, b"one\n");
        let lie = Header {
            turn: 2,
            length: u64::MAX,
        };
        memory[HALF..HALF + HEADER].copy_from_slice(&lie.to_bytes());
        assert_eq!(lines(&memory), [&b"one"[..]]);
        assert!(lines(&memory[..HALF / 2]).len() <= 1);
        assert!(lines(&[0; 3]).is_empty());
    }
}
