//! Paused sandboxes that go on, and those of an earlier server.

use std::time::Duration;

use jiff::Timestamp;
use skep_agent_protocol::AgentConfig;
use skep_isolation::{
    AfterCheckpoint, ChangeError, LaunchError, Launched, RestoreRequest, RestoreTarget,
};
use skep_telemetry::Chain;
use skep_types::{
    Capability, Checkpoint, Connections, DeadlineMode, Event, ExecutionId, HostResource, ImageKind,
    KeptIn, NotHere, Restart, ResumeRequest, ResumeStart, Resumed, SandboxStatus, TransitionError,
    Verdict,
};

use super::pause::{change_error, is_full_disk};
use super::{Driver, Held};
use crate::admission::NoRoom;
use crate::clock::{Deadline, wall_now};
use crate::record::DriverRecord;

/// The run of a sandbox that comes after a pause.
pub(super) struct NextRun<'a> {
    pub(super) execution: ExecutionId,
    pub(super) lifetime: Duration,
    pub(super) restart: Option<&'a Restart>,
    pub(super) disk: DiskOf,
}

/// The disk to which a sandbox writes that was made of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskOf {
    /// That of the image that it was paused in.
    Image,
    /// Another one: the image that it was paused in stays as it is.
    Another,
}

impl Driver {
    /// Lets a paused sandbox go on, as another run of it. One that runs lives at least as long as
    /// was asked for.
    pub(super) async fn resume(
        &mut self,
        held: &mut Held,
        request: ResumeRequest,
    ) -> Result<Resumed, TransitionError> {
        if self.verdict(Event::Resume)? == Verdict::Stay {
            let deadline = Deadline::after(request.lifetime);
            self.move_deadline(held, deadline, DeadlineMode::Extend)
                .await;
            return Ok(Resumed {
                status: self.status.borrow().clone(),
                was_running: true,
            });
        }
        self.enter(Event::Resume);
        let execution = ExecutionId::random();
        let form = match self.wake(held, execution, request.start).await {
            Ok(form) => form,
            Err(error) => {
                self.enter(Event::ResumeFailed);
                return Err(error);
            }
        };
        held.record.kept_in = Some(form);
        let restart = request.restart.filter(|_| form == KeptIn::Files);
        if let Some(on_timeout) = request.on_timeout {
            held.record.on_timeout = on_timeout;
        }
        let run = NextRun {
            execution,
            lifetime: request.lifetime,
            restart: restart.as_deref(),
            disk: DiskOf::Image,
        };
        if let Err(error) = self.go_on(held, run).await {
            self.enter(Event::ResumeFailed);
            return Err(error);
        }
        Ok(Resumed {
            status: self.status.borrow().clone(),
            was_running: false,
        })
    }

    /// Publishes that a sandbox that was paused runs, and writes it down.
    ///
    /// # Errors
    ///
    /// If it cannot be written down, or does not go on. It is paused as it was.
    pub(super) async fn go_on(
        &mut self,
        held: &mut Held,
        run: NextRun<'_>,
    ) -> Result<(), TransitionError> {
        let NextRun {
            execution,
            lifetime,
            restart,
            disk,
        } = run;
        let before = (held.record.clone(), self.status.borrow().clone());
        let started_at = wall_now();
        held.record.execution = execution;
        held.record.is_frozen = false;
        held.record.agent_was_silent = false;
        held.record.deadline = Deadline::counted_from(started_at, lifetime);
        held.store_at = None;
        held.page_out_at = None;
        held.compress_at = None;
        held.is_hard_to_store = false;
        held.retry_at = None;
        let spent = held.record.image.take();
        self.publish_run(held, started_at);
        // Only what is written down to run again needs no image. It stands until then if it was made
        // of one: what it writes to its disk, which is that of the image, would not be of the moment of
        // the memory any more.
        self.journal_started(&held.record).await;
        if let (Some(_), Some(launched)) = (&spent, held.launched.clone()) {
            if !self.node.journal.synced().await {
                self.go_back(held, before).await;
                return Err(TransitionError::NoRoom(HostResource::Disk));
            }
            if let Err(error) = self.wake_restored(&launched).await {
                tracing::error!(error = %Chain(&error), "cannot resume sandbox restored from its image");
                match disk {
                    DiskOf::Another => self.go_back(held, before).await,
                    // Some of it may have run, and the image is older than what that has written.
                    DiskOf::Image => {
                        self.stand_again(held, &launched, before.1).await;
                        self.forget_image(spent).await;
                    }
                }
                return Err(change_error(error));
            }
        }
        self.start_again(held, restart).await;
        self.enter(Event::AgentReady);
        self.open(held);
        self.node.metrics.resumed.add_one();
        self.forget_image(spent).await;
        Ok(())
    }

