//! The cgroup of a kernel, as the interpreter sees it.

use std::io;

use skep_agent::{Bytes, Cgroup};
use skep_kernels::{Meter, Moved, Usage};

/// Measures and limits whatever is in a cgroup.
#[derive(Debug)]
pub(super) struct CgroupMeter(pub(super) Cgroup);

impl Meter for CgroupMeter {
    fn usage(&self) -> Option<Usage> {
        let moved = |bytes: Bytes| Moved {
            read: bytes.read,
            written: bytes.written,
        };
        match self.0.usage() {
            Ok(usage) => Some(Usage {
                processor: usage.processor,
                memory: Some(usage.memory),
                peak_memory: Some(usage.peak_memory),
                storage: usage.storage.map(moved),
                files: usage.files.map(moved),
                out_of_memory_kills: Some(usage.out_of_memory_kills),
            }),
            Err(error) => {
                tracing::warn!(%error, "the counters of a kernel cannot be read");
                None
            }
        }
    }

    fn reset_peak(&self) {
        self.0.reset_peak();
    }

    fn is_sampled(&self) -> bool {
        self.0.is_sampled()
    }

    fn limit_memory(&self, limit: Option<u64>) -> io::Result<()> {
        self.0.limit_memory(limit)
    }

    fn kill(&self) {
        self.0.kill();
    }
}
