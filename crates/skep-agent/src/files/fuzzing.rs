//! Doors to the readers of `/files`.

use super::range::{self, Wanted};
use super::{content, metadata};

/// What a `Range` header comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The whole file.
    Whole,
    /// From the first to before the last.
    Between(u64, u64),
    /// Nothing.
    Nothing,
}

/// What a `Range` header asks of a file of this size.
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

/// How many pairs of metadata these headers hold; `None` if they are refused.
pub fn metadata_pairs(headers: &http::HeaderMap) -> Option<usize> {
    metadata::from_headers(headers)
        .ok()
        .map(|pairs| pairs.len())
}