    /// Lets go of processes that were made of an image, which is as it was, and publishes what was before.
    async fn go_back(&mut self, held: &mut Held, (record, status): (DriverRecord, SandboxStatus)) {
        self.let_go(held).await;
        // It keeps the name of the run that was not to be: it is the last that was written down.
        held.record = DriverRecord {
            launch: None,
            execution: held.record.execution,
            ..record
        };
        self.publish_again(status);
        // Queued behind the note that it runs, for which nobody waits a second time.
        drop(self.journal_record(&held.record));
        self.schedule_compression(held);
    }

    /// Lets processes stand that did not go on, all of them, and publishes that the sandbox is paused.
    async fn stand_again(&mut self, held: &mut Held, launched: &Launched, before: SandboxStatus) {
        if let Err(error) = launched.freeze().await {
            tracing::warn!(error = %Chain(&error), "cannot freeze paused sandbox");
        }
        let paused_at = before.ends_at;
        self.publish_again(before);
        self.stand(held, paused_at).await;
    }

    /// Publishes what was published before a resume that failed, of the run that was written down since.
    fn publish_again(&self, before: SandboxStatus) {
        self.status.send_modify(|status| {
            *status = SandboxStatus {
                phase: status.phase,
                execution: status.execution,
                started_at: status.started_at,
                ..before
            };
        });
    }

    /// Starts what the template starts, and waits until it is ready. A sandbox in which that fails
    /// runs all the same: it has files that nobody else has.
    async fn start_again(&self, held: &Held, restart: Option<&Restart>) {
        let Some(launched) = &held.launched else {
            return;
        };
        // What it was launched with is older than rules that its owner has changed since.
        let address = launched.address();
        let trusting = self.trust(held, address, &held.record.egress);
        if let Err(error) = trusting.await {
            tracing::warn!(error = %Chain(&error), "a resumed sandbox does not trust the authority of its rules");
        }
        let Some(restart) = restart else {
            return;
        };
        let token = restart.access_token.as_ref();
        let config = AgentConfig {
            access_token: token.map(|token| token.reveal().to_owned()),
            env: restart.env.iter().cloned().collect(),
            ..AgentConfig::default()
        };
        let agents = &self.node.agents;
        let starting = agents.start(launched.address(), &config, &restart.start);
        if let Err(error) = starting.await {
            tracing::warn!(error = %Chain(&error), "the start command failed in a resumed sandbox");
        }
    }

    /// Lets a sandbox go on that was made of an image.
    pub(super) async fn wake_restored(&self, launched: &Launched) -> Result<(), ChangeError> {
        if !self.node.isolation.capabilities().has(Capability::Freeze) {
            return Ok(());
        }
        launched.thaw().await
    }

    /// Lets the processes of a sandbox go on, or makes new ones, and tells of what.
    async fn wake(
        &mut self,
        held: &mut Held,
        execution: ExecutionId,
        start: ResumeStart,
    ) -> Result<KeptIn, TransitionError> {
        match start {
            ResumeStart::AsPaused if held.launched.is_some() => {
                return self.thaw(held).await.map(|()| KeptIn::Memory);
            }
            ResumeStart::AsPaused if held.record.agent_was_silent => {
                return Err(TransitionError::AgentWasSilent);
            }
            ResumeStart::AsPaused => {}
            ResumeStart::Reboot => self.keep_files(held).await?,
        }
        let image = held.record.image.clone().ok_or(NotHere)?;
        let kind = match start {
            ResumeStart::AsPaused => image.kind,
            ResumeStart::Reboot => ImageKind::Filesystem,
        };
        let target = RestoreTarget::Same {
            id: self.status.borrow().id.clone(),
            execution,
            egress: held.record.egress.clone(),
        };
        self.restore(held, image, kind, target).await?;
        Ok(kind.into())
    }

    /// Lets the processes of a frozen sandbox go on. One whose agent said nothing when it was
    /// frozen has to answer now.
    async fn thaw(&self, held: &Held) -> Result<(), TransitionError> {
        let launched = held.launched.as_ref().ok_or(NotHere)?;
        if let Err(error) = launched.thaw().await {
            // Some of it may go on.
            if let Err(error) = launched.freeze().await {
                tracing::warn!(error = %Chain(&error), "cannot freeze paused sandbox");
            }
            return Err(change_error(error));
        }
        let was_silent = held.record.agent_was_silent;
        if !was_silent || self.node.agents.answers(launched.address()).await {
            return Ok(());
        }
        launched.freeze().await.map_err(change_error)?;
        Err(TransitionError::AgentWasSilent)
    }

