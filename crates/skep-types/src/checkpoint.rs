//! Sandboxes that are kept without running.

use std::fmt;
use std::str::FromStr;

/// The parts of a sandbox that a pause or a snapshot keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// Its processes with their memory, and its files.
    Memory,
    /// Its files alone: it starts anew on them.
    Filesystem,
}

impl ImageKind {
    /// All kinds, for tables and tests.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Filesystem];

    /// The stable name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Filesystem => "filesystem",
        }
    }
}

impl fmt::Display for ImageKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for ImageKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| format!("`{text}` is not a kind of image"))
    }
}

/// Purpose of an image of a sandbox that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImagePurpose {
    /// It is kept, and survives the host.
    Keep,
    /// The server that makes it makes copies of it at once and forgets it. It survives nothing.
    Copy,
}

/// A checkpoint of a sandbox, by which its backend finds the image again.
///
/// An image belongs to the host that took it. It may be restored any number of times until it is
/// forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The backend's own record of the image. Opaque to others; kept in the database as it is.
    pub record: String,
    /// The parts of the sandbox that are in it.
    pub kind: ImageKind,
    /// Space that it takes on the disk.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_from_its_name() {
        for kind in ImageKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
    }
}
