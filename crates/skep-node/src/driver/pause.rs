//! Sandboxes that stand, and what is made of them meanwhile.
//!
//! A pause with memory freezes the sandbox, which takes milliseconds. One that stands for long is
//! written to an image, and then needs no memory and no place on the host. A backend that cannot
//! freeze writes the image at once, and so does a pause that keeps the files alone.
//!
//! An image is written down before the processes it was taken of are destroyed. So a server that
//! is killed at any moment leaves a sandbox that stands, an image, or both, and the next one
//! finds it paused.

use std::time::Duration;

use jiff::Timestamp;
use skep_isolation::{AfterCheckpoint, ChangeError, LaunchError, RestoreRequest, RestoreTarget};
use skep_telemetry::Chain;
use skep_types::{
    Capabilities, Capability, Checkpoint, Egress, Event, ExecutionId, HostResource, ImageKind,
    NotHere, SandboxStatus, TransitionError, Unsupported, Verdict,
};
use tokio::time::Instant;

use super::{Driver, Held};
use crate::admission::NoRoom;
use crate::clock::{Deadline, wall_now};

/// Time for which a frozen sandbox keeps its memory before it is written to an image.
const STORE_AFTER: Duration = Duration::from_secs(30);
/// Pause before an image is tried again that could not be written.
const STORE_AGAIN: Duration = Duration::from_mins(5);

/// Ways to pause a sandbox.
enum Way {
    Freeze,
    Image,
}

impl Way {
    fn of(kind: ImageKind, capabilities: Capabilities) -> Result<Self, Unsupported> {
        match kind {
            ImageKind::Memory if capabilities.has(Capability::Freeze) => Ok(Self::Freeze),
            ImageKind::Memory | ImageKind::Filesystem => {
                capabilities.need(Capability::Checkpoint)?;
                Ok(Self::Image)
            }
        }
    }
}

impl Driver {
    /// Pauses a sandbox that runs. Nobody can reach it from then on, and it has no deadline.
    pub(super) async fn pause(
        &mut self,
        held: &mut Held,
        kind: ImageKind,
    ) -> Result<SandboxStatus, TransitionError> {
        if self.verdict(Event::Pause)? == Verdict::Stay {
            return Ok(self.status.borrow().clone());
        }
        // Asked before anything changes: what cannot be done leaves no trace.
        let way = Way::of(kind, self.node.isolation.capabilities())?;
        let launched = held.launched.clone().ok_or(NotHere)?;
        // The route goes first: what arrives from now on is refused, or waits for a resume.
        self.close(held);
        self.enter(Event::Pause);
        let paused = match way {
            Way::Freeze => launched.freeze().await.map(|()| None),
            Way::Image => {
                let taken = launched.checkpoint(kind, AfterCheckpoint::Stand).await;
                taken.map(Some)
            }
        };
        let image = match paused {
            Ok(image) => image,
            Err(error) => {
                self.enter(Event::PauseFailed);
                self.open(held);
                return Err(change_error(error));
            }
        };
        held.record.is_frozen = true;
        self.publish_paused(kind, wall_now());
        match image {
            Some(image) => self.keep_image(held, image).await,
            None => {
                self.schedule_store(held, STORE_AFTER);
                self.journal_record(&held.record).await;
            }
        }
        Ok(self.status.borrow().clone())
    }

    /// Lets a paused sandbox go on for `lifetime`, as another run of it.
    pub(super) async fn resume(
        &mut self,
        held: &mut Held,
        lifetime: Duration,
    ) -> Result<SandboxStatus, TransitionError> {
        if self.verdict(Event::Resume)? == Verdict::Stay {
            return Ok(self.status.borrow().clone());
        }
        self.enter(Event::Resume);
        let execution = ExecutionId::random();
        if let Err(error) = self.wake(held, execution).await {
            self.enter(Event::ResumeFailed);
            return Err(error);
        }
        let started_at = wall_now();
        held.record.execution = execution;
        held.record.is_frozen = false;
        held.record.deadline = Deadline::counted_from(started_at, lifetime);
        held.store_at = None;
        let spent = held.record.image.take();
        self.enter_running(held, started_at);
        // Only what is written down to run again needs no image.
        self.journal_started(&held.record).await;
        self.forget_image(spent).await;
        Ok(self.status.borrow().clone())
    }

    async fn wake(
        &mut self,
        held: &mut Held,
        execution: ExecutionId,
    ) -> Result<(), TransitionError> {
        if let Some(launched) = &held.launched {
            return launched.thaw().await.map_err(change_error);
        }
        let image = held.record.image.clone().ok_or(NotHere)?;
        let id = self.status.borrow().id.clone();
        // It gave back what it had of the host, so it needs room as a new one does.
        let room = self.node.room_for(&id, self.resources).await;
        let reservation = room.map_err(|NoRoom(resource)| TransitionError::NoRoom(resource))?;
        let request = RestoreRequest {
            kind: image.kind,
            checkpoint: image,
            target: RestoreTarget::Same {
                id: id.clone(),
                execution,
                egress: held.record.egress,
            },
        };
        let restored = self.node.isolation.restore(request).await;
        let launched = restored.map_err(restore_error)?;
        self.promise = Some(self.node.admission.promise(&id, self.resources));
        drop(reservation);
        held.record.launch = Some(launched.record());
        held.launched = Some(launched);
        Ok(())
    }