    /// Makes an image of the files of a frozen sandbox, which is to start anew on them, and lets
    /// go of its processes.
    pub(super) async fn keep_files(&mut self, held: &mut Held) -> Result<(), TransitionError> {
        let Some(launched) = held.launched.clone() else {
            return Ok(());
        };
        let kind = ImageKind::Filesystem;
        let taken = launched.checkpoint(kind, AfterCheckpoint::Stand).await;
        let image = taken.map_err(change_error)?;
        let paused_at = self.status.borrow().ends_at;
        // What starts anew on files has an agent of its own.
        let was_silent = std::mem::take(&mut held.record.agent_was_silent);
        if let Err(error) = self.keep_image(held, image, paused_at).await {
            held.record.agent_was_silent = was_silent;
            return Err(error);
        }
        // What can be resumed of it from now on, whatever becomes of this resume.
        self.status.send_modify(|status| {
            status.paused = Some(kind);
            status.agent_was_silent = false;
        });
        self.sleeper.send_replace(None);
        Ok(())
    }

    /// Makes the sandbox of an image. It gave back what it had of the host, so it needs room as a
    /// new one does.
    pub(super) async fn restore(
        &mut self,
        held: &mut Held,
        checkpoint: Checkpoint,
        kind: ImageKind,
        target: RestoreTarget,
    ) -> Result<(), TransitionError> {
        let id = self.status.borrow().id.clone();
        let room = self.node.room_for(&id, self.resources).await;
        let reservation = room.map_err(|NoRoom(resource)| TransitionError::NoRoom(resource))?;
        let request = RestoreRequest {
            kind,
            checkpoint,
            target,
        };
        let restored = self.node.isolation.restore(request).await;
        let launched = restored.map_err(restore_error)?;
        self.promise = Some(self.node.admission.promise(&id, self.resources));
        drop(reservation);
        held.record.launch = Some(launched.record());
        held.launched = Some(launched);
        Ok(())
    }

    /// Takes over a sandbox that was paused by an earlier server.
    pub(super) async fn adopt_paused(&mut self, held: &mut Held, started_at: Timestamp) {
        if held.record.image.is_some() {
            // An earlier server was killed after the image and before the end of the processes it
            // was taken of. One of the two is enough, and the image is what was promised.
            self.let_go(held).await;
            self.journal_record(&held.record).await;
        } else if let Some(launched) = &held.launched
            && let Err(error) = launched.freeze().await
        {
            tracing::warn!(error = %Chain(&error), "cannot freeze paused sandbox");
        }
        self.restore_egress(held).await;
        let (kind, paused_at) = {
            let status = self.status.borrow();
            let kind = held
                .record
                .image
                .as_ref()
                .map(|image| image.kind)
                .or(status.paused)
                .unwrap_or(ImageKind::Memory);
            (kind, status.ends_at)
        };
        self.status.send_modify(|status| {
            status.execution = held.record.execution;
            status.on_timeout = held.record.on_timeout;
            status.egress = held.record.egress.clone();
            status.started_at = started_at;
        });
        self.enter(Event::AgentReady);
        self.enter(Event::Pause);
        self.publish_paused(held, kind, paused_at);
        self.schedule_store(held, self.node.pauses.checkpoint_after);
        self.schedule_compression(held);
    }

    /// Takes over a sandbox that runs.
    pub(super) async fn adopt_running(&mut self, held: &mut Held, started_at: Timestamp) {
        // An earlier server may have been killed in the middle of a pause that nobody was told of.
        if let Some(launched) = &held.launched
            && self.node.isolation.capabilities().has(Capability::Freeze)
            && let Err(error) = launched.thaw().await
        {
            tracing::warn!(error = %Chain(&error), "cannot thaw adopted sandbox");
        }
        self.restore_egress(held).await;
        self.enter_running(held, started_at);
    }

    /// Tells the backend the policy of a sandbox that an earlier server launched: it is the driver's
    /// record that is kept when it changes.
    async fn restore_egress(&self, held: &Held) {
        let capabilities = self.node.isolation.capabilities();
        let Some(launched) = &held.launched else {
            return;
        };
        if !capabilities.has(Capability::EgressChange) {
            return;
        }
        let egress = held.record.egress.clone();
        if let Err(error) = launched.set_egress(egress, Connections::Cut).await {
            tracing::error!(error = %Chain(&error), "the policy of an adopted sandbox is not in force; it reaches less than it may");
        }
    }
}

fn restore_error(error: LaunchError) -> TransitionError {
    match error {
        LaunchError::Unsupported(unsupported) => unsupported.into(),
        LaunchError::NoRoom(_) => TransitionError::NoRoom(HostResource::Slots),
        error @ LaunchError::Host { .. } if is_full_disk(&error) => {
            TransitionError::NoRoom(HostResource::Disk)
        }
        error @ (LaunchError::Host { .. }
        | LaunchError::Step { .. }
        | LaunchError::VolumePlace { .. }
        | LaunchError::AgentSilent(_)
        | LaunchError::AgentEnded(_)) => TransitionError::Failed(error.into()),
    }
}
