//! Pauses and resumes as they are asked for, and the end of a sandbox's time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{AccessToken, Checkpoint, ExecutionId, ImageKind, SandboxStatus, TemplateStart};

/// Fate of a sandbox when its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnTimeout {
    /// It ends.
    #[default]
    Kill,
    /// It is paused, and these parts of it are kept.
    Pause(ImageKind),
}

impl OnTimeout {
    /// All of them, for tables and tests.
    pub const ALL: [Self; 3] = [
        Self::Kill,
        Self::Pause(ImageKind::Memory),
        Self::Pause(ImageKind::Filesystem),
    ];

    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause(ImageKind::Memory) => "pause",
            Self::Pause(ImageKind::Filesystem) => "pause_filesystem",
        }
    }
}

impl fmt::Display for OnTimeout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for OnTimeout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|fate| fate.as_str() == text)
            .ok_or_else(|| format!("`{text}` is not a fate of sandboxes"))
    }
}

/// A request to pause a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PauseRequest {
    /// The parts of it that are kept.
    pub kind: ImageKind,
    /// True if one whose agent does not answer is to be left alone. It always is when only its
    /// files are kept: nobody could tell that they are complete.
    pub needs_agent: bool,
    /// The run that is to be paused. Another one is left alone: this one was paused already, and
    /// resumed meanwhile. `None` is whichever run there is.
    pub execution: Option<ExecutionId>,
}

/// A request to let a paused sandbox go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeRequest {
    /// Time to live from then on. One that runs already lives at least as long.
    pub lifetime: Duration,
    /// The parts of what was kept that are used.
    pub start: ResumeStart,
    /// Another fate when that time is over; `None` leaves it as it is.
    pub on_timeout: Option<OnTimeout>,
    /// Start command that is run again if it goes on without its memory.
    pub restart: Option<Box<Restart>>,
}

/// A request to put a sandbox back to a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollBackRequest {
    /// The checkpoint, which may be one of another sandbox.
    pub checkpoint: Checkpoint,
    /// Time to live of one that is paused. One that runs keeps its deadline.
    pub lifetime: Duration,
    /// Start command, which runs again if the checkpoint is one without memory.
    pub restart: Option<Box<Restart>>,
}

/// Start command of a template, for a sandbox whose processes are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// The commands.
    pub start: TemplateStart,
    /// Variables of the template. Its agent has them, with those of the owner above.
    pub env: Vec<(String, String)>,
    /// Token of its agent.
    pub access_token: Option<AccessToken>,
}

/// The parts of a paused sandbox with which it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResumeStart {
    /// All that was kept.
    #[default]
    AsPaused,
    /// Its files alone: it starts anew on them.
    Reboot,
}

/// A sandbox that runs after somebody asked for it to be resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumed {
    /// The sandbox as it is now.
    pub status: SandboxStatus,
    /// True if it ran already when its turn came.
    pub was_running: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fate_reads_back_from_its_name() {
        for fate in OnTimeout::ALL {
            assert_eq!(fate.as_str().parse(), Ok(fate));
        }
    }
}