    /// Writes a frozen sandbox to an image and lets go of its processes. One that cannot be
    /// written stands as it did.
    pub(super) async fn store(&mut self, held: &mut Held) {
        held.store_at = None;
        let Some(launched) = held.launched.clone() else {
            return;
        };
        let taken = launched.checkpoint(ImageKind::Memory, AfterCheckpoint::Stand);
        match taken.await {
            Ok(image) => self.keep_image(held, image).await,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "paused sandbox stays in memory: it cannot be checkpointed");
                self.schedule_store(held, STORE_AGAIN);
            }
        }
    }

    /// Takes a checkpoint of a sandbox that goes on.
    pub(super) async fn snapshot(
        &mut self,
        held: &mut Held,
        kind: ImageKind,
    ) -> Result<Checkpoint, TransitionError> {
        self.verdict(Event::Snapshot)?;
        self.node
            .isolation
            .capabilities()
            .need(Capability::Checkpoint)?;
        let launched = held.launched.clone().ok_or(NotHere)?;
        self.enter(Event::Snapshot);
        let taken = launched.checkpoint(kind, AfterCheckpoint::Continue).await;
        self.enter(Event::SnapshotDone);
        taken.map_err(change_error)
    }

    /// Changes what a sandbox may reach; one without a process has it when it is resumed.
    pub(super) async fn set_egress(
        &mut self,
        held: &mut Held,
        egress: Egress,
    ) -> Result<(), TransitionError> {
        self.node
            .isolation
            .capabilities()
            .need(Capability::EgressChange)?;
        if let Some(launched) = &held.launched {
            launched.set_egress(egress).await.map_err(change_error)?;
        }
        held.record.egress = egress;
        self.journal_record(&held.record).await;
        Ok(())
    }

    /// Takes over a sandbox that was paused by an earlier server.
    pub(super) async fn adopt_paused(&mut self, held: &mut Held, started_at: Timestamp) {
        // An earlier server may have been killed after the image and before the end of the
        // processes it was taken of. Then they stand, and are as good as the image.
        if let Some(launched) = &held.launched
            && let Err(error) = launched.freeze().await
        {
            tracing::warn!(error = %Chain(&error), "cannot tell whether a paused sandbox stands");
        }
        if held.launched.is_none() {
            held.record.launch = None;
            self.promise = None;
        }
        let (kind, paused_at) = {
            let status = self.status.borrow();
            let kind = held.record.image.as_ref().map(|image| image.kind);
            let kind = status.paused.or(kind).unwrap_or(ImageKind::Memory);
            (kind, status.ends_at)
        };
        self.status.send_modify(|status| {
            status.execution = held.record.execution;
            status.started_at = started_at;
        });
        self.enter(Event::AgentReady);
        self.enter(Event::Pause);
        self.publish_paused(kind, paused_at);
        self.schedule_store(held, STORE_AFTER);
    }

    /// Takes over a sandbox that runs.
    pub(super) async fn adopt_running(&mut self, held: &mut Held, started_at: Timestamp) {
        // An earlier server may have been killed in the middle of a pause that nobody was told of.
        if let Some(launched) = &held.launched
            && self.node.isolation.capabilities().has(Capability::Freeze)
            && let Err(error) = launched.thaw().await
        {
            tracing::warn!(error = %Chain(&error), "cannot tell whether a sandbox goes on");
        }
        self.enter_running(held, started_at);
    }

    /// Deletes the image of a sandbox that is gone, or that has another.
    pub(super) async fn forget_image(&self, image: Option<Checkpoint>) {
        if let Some(image) = image
            && let Err(error) = self.node.isolation.forget_checkpoint(image).await
        {
            tracing::warn!(%error, "cannot delete the image of a sandbox");
        }
    }

    async fn keep_image(&mut self, held: &mut Held, image: Checkpoint) {
        let old = held.record.image.replace(image);
        self.journal_record(&held.record).await;
        if let Some(launched) = held.launched.take() {
            launched.dispose().await;
        }
        held.record.launch = None;
        self.promise = None;
        self.journal_record(&held.record).await;
        self.forget_image(old).await;
    }

    fn publish_paused(&mut self, kind: ImageKind, at: Timestamp) {
        self.status.send_modify(|status| {
            status.paused = Some(kind);
            status.ends_at = at;
        });
        self.enter(Event::PauseDone);
    }

    fn schedule_store(&self, held: &mut Held, after: Duration) {
        let can_store = self
            .node
            .isolation
            .capabilities()
            .has(Capability::Checkpoint);
        held.store_at = (can_store && held.launched.is_some()).then(|| Instant::now() + after);
    }

    fn verdict(&self, event: Event) -> Result<Verdict, TransitionError> {
        Ok(self.status.borrow().phase.on(event)?)
    }
}

fn change_error(error: ChangeError) -> TransitionError {
    match error {
        ChangeError::Unsupported(unsupported) => unsupported.into(),
        error @ ChangeError::Failed { .. } => TransitionError::Failed(error.into()),
    }
}

fn restore_error(error: LaunchError) -> TransitionError {
    match error {
        LaunchError::Unsupported(unsupported) => unsupported.into(),
        LaunchError::NoRoom(_) => TransitionError::NoRoom(HostResource::Slots),
        error @ (LaunchError::Host { .. }
        | LaunchError::Step { .. }
        | LaunchError::AgentSilent(_)
        | LaunchError::AgentEnded(_)) => TransitionError::Failed(error.into()),
    }
}
