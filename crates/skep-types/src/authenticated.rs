//! Notes from one edge to another about a caller.

use std::time::Instant;

/// Marks an answer to a caller whose key was right, for the proxy, which keeps the
/// connection of such a caller when it has no room for unknown ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authenticated;

/// Earliest moment at which the client of a request can have sent it: when its connection was made if
/// it is the first on that, else when it came.
///
/// A request that arrives after something has happened and may have been sent before that is as
/// good as one that arrives at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentAfter(pub Instant);
