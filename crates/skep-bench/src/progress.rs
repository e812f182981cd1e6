//! Progress display of the bench.

/// Somebody who shows how far the bench is.
pub trait Progress {
    /// Something of so many steps begins.
    fn begin(&self, what: &str, steps: u64);
    /// A step is done.
    fn step(&self);
    /// Tells the current activity, when steps take long.
    fn say(&self, line: &str);
    /// Everything is done, or has failed.
    fn end(&self);
}
