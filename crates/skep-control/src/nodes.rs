//! The port through which control uses the hosts that run sandboxes.

mod fake;

use std::fmt;
use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use skep_types::{
    Capabilities, Checkpoint, DeadlineMode, Egress, HostResource, ImageKind, ImagePurpose,
    KillError, LogEntry, LoggedRequest, NodeId, NotHere, PauseRequest, Placement, Resources,
    ResumeRequest, Resumed, RollBackRequest, SandboxId, SandboxKind, SandboxSpec, SandboxStatus,
    TransitionError, Usage,
};

pub use fake::FakeNodes;

use crate::InvalidMounts;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// The hosts that run sandboxes. A sandbox's id is enough to find its host.
///
/// Every question may go to another process or another host, so every answer is a future. One
/// that this process can answer is ready when it is first polled.
///
/// An implementation reports the start, every deadline and the end of each sandbox before the
/// call that caused it returns; control has written the order by then.
pub trait Nodes: fmt::Debug + Send + Sync {
    /// The host and the id for a new sandbox of this kind. Never the same id twice: it may be that
    /// of a spare.
    fn place<'a>(&'a self, kind: &'a SandboxKind) -> BoxFuture<'a, Placement>;

    /// Makes spares of this kind before anybody asks for one. Returns at once.
    fn warm(&self, kind: SandboxKind);

    /// Makes spares of a template that was just built, where its first sandbox would start slower than
    /// others. Returns at once.
    fn warm_built(&self, kind: SandboxKind);

    /// Abilities of a host beyond creating and ending sandboxes.
    fn capabilities<'a>(&'a self, node: &'a NodeId) -> BoxFuture<'a, Capabilities>;

    /// Takes room for a sandbox of this name, before anything is known or made of it. Held until
    /// [`Nodes::create`] has returned.
    ///
    /// # Errors
    ///
    /// [`NodeCreateError::NoRoom`]; nothing has changed.
    fn admit<'a>(
        &'a self,
        id: &'a SandboxId,
        resources: Resources,
    ) -> BoxFuture<'a, Result<Admitted, NodeCreateError>>;

    /// Starts a sandbox and returns when its agent is reachable through the proxy.
    ///
    /// A caller that goes away changes nothing: the sandbox comes up and lives its time.
    ///
    /// # Errors
    ///
    /// [`NodeCreateError`]; nothing of the sandbox is left.
    fn create(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxStatus, NodeCreateError>>;

    /// Ends a sandbox because somebody asked for it, and returns when nothing of it is left.
    ///
    /// # Errors
    ///
    /// [`KillError`].
    fn kill(&self, id: SandboxId) -> BoxFuture<'_, Result<(), KillError>>;

    /// Lets a sandbox live for `lifetime` from now and returns its new status. Zero ends it at
    /// once, for the reason that its time is over.
    ///
    /// # Errors
    ///
    /// [`NotHere`] if it is ending or gone.
    fn set_lifetime(
        &self,
        id: SandboxId,
        lifetime: Duration,
        mode: DeadlineMode,
    ) -> BoxFuture<'_, Result<SandboxStatus, NotHere>>;

    /// The last status a sandbox has published; `None` if it is gone or never was.
    fn status<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<SandboxStatus>>;

    /// Pauses a sandbox and returns when nobody can reach it. A caller that goes away changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`TransitionError`]; it runs on.
    fn pause(
        &self,
        id: SandboxId,
        request: PauseRequest,
    ) -> BoxFuture<'_, Result<SandboxStatus, TransitionError>>;

    /// Lets a paused sandbox go on and returns when its agent is reachable. One that runs lives at
    /// least as long as was asked for.
    ///
    /// # Errors
    ///
    /// [`TransitionError`]; it is paused as it was.
    fn resume(
        &self,
        id: SandboxId,
        request: ResumeRequest,
    ) -> BoxFuture<'_, Result<Resumed, TransitionError>>;

    /// Puts a sandbox back to a checkpoint.
    ///
    /// # Errors
    ///
    /// [`TransitionError`]; it is as it was, or paused as it was.
    fn roll_back(
        &self,
        id: SandboxId,
        request: RollBackRequest,
    ) -> BoxFuture<'_, Result<SandboxStatus, TransitionError>>;

    /// Takes a checkpoint of a sandbox, which goes on or is paused as it was. [`Nodes::create`] makes copies of it on the
    /// same host until [`Nodes::forget_checkpoint`].
    ///
    /// # Errors
    ///
    /// [`TransitionError`]; there is no image.
    fn snapshot(
        &self,
        id: SandboxId,
        kind: ImageKind,
        purpose: ImagePurpose,
    ) -> BoxFuture<'_, Result<Checkpoint, TransitionError>>;

    /// Deletes the image of a checkpoint, as far as that is possible.
    fn forget_checkpoint(&self, node: NodeId, checkpoint: Checkpoint) -> BoxFuture<'_, ()>;

    /// Changes what a sandbox may reach.
    ///
    /// # Errors
    ///
    /// [`TransitionError`]; the old rule holds.
    fn set_egress(
        &self,
        id: SandboxId,
        egress: Egress,
    ) -> BoxFuture<'_, Result<(), TransitionError>>;

    /// Resource usage of a sandbox since its start.
    ///
    /// # Errors
    ///
    /// [`NotHere`] if it is gone.
    fn usage(&self, id: SandboxId) -> BoxFuture<'_, Result<Usage, NotHere>>;

    /// Log of a sandbox, the oldest entry first: what its start and its processes wrote, never what
    /// the platform did. Empty if nothing is kept, also after its end.
    fn logs(&self, id: SandboxId) -> BoxFuture<'_, Vec<LogEntry>>;

    /// The last requests of a sandbox to hosts that it reaches by name, the oldest first. Empty if it
    /// does not run.
    fn requests(&self, id: SandboxId) -> BoxFuture<'_, Vec<LoggedRequest>>;

    /// The logs of ended sandboxes that are kept, and their sizes in bytes.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    fn kept_logs(&self) -> BoxFuture<'_, io::Result<Vec<(SandboxId, u64)>>>;

    /// Deletes the log of an ended sandbox, as far as that is possible.
    fn forget_log(&self, id: SandboxId) -> BoxFuture<'_, ()>;
}

/// Room for a sandbox on some host. Dropping it gives up what the sandbox has not taken.
pub type Admitted = Box<dyn fmt::Debug + Send + Sync>;

/// Failure to create a sandbox. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum NodeCreateError {
    /// No host has enough of this for another sandbox. Waiting may help.
    #[error("not enough {0} for another sandbox")]
    NoRoom(HostResource),
    /// It did not come up, and may if asked again.
    #[error("sandbox did not come up this time")]
    Failed(#[source] Source),
    /// It cannot come up, however often it is asked for.
    #[error("sandbox cannot come up")]
    Refused(#[source] Source),
    /// The start command of its template failed, or did not become ready. The words are for the caller, whose
    /// template it is.
    #[error("the template's start command did not make the sandbox ready: {0}")]
    StartCommand(String),
    /// A volume cannot be where it was asked for.
    #[error(transparent)]
    Mounts(#[from] InvalidMounts),
    /// The server is about to stop.
    #[error("server is stopping")]
    Stopping,
}
