//! Entry points to the readers of `/files`.

use super::range::{self, Wanted};
use super::{content, metadata};

/// Meaning of a `Range` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The whole file.
    Whole,
    /// The bytes from the first to before the last.
    Between(u64, u64),
    /// No part of the file: the range cannot be satisfied.
    Nothing,
}

/// Interprets a `Range` header for a file of this size.
pub fn wanted(header: Option<&str>, size: u64) -> Part {
    match range::wanted(header, size) {
        Wanted::Whole => Part::Whole,
        Wanted::Part { start, end } => Part::Between(start, end),
        Wanted::Unsatisfiable => Part::Nothing,
    }
}

/// `Content-Disposition` for a name.
pub fn disposition(name: &str) -> String {
    content::disposition(name)
}

/// `Content-Type` for a name and the first bytes.
pub fn media_type(name: &str, head: &[u8]) -> String {
    content::media_type(name, head)
}

/// Returns the number of metadata pairs in these headers; `None` if they are refused.
pub fn metadata_pairs(headers: &http::HeaderMap) -> Option<usize> {
    metadata::from_headers(headers)
        .ok()
        .map(|pairs| pairs.len())
}
