//! Failures of requests that change the phase of a sandbox, or what it may reach.

use crate::{HostResource, NotHere, Obstacle, Refused, Unsupported};

/// Failure to pause, resume, copy or change a sandbox, which is as it was.
#[derive(Debug, thiserror::Error)]
pub enum TransitionError {
    /// There is no such sandbox, or no longer.
    #[error(transparent)]
    NotHere(#[from] NotHere),
    /// The backend that holds it has no such ability.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// It is in a phase in which that is not possible.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The host has too little of this to let it run again. Waiting may help.
    #[error("not enough {0} to resume the sandbox")]
    NoRoom(HostResource),
    /// Its agent does not answer, so it was not paused in a way that needs it.
    #[error("the agent of the sandbox does not answer")]
    AgentSilent,
    /// Its agent did not answer when it was paused, nor does it now. It can be started anew on its
    /// files.
    #[error("the agent of the sandbox did not answer when it was paused")]
    AgentWasSilent,
    /// It holds what is in no image. It is as it was.
    #[error("the sandbox has {0}, which cannot be written")]
    Unwritable(Obstacle),
    /// The host did not do it this time.
    #[error("sandbox could not be changed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}
