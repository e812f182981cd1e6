//! Values that must not reach a log.

use std::fmt;

/// A secret that prints as `[redacted]`, so that a `Debug` of something around it is safe.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Redacted<T>(T);

impl<T> Redacted<T> {
    /// Hides `value` from formatting.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself. The name makes each use visible in review.
    pub fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Redacted<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[redacted]")
    }
}
