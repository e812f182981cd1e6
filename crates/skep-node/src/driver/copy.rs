//! Images of sandboxes that others are made of, and the way back to one.

use std::net::IpAddr;

use skep_isolation::{AfterCheckpoint, ChangeError, RestoreTarget};
use skep_telemetry::Chain;
use skep_types::{
    Capability, Checkpoint, Connections, Egress, Event, ExecutionId, ImageKind, ImagePurpose,
    NotHere, Phase, Refused, RollBackRequest, SandboxStatus, TransitionError,
};

use super::pause::change_error;
use super::resume::{DiskOf, NextRun};
use super::{Driver, Held};
use crate::agents::ConfigureError;
use crate::clock::wall_now;

impl Driver {
    /// Takes a checkpoint of a sandbox, which is as it was afterwards: it goes on, or is paused.
    pub(super) async fn snapshot(
        &mut self,
        held: &mut Held,
        kind: ImageKind,
        purpose: ImagePurpose,
    ) -> Result<Checkpoint, TransitionError> {
        if self.status.borrow().phase == Phase::Paused {
            return self.snapshot_paused(held, kind, purpose).await;
        }
        self.verdict(Event::Snapshot)?;
        let capabilities = self.node.isolation.capabilities();
        capabilities.need(Capability::of_image(kind))?;
        let launched = held.launched.clone().ok_or(NotHere)?;
        self.enter(Event::Snapshot);
        let taken = launched
            .checkpoint(kind, AfterCheckpoint::Continue(purpose))
            .await;
        self.enter(Event::SnapshotDone);
        taken.map_err(|error| self.not_written(error))
    }

    /// Counts why a sandbox is in no image.
    fn not_written(&self, error: ChangeError) -> TransitionError {
        self.node.metrics.store_failed(&error);
        change_error(error)
    }

    async fn snapshot_paused(
        &mut self,
        held: &mut Held,
        kind: ImageKind,
        purpose: ImagePurpose,
    ) -> Result<Checkpoint, TransitionError> {
        if let Some(launched) = held.launched.clone() {
            let after = AfterCheckpoint::Continue(purpose);
            return match launched.checkpoint(kind, after).await {
                Ok(image) => Ok(image),
                Err(error) => {
                    self.is_rescued(held, &error).await;
                    Err(self.not_written(error))
                }
            };
        }
        let image = held.record.image.clone().ok_or(NotHere)?;
        if kind == ImageKind::Memory && image.kind == ImageKind::Filesystem {
            let (phase, event) = (Phase::Paused, Event::Snapshot);
            return Err(Refused { phase, event }.into());
        }
        let copied = (self.node.isolation)
            .copy_checkpoint(image)
            .await
            .map_err(change_error)?;
        // Of an image with memory the files may be asked for alone.
        Ok(Checkpoint { kind, ..copied })
    }

    /// Puts a sandbox back to a checkpoint, as another run. Until that has succeeded there is an
    /// image of what it was before: a sandbox that cannot go back is paused as it was.
    pub(super) async fn roll_back(
        &mut self,
        held: &mut Held,
        request: RollBackRequest,
    ) -> Result<SandboxStatus, TransitionError> {
        let kind = request.checkpoint.kind;
        let capabilities = self.node.isolation.capabilities();
        capabilities.need(Capability::of_image(kind))?;
        let lifetime = if held.is_paused() {
            request.lifetime
        } else {
            held.record.deadline.left()
        };
        self.stand_aside(held).await?;
        let own = held.record.image.clone().ok_or(NotHere)?;
        self.enter(Event::Resume);
        let execution = ExecutionId::random();
        // The checkpoint may be one of another sandbox of the team: who this one is stays.
        let target = RestoreTarget::RollBack {
            id: self.status.borrow().id.clone(),
            execution,
            egress: held.record.egress.clone(),
            own,
        };
        let restored = self.restore(held, request.checkpoint, kind, target).await;
        if let Err(error) = restored {
            self.enter(Event::ResumeFailed);
            return Err(error);
        }
        held.record.kept_in = Some(kind.into());
        let restart = request.restart.filter(|_| kind == ImageKind::Filesystem);
        let run = NextRun {
            execution,
            lifetime,
            restart: restart.as_deref(),
            disk: DiskOf::Another,
        };
        if let Err(error) = self.go_on(held, run).await {
            self.enter(Event::ResumeFailed);
            return Err(error);
        }
        Ok(self.status.borrow().clone())
    }

    /// Makes sure that a sandbox is paused, in an image, and has no process. Its agent is not
    /// asked: one that does not answer is a reason to go back.
    async fn stand_aside(&mut self, held: &mut Held) -> Result<(), TransitionError> {
        let Some(launched) = held.launched.clone() else {
            return Ok(());
        };
        let capabilities = self.node.isolation.capabilities();
        let kind = if capabilities.has(Capability::Checkpoint) {
            ImageKind::Memory
        } else {
            ImageKind::Filesystem
        };
        let was_paused = held.is_paused();
        if !was_paused {
            self.hide();
            self.enter(Event::Pause);
        }
        match launched.checkpoint(kind, AfterCheckpoint::Stand).await {
            Ok(image) => {
                let paused_at = self.status.borrow().ends_at;
                let at = if was_paused { paused_at } else { wall_now() };
                if let Err(error) = self.keep_image(held, image, at).await {
                    if !was_paused {
                        self.undo_pause(held).await;
                    }
                    return Err(error);
                }
                if was_paused {
                    self.status.send_modify(|status| status.paused = Some(kind));
                } else {
                    self.publish_paused(held, kind, at);
                }
                Ok(())
            }
            Err(error) => {
                if was_paused {
                    self.is_rescued(held, &error).await;
                } else {
                    self.enter(Event::PauseFailed);
                    self.unhide(held);
                }
                Err(self.not_written(error))
            }
        }
    }

    /// Has programs of a sandbox trust whoever looks into their requests, if a policy says so.
    pub(super) async fn trust(
        &self,
        held: &Held,
        address: IpAddr,
        egress: &Egress,
    ) -> Result<(), ConfigureError> {
        let Some(authority) = self.node.authority_for(egress) else {
            return Ok(());
        };
        let token = held.record.control_token.reveal();
        self.node.agents.trust(address, token, authority).await
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
            // Before requests are looked into, which fail where nobody trusts who does.
            let trusting = self.trust(held, launched.address(), &egress);
            trusting.await.map_err(|error| {
                tracing::warn!(error = %Chain(&error), "a sandbox does not trust the authority of its rules");
                TransitionError::AgentSilent
            })?;
            let changing = launched.set_egress(egress.clone(), Connections::Cut);
            changing.await.map_err(change_error)?;
        }
        self.status
            .send_modify(|status| status.egress = egress.clone());
        held.record.egress = egress;
        self.journal_record(&held.record).await;
        Ok(())
    }
}
