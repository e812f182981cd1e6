//! A note from one edge to another about a caller.

/// Marks an answer to a caller whose key was right, for the proxy, which keeps the
/// connection of such a caller when it has no room for unknown ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authenticated;
