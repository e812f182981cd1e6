//! The life of a sandbox, as a pure state machine.

use Event::{
    AgentReady, Exited, Kill, KillFailed, Pause, PauseDone, PauseFailed, Resume, ResumeFailed,
    Snapshot, SnapshotDone,
};
use Phase::{Gone, Paused, Pausing, Resuming, Running, Snapshotting, Starting, Stopping, Stuck};

/// Phase in the life of a sandbox.
///
/// ```text
///                Snapshotting
///                    ▲ ▼
///  Starting ──────► Running ──► Pausing ──► Paused
///                    ▲ ▲───────────┘ failed  │ ▲
///                    └────── Resuming ◄──────┘ │
///                               └──────────────┘ failed
///
///  each of them ── kill ──► Stopping ──► Gone
///                              └► Stuck ──┘    what is left of it is tried again
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Being launched; its agent has not answered yet.
    Starting,
    /// Its agent answers, and callers can reach it.
    Running,
    /// Runs, while a checkpoint is taken of it.
    Snapshotting,
    /// Out of reach, and being frozen or checkpointed.
    Pausing,
    /// Kept, but not running: its processes stand, or there are none.
    Paused,
    /// Being thawed or restored; its agent has not answered yet.
    Resuming,
    /// Being killed and cleaned up.
    Stopping,
    /// Killed and out of reach, but something of it could not be removed yet: a process does not
    /// die, say. It still counts for its team and on its host.
    Stuck,
    /// Ended; only its row in the database is left.
    Gone,
}

/// An event in the life of a sandbox, or a request to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The agent answered for the first time, or again after a resume.
    AgentReady,
    /// A caller asked for a pause.
    Pause,
    /// It is frozen or checkpointed.
    PauseDone,
    /// It could not be frozen or checkpointed, and goes on.
    PauseFailed,
    /// A caller asked to go on.
    Resume,
    /// It could not be thawed or restored, and stays as it was.
    ResumeFailed,
    /// A caller asked for a checkpoint of it as it runs.
    Snapshot,
    /// The checkpoint was taken, or was not to be had. It goes on either way.
    SnapshotDone,
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

/// State of a sandbox as callers see it. They know two, and nothing in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShownState {
    /// It can be reached.
    Running,
    /// It can be resumed.
    Paused,
}

