//! The life of a sandbox, as a pure state machine.

use Event::{AgentReady, Exited, Kill, KillFailed, Pause, Resume};
use Phase::{Gone, Paused, Running, Starting, Stopping, Stuck};

/// Phase in the life of a sandbox.
///
/// ```text
/// Starting ──► Running ◄──► Paused
///     └───────────┼───────────┘   kill
///                 ▼
///             Stopping ──► Gone
///                 └► Stuck ──┘    what is left of it is tried again
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Being launched; its agent has not answered yet.
    Starting,
    /// Its agent answers, and callers can reach it.
    Running,
    /// Kept, but not running.
    Paused,
    /// Being killed and cleaned up.
    Stopping,
    /// Killed and out of reach, but something of it could not be removed yet: a process does not
    /// die, say. It keeps its place.
    Stuck,
    /// Ended; only its record is left.
    Gone,
}

/// An event in the life of a sandbox, or a request to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The agent answered for the first time.
    AgentReady,
    /// A caller asked for a pause.
    Pause,
    /// A caller asked to go on.
    Resume,
    /// A caller, or the deadline, asked for the end.
    Kill,
    /// Something of it could not be removed.
    KillFailed,
    /// Nothing of it is left.
    Exited,
}

/// Meaning of an event in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go to this phase and do what it takes.
    Enter(Phase),
    /// Already so; nothing to do.
    Stay,
}

/// The event makes no sense in this phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} is not possible while {phase:?}")]
pub struct Refused {
    /// Phase of the sandbox at that moment.
    pub phase: Phase,
    /// Event that does not fit.
    pub event: Event,
}

impl Phase {
    /// Says what `event` means in this phase, and does nothing about it.
    ///
    /// Asking twice is no error here; what a caller is told about it is the edge's business
    /// (the SDKs expect 409 for a second pause and 404 for a second kill).
    ///
    /// # Errors
    ///
    /// [`Refused`] if the event is impossible in this phase; nothing changes.
    pub fn on(self, event: Event) -> Result<Verdict, Refused> {
        match (self, event) {
            (Starting, AgentReady) | (Paused, Resume) => Ok(Verdict::Enter(Running)),
            (Running, Pause) => Ok(Verdict::Enter(Paused)),
            (Starting | Running | Paused, Kill) => Ok(Verdict::Enter(Stopping)),
            (Stopping, KillFailed) => Ok(Verdict::Enter(Stuck)),
            (Starting | Running | Paused | Stopping | Stuck, Exited) => Ok(Verdict::Enter(Gone)),
            (Running, AgentReady | Resume)
            | (Paused, Pause)
            | (Stopping | Stuck | Gone, Kill)
            | (Stuck, KillFailed)
            | (Gone, Exited) => Ok(Verdict::Stay),
            (Starting, Pause | Resume)
            | (Paused | Stopping | Stuck | Gone, AgentReady)
            | (Stopping | Stuck | Gone, Pause | Resume)
            | (Starting | Running | Paused | Gone, KillFailed) => {
                Err(Refused { phase: self, event })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(start: Phase, events: &[Event], end: Result<Phase, Refused>) {
        let walked = events.iter().try_fold(start, |phase, event| {
            phase.on(*event).map(|verdict| match verdict {
                Verdict::Enter(next) => next,
                Verdict::Stay => phase,
            })
        });
        assert_eq!(walked, end);
    }

    #[test]
    fn a_killed_sandbox_ends_gone_whatever_it_was_doing() {
        check(Starting, &[Kill, Exited], Ok(Gone));
        check(Running, &[Pause, Kill, Kill, Exited], Ok(Gone));
        check(Running, &[Exited, Kill, Exited], Ok(Gone));
    }

    #[test]
    fn a_sandbox_that_cannot_be_removed_is_stuck_until_it_is() {
        check(Running, &[Kill, KillFailed, Kill, KillFailed], Ok(Stuck));
        check(Running, &[Kill, KillFailed, Exited], Ok(Gone));
        let refused = Refused {
            phase: Stuck,
            event: Resume,
        };
        check(Stuck, &[Resume], Err(refused));
    }

    #[test]
    fn a_paused_sandbox_comes_back_and_a_dead_one_does_not() {
        check(
            Starting,
            &[AgentReady, Pause, Resume, AgentReady],
            Ok(Running),
        );
        check(
            Gone,
            &[Resume],
            Err(Refused {
                phase: Gone,
                event: Resume,
            }),
        );
        check(
            Running,
            &[Kill, Pause],
            Err(Refused {
                phase: Stopping,
                event: Pause,
            }),
        );
    }
}
