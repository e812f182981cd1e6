//! Entries in a piece of memory whose size nobody can change.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use skep_agent_protocol::log::{HALF, HEADER, Header, LONGEST_LINE};
use skep_agent_protocol::log::{LogEntry, LogLevel};

/// The writing end; see [`skep_agent_protocol::log`] for the layout.
#[derive(Debug)]
pub(super) struct Ring {
    memory: File,
    /// Index of the half that is written now.
    half: usize,
    turn: u64,
    length: usize,
    /// Number of entries in each half.
    entries: [u64; 2],
    /// Number of entries that were overwritten.
    lost: u64,
}

impl Ring {
    pub(super) fn new(memory: OwnedFd) -> io::Result<Self> {
        let mut ring = Self {
            memory: memory.into(),
            half: 1,
            turn: 0,
            length: 0,
            entries: [0; 2],
            lost: 0,
        };
        ring.turn_over()?;
        Ok(ring)
    }

    /// Adds an entry. One that is too long or cannot be written is left out: there is nobody
    /// else to tell.
    pub(super) fn append(&mut self, entry: &LogEntry) {
        if let Err(error) = self.try_append(entry) {
            tracing::debug!(%error, "entry was not kept");
        }
    }

    fn try_append(&mut self, entry: &LogEntry) -> io::Result<()> {
        let line = line(entry)?;
        if HEADER + self.length + line.len() > HALF {
            self.turn_over()?;
            let lost = self.lost.to_string();
            let note = super::entry(
                LogLevel::Warn,
                "earlier entries are no longer kept",
                &[("entries", lost)],
            );
            let note = self::line(&note)?;
            if self.lost > 0 {
                self.write(&note)?;
            }
        }
        self.write(&line)
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let start = self.half * HALF + HEADER + self.length;
        self.memory.write_all_at(line, offset(start))?;
        self.length += line.len();
        self.entries[self.half] += 1;
        // After the line, so that a reader never sees half of it.
        self.write_header()
    }

    /// Goes on in the other half, from its start.
    fn turn_over(&mut self) -> io::Result<()> {
        self.half = 1 - self.half;
        self.lost += std::mem::take(&mut self.entries[self.half]);
        self.turn += 1;
        self.length = 0;
        self.write_header()
    }

    fn write_header(&self) -> io::Result<()> {
        let header = Header {
            turn: self.turn,
            length: offset(self.length),
        };
        let start = self.half * HALF;
        self.memory.write_all_at(&header.to_bytes(), offset(start))
    }
}

fn line(entry: &LogEntry) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    if line.len() > LONGEST_LINE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(line)
}

fn offset(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("an address has at most 64 bits")
}

#[cfg(test)]
mod tests {
    use skep_agent_protocol::log::{BYTES, lines};

    use super::*;

    #[test]
    fn the_newest_half_at_least_is_kept_and_the_loss_is_told() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(offset(BYTES)).unwrap();
        let mut ring = Ring::new(file.try_clone().unwrap().into()).unwrap();
        let total = 20_000;
        for number in 0..total {
            let entry = crate::sandbox::log::entry(LogLevel::Info, &format!("entry {number}"), &[]);
            ring.append(&entry);
        }
        assert_eq!(file.metadata().unwrap().len(), offset(BYTES));
        let mut memory = vec![0; BYTES];
        file.read_exact_at(&mut memory, 0).unwrap();
        let entries: Vec<LogEntry> = lines(&memory)
            .into_iter()
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        let lost = |entry: &&LogEntry| entry.message.starts_with("earlier");
        let told = entries.iter().rfind(lost).unwrap();
        let numbers: Vec<u64> = entries
            .iter()
            .filter_map(|entry| entry.message.strip_prefix("entry ")?.parse().ok())
            .collect();
        assert!(numbers.is_sorted());
        assert_eq!(numbers.last(), Some(&(total - 1)));
        assert!(numbers.len() > 2000, "{}", numbers.len());
        let missing: u64 = told.fields["entries"].parse().unwrap();
        // What it counts are entries, and the notes about entries are some.
        assert!(missing >= numbers[0], "{missing} of {}", numbers[0]);
    }
}
