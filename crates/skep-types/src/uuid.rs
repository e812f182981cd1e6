//! Ids that the contract wants as UUIDs.

use std::fmt;

use crate::random_bytes;

/// A UUID of version 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Uuid([u8; 16]);

impl Uuid {
    /// A new one that nobody can guess.
    pub(crate) fn random() -> Self {
        let mut bytes: [u8; 16] = random_bytes();
        // Version 4 and the variant of RFC 9562, for clients that look.
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }

    /// Reads the one spelling that we write, so that two texts are never one id.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        hex::decode_to_slice(text.replace('-', ""), &mut bytes).ok()?;
        Some(Self(bytes)).filter(|id| id.to_string() == text)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = hex::encode(self.0);
        let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &digits[range]);
        formatter.write_str(&groups.join("-"))
    }
}
