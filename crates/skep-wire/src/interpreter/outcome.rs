//! The classified result of an execution.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Result of an execution, classified in the same way for every language.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It ended without an exception.
    #[default]
    Ok,
    /// The code could not be parsed.
    Syntax,
    /// The code raised an exception.
    Runtime,
    /// A caller interrupted it.
    Interrupted,
    /// It took longer than it was allowed to.
    Timeout,
    /// There was no memory left, for it or for its kernel.
    OutOfMemory,
    /// The kernel ended by itself.
    KernelDied,
    /// There was no space left on the disk.
    DiskFull,
    /// A signal killed the kernel, or somebody restarted or removed the context.
    Killed,
    /// One that this client does not know: newer servers may say more.
    Unknown,
}

impl Outcome {
    const NAMED: [Self; 9] = [
        Self::Ok,
        Self::Syntax,
        Self::Runtime,
        Self::Interrupted,
        Self::Timeout,
        Self::OutOfMemory,
        Self::KernelDied,
        Self::DiskFull,
        Self::Killed,
    ];

    /// The name on the wire, which never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Syntax => "syntax",
            Self::Runtime => "runtime",
            Self::Interrupted => "interrupted",
            Self::Timeout => "timeout",
            Self::OutOfMemory => "out_of_memory",
            Self::KernelDied => "kernel_died",
            Self::DiskFull => "disk_full",
            Self::Killed => "killed",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = Self::NAMED
            .into_iter()
            .find(|outcome| outcome.name() == name);
        Ok(known.unwrap_or(Self::Unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_new_ones_are_no_error() {
        for outcome in Outcome::NAMED {
            let text = serde_json::to_string(&outcome).unwrap();
            assert_eq!(text, format!("\"{}\"", outcome.name()));
            assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
        }
        assert_eq!(
            serde_json::from_str::<Outcome>("\"quota\"").unwrap(),
            Outcome::Unknown
        );
    }
}
