//! The forms in which a sandbox is kept while nothing of it runs, and what is in none of them.

use std::fmt;
use std::str::FromStr;

use crate::ImageKind;

/// The form in which a sandbox was kept, which decides what it lacks when it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeptIn {
    /// Its processes stand in the memory of the host.
    Memory,
    /// An image with its memory.
    Checkpoint,
    /// An image of its files alone.
    Files,
}

impl KeptIn {
    /// All of them, for tables and tests.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Checkpoint, Self::Files];

    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Checkpoint => "checkpoint",
            Self::Files => "files",
        }
    }

    /// Names of the parts of a sandbox that are not kept in this form.
    pub fn lost(self) -> &'static [&'static str] {
        match self {
            Self::Memory => &[],
            Self::Checkpoint => &["tcp_connections"],
            Self::Files => &["processes", "memory", "memory_files", "tcp_connections"],
        }
    }
}

impl From<ImageKind> for KeptIn {
    fn from(kind: ImageKind) -> Self {
        match kind {
            ImageKind::Memory => Self::Checkpoint,
            ImageKind::Filesystem => Self::Files,
        }
    }
}

impl FromStr for KeptIn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|form| form.as_str() == text)
            .ok_or_else(|| format!("`{text}` is no form in which sandboxes are kept"))
    }
}

/// A part of a sandbox that is in no image, so that the whole cannot be written to one as long as it
/// is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// A process under a debugger.
    Debugger,
    /// A POSIX message queue.
    MessageQueue,
    /// A watch of a file that is not found again.
    Watch,
    /// Open files that were deleted, with more in them than an image has room for.
    DeletedFile,
    /// An open file of somewhere else.
    ForeignFile,
    /// A program that has its controlling terminal open by name.
    Terminal,
    /// Kernels with more files of their groups than can be handed over.
    Kernels,
}

impl Obstacle {
    /// All of them, for tables and tests.
    pub const ALL: [Self; 7] = [
        Self::Debugger,
        Self::MessageQueue,
        Self::Watch,
        Self::DeletedFile,
        Self::ForeignFile,
        Self::Terminal,
        Self::Kernels,
    ];

    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debugger => "debugger",
            Self::MessageQueue => "message_queue",
            Self::Watch => "watch",
            Self::DeletedFile => "deleted_file",
            Self::ForeignFile => "foreign_file",
            Self::Terminal => "terminal",
            Self::Kernels => "too_many_kernels",
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.as_str() == name)
    }

    /// The part in words, for whoever owns the sandbox.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Debugger => "a process under a debugger",
            Self::MessageQueue => "a POSIX message queue",
            Self::Watch => "a watch (inotify) of a single file",
            Self::DeletedFile => "open files that were deleted, of more than 512 MiB",
            Self::ForeignFile => "an open file that is not the sandbox's own",
            Self::Terminal => "a program in a terminal that has `/dev/tty` open",
            Self::Kernels => "more kernels than can be written",
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.in_words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_reads_back_from_its_name() {
        for form in KeptIn::ALL {
            assert_eq!(form.as_str().parse(), Ok(form));
        }
    }

    #[test]
    fn only_what_stands_in_memory_lacks_nothing() {
        let whole = KeptIn::ALL
            .into_iter()
            .filter(|form| form.lost().is_empty());
        assert_eq!(whole.collect::<Vec<_>>(), [KeptIn::Memory]);
    }
}
