//! Sandboxes that stand.
//!
//! A pause with memory freezes the sandbox, which takes milliseconds. One that stands for long, or
//! while the host is short of memory, is written to an image, and then needs no memory and no
//! place on the host. A backend that cannot freeze writes the image at once, and so does a pause
//! that keeps the files alone.
//!
//! An image is written down before the processes it was taken of are destroyed, so that it is found
//! even after a loss of power. So a server that is killed at any moment leaves a sandbox that stands,
//! an image, or both, and the next one finds it paused.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use skep_isolation::{AfterCheckpoint, ChangeError};
use skep_telemetry::Chain;
use skep_types::{
    Capabilities, Capability, Checkpoint, Event, HostResource, ImageKind, KeptIn, NotHere,
    PauseRequest, SandboxStatus, Sleeper, TransitionError, Unsupported, Verdict,
};
use tokio::time::Instant;

use super::{Driver, Held};
use crate::clock::wall_now;
use crate::journal::Noted;
use crate::record::DriverRecord;

/// Pause before an image is tried again that could not be written.
const STORE_AGAIN: Duration = Duration::from_mins(5);

/// Pause before an image is compressed that was due while another one was.
const COMPRESS_AGAIN: Duration = Duration::from_secs(20);

/// Delay of a pause at the deadline that was not to be had. The sandbox runs on meanwhile: whoever
/// asked for a pause did not ask for its end.
const PAUSE_AGAIN: Duration = Duration::from_secs(10);

/// Time after which the memory of a frozen sandbox is paged out: one that is resumed soon has it where it
/// was.
const PAGE_OUT_AFTER: Duration = Duration::from_secs(5);

/// Time to an image that makes it worth it: all that was paged out comes back to be written.
const PAGED_OUT_FOR: Duration = Duration::from_mins(2);

/// Decides whether the memory of a frozen sandbox is paged out that is written to an image after a while,
/// or never.
fn is_worth_paging_out(stored_after: Option<Duration>) -> bool {
    stored_after.is_none_or(|after| after >= PAGED_OUT_FOR)
}

