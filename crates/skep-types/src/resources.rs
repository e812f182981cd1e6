//! Resource limits of a sandbox.

/// The limits of one sandbox. They come from the template, bounded by the configuration, and
/// are in force before the first untrusted instruction runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Processor time per wall time.
    pub cpus: u32,
    /// Memory of everything in the sandbox, page cache included, in MiB.
    pub memory_mib: u32,
    /// Space that the sandbox may add to its template's files, in MiB.
    pub disk_mib: u32,
    /// Processes and threads together.
    pub pids: u32,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            cpus: 2,
            memory_mib: 1024,
            disk_mib: 10 * 1024,
            pids: 1024,
        }
    }
}
