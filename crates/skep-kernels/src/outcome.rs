//! One taxonomy of ends, beside the names that each language has.

use skep_jupyter::{Nature, Raised};

use crate::execution::Failure;
use crate::kernel::Exit;

/// R's messages when there is no memory left.
const R_MEMORY: [&str; 4] = [
    "cannot allocate vector of size",
    "cannot allocate memory block of size",
    "memory exhausted (limit reached?)",
    "vector memory limit of",
];

/// Classified result of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It ended without an exception.
    Ok,
    /// The code could not be parsed.
    Syntax,
    /// The code raised an exception.
    Runtime,
    /// A caller interrupted it.
    Interrupted,
    /// It took longer than it was allowed to.
    Timeout,
    /// There was no memory left, for it or for its kernel.
    OutOfMemory,
    /// The kernel ended by itself.
    KernelDied,
    /// There was no space left on the disk.
    DiskFull,
    /// A signal killed the kernel, or somebody restarted or removed the context.
    Killed,
}

impl Outcome {
    /// Classifies an exception.
    pub fn of_exception(raised: &Raised) -> Self {
        // ENOSPC and EDQUOT, as Python and Node.js write them.
        let no_space = ["[Errno 28]", "[Errno 122]", "ENOSPC:", "EDQUOT:"];
        match raised.nature {
            Nature::Syntax => Self::Syntax,
            Nature::Interrupted => Self::Interrupted,
            Nature::Runtime => match raised.name.as_str() {
                "MemoryError" | "_ArrayMemoryError" | "OutOfMemoryError" => Self::OutOfMemory,
                "RangeError" if raised.value == "Array buffer allocation failed" => {
                    Self::OutOfMemory
                }
                "OSError" | "Error"
                    if no_space.iter().any(|code| raised.value.starts_with(code)) =>
                {
                    Self::DiskFull
                }
                // R has one name for all errors, and these words where memory is short.
                "ERROR" if R_MEMORY.iter().any(|words| raised.value.contains(words)) => {
                    Self::OutOfMemory
                }
                "ERROR" if raised.value.contains("No space left on device") => Self::DiskFull,
                // Java has the words of the C library, mostly behind the name of a file.
                "IOException" | "FileSystemException"
                    if raised.value.ends_with("No space left on device")
                        || raised.value.ends_with("Disk quota exceeded") =>
                {
                    Self::DiskFull
                }
                _ => Self::Runtime,
            },
        }
    }

    /// Classifies a failure.
    pub fn of_failure(failure: &Failure) -> Self {
        match failure {
            Failure::Died(exit) => Self::of_exit(*exit),
            Failure::Restarted | Failure::Removed => Self::Killed,
            Failure::OverLimit { .. } => Self::Timeout,
            Failure::Interrupted { .. } => Self::Interrupted,
            Failure::NoMemory { .. } => Self::OutOfMemory,
            Failure::NoLimit => Self::Killed,
            Failure::NoKernel { .. } => Self::KernelDied,
        }
    }

    /// Classifies the exit of a kernel, for the code that was running in it.
    pub fn of_exit(exit: Exit) -> Self {
        const SIGKILL: i32 = 9;
        const SIGTERM: i32 = 15;
        match exit {
            Exit::OutOfMemory => Self::OutOfMemory,
            Exit::Signal(SIGKILL | SIGTERM) => Self::Killed,
            Exit::Code(_) | Exit::Signal(_) | Exit::Confused | Exit::Unknown => Self::KernelDied,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_that_mean_a_full_disk_or_memory_are_recognised() {
        for (name, value, outcome) in [
            ("MemoryError", "", Outcome::OutOfMemory),
            ("OutOfMemoryError", "Java heap space", Outcome::OutOfMemory),
            (
                "FileSystemException",
                "/tmp/x: No space left on device",
                Outcome::DiskFull,
            ),
            ("IOException", "Broken pipe", Outcome::Runtime),
            (
                "OSError",
                "[Errno 28] No space left on device",
                Outcome::DiskFull,
            ),
            (
                "Error",
                "ENOSPC: no space left on device, write",
                Outcome::DiskFull,
            ),
            (
                "RangeError",
                "Array buffer allocation failed",
                Outcome::OutOfMemory,
            ),
            ("RangeError", "Invalid array length", Outcome::Runtime),
            ("OSError", "[Errno 2] No such file", Outcome::Runtime),
            ("ValueError", "[Errno 28]", Outcome::Runtime),
            (
                "ERROR",
                "Error: cannot allocate vector of size 7450.6 Gb\n",
                Outcome::OutOfMemory,
            ),
            ("ERROR", "Error in f(): boom\n", Outcome::Runtime),
        ] {
            let raised = Raised {
                name: name.to_owned(),
                value: value.to_owned(),
                traceback: Vec::new(),
                nature: Nature::Runtime,
            };
            assert_eq!(Outcome::of_exception(&raised), outcome, "{name} {value}");
        }
    }

    #[test]
    fn a_segmentation_fault_is_a_death_and_a_kill_is_a_kill() {
        assert_eq!(Outcome::of_exit(Exit::Signal(11)), Outcome::KernelDied);
        assert_eq!(Outcome::of_exit(Exit::Signal(9)), Outcome::Killed);
        assert_eq!(Outcome::of_exit(Exit::Code(3)), Outcome::KernelDied);
        assert_eq!(Outcome::of_exit(Exit::OutOfMemory), Outcome::OutOfMemory);
    }
}
