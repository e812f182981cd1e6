//! Volumes in a sandbox.

/// A volume that is shown inside a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Name of the volume. The host knows where it is.
    pub volume: String,
    /// Absolute path at which it is shown.
    pub target: String,
    /// True if the sandbox may not write to it.
    pub read_only: bool,
}
