//! How far the bench is, for a person who waits.

/// Somebody who shows how far the bench is.
pub trait Progress {
    /// Something of so many steps begins.
    fn begin(&self, what: &str, steps: u64);
    /// A step is done.
    fn step(&self);
    /// What is being done, when steps take long.
    fn say(&self, line: &str);
    /// Everything is done, or has failed.
    fn end(&self);
}