/// Begins to page out the memory of a frozen sandbox. Nobody waits for it: it ends by itself when the sandbox
/// goes on.
fn page_out(held: &Held) {
    let Some(launched) = held.launched.clone() else {
        return;
    };
    let paging = async move {
        match launched.page_out().await {
            Ok(bytes) => tracing::debug!(bytes, "memory of a paused sandbox was paged out"),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "memory of a paused sandbox stays where it is");
            }
        }
    };
    drop(skep_telemetry::spawn("page out", paging));
}

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
                capabilities.need(Capability::of_image(kind))?;
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
        request: PauseRequest,
    ) -> Result<SandboxStatus, TransitionError> {
        let of_another_run =
            (request.execution).is_some_and(|asked| asked != held.record.execution);
        if of_another_run || self.verdict(Event::Pause)? == Verdict::Stay {
            return Ok(self.status.borrow().clone());
        }
        let kind = request.kind;
        // Asked before anything changes: what cannot be done leaves no trace.
        let way = Way::of(kind, self.node.isolation.capabilities())?;
        let launched = held.launched.clone().ok_or(NotHere)?;
        let answers = self.node.agents.answers(launched.address()).await;
        if !answers && (request.needs_agent || kind == ImageKind::Filesystem) {
            return Err(TransitionError::AgentSilent);
        }
        // The route goes first: what arrives from now on is refused, or waits for a resume. What is open
        // is cut when the sandbox stands, which may fail.
        self.fall_asleep(held, kind);
        self.hide();
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
                self.unhide(held);
                return Err(change_error(error));
            }
        };
        held.record.agent_was_silent = !answers;
        let at = wall_now();
        match image {
            Some(image) => {
                if let Err(error) = self.keep_image(held, image, at).await {
                    self.undo_pause(held).await;
                    return Err(error);
                }
                self.publish_paused(held, kind, at);
            }
            None => {
                held.ended.cancel();
                held.record.is_frozen = true;
                self.publish_paused(held, kind, at);
                self.schedule_store(held, self.node.pauses.checkpoint_after);
                self.journal_record(&held.record).await;
            }
        }
        self.node.metrics.paused.add_one();
        Ok(self.status.borrow().clone())
    }

    /// Lets a sandbox go on that stands for a pause which is not to be.
    pub(super) async fn undo_pause(&mut self, held: &mut Held) {
        held.record.agent_was_silent = false;
        let Some(launched) = held.launched.clone() else {
            return;
        };
        match self.wake_restored(&launched).await {
            Ok(()) => {
                self.enter(Event::PauseFailed);
                self.unhide(held);
            }
            Err(error) => {
                tracing::error!(error = %Chain(&error), "cannot resume sandbox after a failed pause, it stays paused");
                held.ended.cancel();
                self.stand(held, wall_now()).await;
                self.enter(Event::PauseDone);
            }
        }
    }

    /// Takes note of a sandbox whose processes stand because they do not go on. It is paused, with
    /// all that it has.
    pub(super) async fn stand(&mut self, held: &mut Held, at: Timestamp) {
        held.record.is_frozen = true;
        self.show_paused(held, ImageKind::Memory, at);
        self.schedule_store(held, self.node.pauses.checkpoint_after);
        self.journal_record(&held.record).await;
    }

    /// Pauses a sandbox whose time is over. One that cannot be paused now runs on, and is tried
    /// again.
    pub(super) async fn pause_at_deadline(&mut self, held: &mut Held, kind: ImageKind) {
        let request = PauseRequest {
            kind,
            needs_agent: false,
            execution: Some(held.record.execution),
        };
        let mut paused = self.pause(held, request).await;
        if let Err(TransitionError::AgentSilent) = paused {
            // Code in it may keep its agent from answering, and would run for ever. Frozen it does
            // not, and its files can still be had.
            let kind = ImageKind::Memory;
            paused = self.pause(held, PauseRequest { kind, ..request }).await;
        }
        let Err(error) = paused else {
            tracing::debug!("paused at its deadline");
            return;
        };
        if held.retry_at.is_none() {
            tracing::warn!(error = %Chain(&error), "sandbox runs beyond its deadline: it cannot be paused");
        }
        held.retry_at = Some(Instant::now() + PAUSE_AGAIN);
    }

    /// Does what is due for a paused sandbox: it goes to an image, and that is compressed later.
    pub(super) async fn settle(&mut self, held: &mut Held) {
        if held.page_out_at.is_some_and(|at| at <= Instant::now()) {
            held.page_out_at = None;
            return page_out(held);
        }
        if held.store_at.is_some() {
            return self.store(held).await;
        }
        held.compress_at = None;
        let Some(image) = held.record.image.clone() else {
            return;
        };
        // One at a time, and none waits for its turn here: whoever is resumed meanwhile would wait, too.
        let Ok(_turn) = self.node.compressing.try_acquire() else {
            held.compress_at = Some(Instant::now() + COMPRESS_AGAIN);
            return;
        };
        match self.node.isolation.compress_checkpoint(image).await {
            Ok(()) => self.node.metrics.compressed.add_one(),
            Err(error) => {
                tracing::warn!(%error, "image of a paused sandbox stays as large as it is")
            }
        }
    }

    /// Writes a frozen sandbox to an image and lets go of its processes. One that cannot be
    /// written stands as it did.
    pub(super) async fn store(&mut self, held: &mut Held) {
        held.store_at = None;
        held.page_out_at = None;
        let Some(launched) = held.launched.clone() else {
            return;
        };
        let taken = launched.checkpoint(ImageKind::Memory, AfterCheckpoint::Stand);
        match taken.await {
            Ok(image) => {
                let paused_at = self.status.borrow().ends_at;
                match self.keep_image(held, image, paused_at).await {
                    Ok(()) => self.node.metrics.stored.add_one(),
                    Err(error) => {
                        tracing::warn!(error = %Chain(&error), "paused sandbox stays in memory: its image is not certain to last");
                        self.schedule_store(held, STORE_AGAIN);
                    }
                }
            }
            Err(error) => {
                self.node.metrics.store_failed(&error);
                if self.is_rescued(held, &error).await {
                    return;
                }
                tracing::warn!(error = %Chain(&error), "paused sandbox stays in memory: it cannot be checkpointed");
                held.is_hard_to_store = true;
                self.publish_obstacle(&error);
                self.schedule_store(held, STORE_AGAIN);
            }
        }
    }

    /// Keeps the files of a paused sandbox whose processes are lost: to be paused without its memory is less than
    /// was promised, to be gone would be worse. Returns false if there is nothing to be rescued, or if that
    /// fails.
    pub(super) async fn is_rescued(&mut self, held: &mut Held, error: &ChangeError) -> bool {
        let ChangeError::Damaged { .. } = error else {
            return false;
        };
        match self.keep_files(held).await {
            Ok(()) => {
                tracing::error!(error = %Chain(error), "a paused sandbox has lost its memory and keeps its files");
                true
            }
            Err(error) => {
                tracing::error!(error = %Chain(&error), "a paused sandbox has lost its processes, and its files cannot be kept");
                false
            }
        }
    }

    /// Deletes the image of a sandbox that is gone, or that has another.
    pub(super) async fn forget_image(&self, image: Option<Checkpoint>) {
        if let Some(image) = image
            && let Err(error) = self.node.isolation.forget_checkpoint(image).await
        {
            tracing::warn!(%error, "cannot delete the image of a sandbox");
        }
    }

    /// Writes down an image of a sandbox that was paused at that moment, and destroys the processes that
    /// it was taken of.
    ///
    /// # Errors
    ///
    /// If it is not certain to be found after a loss of power. The image is deleted then, and the
    /// processes stand.
    pub(super) async fn keep_image(
        &mut self,
        held: &mut Held,
        image: Checkpoint,
        at: Timestamp,
    ) -> Result<(), TransitionError> {
        let kind = image.kind;
        let before = held.record.clone();
        // With the processes their counters go.
        if let Some(launched) = &held.launched {
            match launched.usage().await {
                Ok(usage) => held.record.earlier = usage.after(&held.record.earlier),
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "what a paused sandbox has used is not known");
                }
            }
        }
        held.record.is_frozen = true;
        let old = held.record.image.replace(image);
        self.journal_paused(&held.record, kind, at).await;
        if !self.node.journal.synced().await {
            let image = std::mem::replace(&mut held.record, before).image;
            // It goes first: who goes on changes the disk that it shares with the image.
            self.forget_image(image).await;
            // Queued behind the other note, for which nobody waits a second time.
            drop(self.journal_record(&held.record));
            return Err(TransitionError::NoRoom(HostResource::Disk));
        }
        held.ended.cancel();
        self.let_go(held).await;
        self.journal_paused(&held.record, kind, at).await;
        self.publish_form(held);
        self.forget_image(old).await;
        self.schedule_compression(held);
        Ok(())
    }

    /// Journals the record of a sandbox that was paused at that moment, which may not be published
    /// yet.
    fn journal_paused(&self, record: &DriverRecord, kind: ImageKind, at: Timestamp) -> Noted {
        let status = SandboxStatus {
            paused: Some(kind),
            ends_at: at,
            ..self.status.borrow().clone()
        };
        self.node.journal.changed(&status.id, record.run(&status))
    }

    /// Lets the image of a sandbox without processes be compressed when nobody has asked for it in a
    /// while.
    pub(super) fn schedule_compression(&self, held: &mut Held) {
        let has_memory =
            (held.record.image.as_ref()).is_some_and(|image| image.kind == ImageKind::Memory);
        let after = self
            .node
            .pauses
            .compress_after
            .filter(|_| has_memory && held.launched.is_none());
        held.compress_at = after.map(|after| Instant::now() + after);
    }

    /// Destroys the processes of a sandbox that has an image, and gives its room on the host back.
    pub(super) async fn let_go(&mut self, held: &mut Held) {
        if let Some(launched) = held.launched.take() {
            launched.dispose().await;
        }
        held.record.launch = None;
        held.store_at = None;
        held.page_out_at = None;
        self.promise = None;
    }

    /// Lets requests wake a sandbox, if it is one that goes on by itself. Its files alone are not
    /// what somebody expects behind a port.
    fn fall_asleep(&self, held: &Held, kind: ImageKind) {
        let wakes = held.record.auto_resume && kind == ImageKind::Memory;
        let sleeper = wakes.then(|| Sleeper {
            id: self.status.borrow().id.clone(),
            access_token: held.record.access_token.clone(),
            is_open: held.record.is_open,
            ingress: Arc::clone(&held.record.ingress),
        });
        self.sleeper.send_replace(sleeper);
    }

    pub(super) fn publish_paused(&mut self, held: &Held, kind: ImageKind, at: Timestamp) {
        self.show_paused(held, kind, at);
        self.enter(Event::PauseDone);
    }

    fn show_paused(&self, held: &Held, kind: ImageKind, at: Timestamp) {
        self.fall_asleep(held, kind);
        self.publish_form(held);
        self.status.send_modify(|status| {
            status.paused = Some(kind);
            status.agent_was_silent = held.record.agent_was_silent;
            status.ends_at = at;
        });
    }

    /// Publishes the form in which a paused sandbox is kept.
    fn publish_form(&self, held: &Held) {
        let image = held.record.image.as_ref();
        let form = image.map_or(KeptIn::Memory, |image| image.kind.into());
        self.status.send_modify(|status| {
            status.kept_in = Some(form);
            status.obstacle = None;
        });
    }

    /// Publishes what keeps a frozen sandbox from an image, if it is something of its own.
    fn publish_obstacle(&self, error: &ChangeError) {
        let obstacle = match error {
            ChangeError::Unwritable { obstacle, .. } => Some(*obstacle),
            ChangeError::Unsupported(_)
            | ChangeError::Failed { .. }
            | ChangeError::Damaged { .. } => None,
        };
        self.status.send_modify(|status| status.obstacle = obstacle);
    }

    pub(super) fn schedule_store(&self, held: &mut Held, after: Duration) {
        let can_store = self
            .node
            .isolation
            .capabilities()
            .has(Capability::Checkpoint);
        let now = Instant::now();
        let stands = held.launched.is_some();
        held.store_at = (can_store && stands).then(|| now + after);
        let is_worth_it = is_worth_paging_out(can_store.then_some(after));
        held.page_out_at = (stands && is_worth_it).then(|| now + PAGE_OUT_AFTER);
    }

    pub(super) fn verdict(&self, event: Event) -> Result<Verdict, TransitionError> {
        Ok(self.status.borrow().phase.on(event)?)
    }
}

pub(super) fn change_error(error: ChangeError) -> TransitionError {
    match error {
        ChangeError::Unsupported(unsupported) => unsupported.into(),
        ChangeError::Unwritable { obstacle, .. } => TransitionError::Unwritable(obstacle),
        error @ ChangeError::Failed { .. } if is_full_disk(&error) => {
            TransitionError::NoRoom(HostResource::Disk)
        }
        error @ (ChangeError::Failed { .. } | ChangeError::Damaged { .. }) => {
            TransitionError::Failed(error.into())
        }
    }
}

/// Returns true if something could not be written because the disk of the host has no room for it.
pub(super) fn is_full_disk(error: &(dyn std::error::Error + 'static)) -> bool {
    let errors = std::iter::successors(Some(error), |error| error.source());
    let mut causes = errors.filter_map(|error| error.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::StorageFull)
}