impl Phase {
    /// Returns the state that callers are shown; `None` if they are shown no such sandbox.
    pub fn shown(self) -> Option<ShownState> {
        match self {
            Running | Snapshotting => Some(ShownState::Running),
            Pausing | Paused | Resuming => Some(ShownState::Paused),
            Starting | Stopping | Stuck | Gone => None,
        }
    }

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
            (Starting | Resuming, AgentReady)
            | (Pausing, PauseFailed)
            | (Snapshotting, SnapshotDone) => Ok(Verdict::Enter(Running)),
            (Running, Snapshot) => Ok(Verdict::Enter(Snapshotting)),
            (Running, Pause) => Ok(Verdict::Enter(Pausing)),
            (Pausing, PauseDone) | (Resuming, ResumeFailed) => Ok(Verdict::Enter(Paused)),
            (Paused, Resume) => Ok(Verdict::Enter(Resuming)),
            (Starting | Running | Snapshotting | Pausing | Paused | Resuming, Kill) => {
                Ok(Verdict::Enter(Stopping))
            }
            (Stopping, KillFailed) => Ok(Verdict::Enter(Stuck)),
            (
                Starting | Running | Snapshotting | Pausing | Paused | Resuming | Stopping | Stuck,
                Exited,
            ) => Ok(Verdict::Enter(Gone)),
            (Running, AgentReady | Resume)
            | (Pausing | Paused, Pause)
            | (Resuming, Resume)
            | (Stopping | Stuck | Gone, Kill)
            | (Stuck, KillFailed)
            | (Gone, Exited) => Ok(Verdict::Stay),
            (Snapshotting | Pausing | Paused | Stopping | Stuck | Gone, AgentReady)
            | (Starting | Snapshotting | Resuming | Stopping | Stuck | Gone, Pause)
            | (Starting | Snapshotting | Pausing | Stopping | Stuck | Gone, Resume)
            | (
                Starting | Snapshotting | Pausing | Paused | Resuming | Stopping | Stuck | Gone,
                Snapshot,
            )
            | (
                Starting | Running | Snapshotting | Paused | Resuming | Stopping | Stuck | Gone,
                PauseDone | PauseFailed,
            )
            | (
                Starting | Running | Snapshotting | Pausing | Paused | Stopping | Stuck | Gone,
                ResumeFailed,
            )
            | (
                Starting | Running | Pausing | Paused | Resuming | Stopping | Stuck | Gone,
                SnapshotDone,
            )
            | (
                Starting | Running | Snapshotting | Pausing | Paused | Resuming | Gone,
                KillFailed,
            ) => Err(Refused { phase: self, event }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: [Phase; 9] = [
        Starting,
        Running,
        Snapshotting,
        Pausing,
        Paused,
        Resuming,
        Stopping,
        Stuck,
        Gone,
    ];
    const EVENTS: [Event; 11] = [
        AgentReady,
        Pause,
        PauseDone,
        PauseFailed,
        Resume,
        ResumeFailed,
        Snapshot,
        SnapshotDone,
        Kill,
        KillFailed,
        Exited,
    ];

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

    fn refused(phase: Phase, event: Event) -> Result<Phase, Refused> {
        Err(Refused { phase, event })
    }

    #[test]
    fn a_killed_sandbox_ends_gone_whatever_it_was_doing() {
        for phase in PHASES {
            check(phase, &[Kill, Exited], Ok(Gone));
            check(phase, &[Exited, Kill, Exited], Ok(Gone));
        }
    }

    #[test]
    fn from_every_phase_that_can_be_entered_there_is_a_way_to_the_end() {
        for phase in PHASES {
            for event in EVENTS {
                if let Ok(Verdict::Enter(next)) = phase.on(event) {
                    check(next, &[Kill, Exited], Ok(Gone));
                }
            }
        }
    }

    #[test]
    fn a_sandbox_that_cannot_be_removed_is_stuck_until_it_is() {
        check(Running, &[Kill, KillFailed, Kill, KillFailed], Ok(Stuck));
        check(Running, &[Kill, KillFailed, Exited], Ok(Gone));
        check(Stuck, &[Resume], refused(Stuck, Resume));
    }

    #[test]
    fn a_paused_sandbox_comes_back_and_a_dead_one_does_not() {
        let there_and_back = [AgentReady, Pause, PauseDone, Resume, AgentReady, AgentReady];
        check(Starting, &there_and_back, Ok(Running));
        check(Gone, &[Resume], refused(Gone, Resume));
        check(Running, &[Kill, Pause], refused(Stopping, Pause));
    }

    #[test]
    fn a_pause_or_resume_that_fails_changes_nothing() {
        check(Running, &[Pause, PauseFailed], Ok(Running));
        check(Paused, &[Resume, ResumeFailed], Ok(Paused));
    }

    #[test]
    fn one_checkpoint_is_taken_at_a_time_and_only_of_what_runs() {
        check(Running, &[Snapshot, SnapshotDone], Ok(Running));
        check(
            Running,
            &[Snapshot, Snapshot],
            refused(Snapshotting, Snapshot),
        );
        check(Paused, &[Snapshot], refused(Paused, Snapshot));
    }

    #[test]
    fn callers_see_two_states() {
        assert_eq!(Snapshotting.shown(), Some(ShownState::Running));
        for phase in [Pausing, Paused, Resuming] {
            assert_eq!(phase.shown(), Some(ShownState::Paused));
        }
        for phase in [Starting, Stopping, Stuck, Gone] {
            assert_eq!(phase.shown(), None);
        }
    }
}
