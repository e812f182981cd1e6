//! Sandboxes that outlive their server, and what the next one does with them.

use skep_isolation::{AdoptError, Exit, Launched};
use skep_telemetry::Chain;
use skep_types::{
    Checkpoint, EndReason, Ending, LivingSandbox, Phase, SandboxId, SandboxStatus, Usage,
};

use crate::clock::wall_now;
use crate::driver::reason_of;
use crate::node::{Node, Taken, starting};
use crate::record::DriverRecord;

/// Outcome of the adoption of the last server's sandboxes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adoption {
    /// These run on.
    pub adopted: Vec<SandboxId>,
    /// These were gone, or were being ended and are gone now.
    pub lost: Vec<(SandboxId, EndReason)>,
    /// These were being ended, and something of them still cannot be removed.
    pub stuck: Vec<SandboxId>,
    /// Images that paused sandboxes among all these are in.
    pub images: Vec<Checkpoint>,
}

/// Outcome of the adoption of one sandbox.
enum Adopted {
    /// It runs on.
    Running,
    /// An end that had begun goes on.
    Ending(EndReason),
}

impl Node {
    /// Takes over the sandboxes of the last server, then removes whatever nobody owns.
    ///
    /// Call it once, before the first [`Node::create`].
    pub async fn adopt(&self, living: Vec<LivingSandbox>) -> Adoption {
        let mut adoption = Adoption::default();
        let mut endings = Vec::new();
        for sandbox in living {
            let id = sandbox.id.clone();
            adoption.images.extend(image_of(&sandbox));
            match self.adopt_one(sandbox).await {
                Ok(Adopted::Ending(reason)) => endings.push((id, reason)),
                Ok(Adopted::Running) => {
                    self.inner.metrics.adopted.add_one();
                    adoption.adopted.push(id);
                }
                Err(Lost { reason, usage }) => {
                    let ending = Ending {
                        reason,
                        usage,
                        at: wall_now(),
                    };
                    self.inner.metrics.ended(reason);
                    self.inner.journal.ended(&id, &ending).await;
                    adoption.lost.push((id, reason));
                }
            }
        }
        // They end side by side, and none takes longer than an attempt may.
        for (id, reason) in endings {
            if self.has_ended(&id).await {
                adoption.lost.push((id, reason));
            } else {
                adoption.stuck.push(id);
            }
        }
        match self.inner.isolation.sweep().await {
            Ok(swept) if swept.sandboxes.is_empty() => {}
            Ok(swept) => tracing::info!(count = swept.sandboxes.len(), "removed leftovers"),
            Err(error) => tracing::error!(error = %Chain(&error), "leftovers remain"),
        }
        adoption
    }

    async fn adopt_one(&self, living: LivingSandbox) -> Result<Adopted, Lost> {
        // Without a record the server was killed while it launched: the sandbox may be
        // anywhere between nothing and running, and nobody was told of it. It is swept.
        let run = living.run.ok_or(EndReason::StartFailed)?;
        let read = DriverRecord::from_text(&run.driver_record, run.ends_at, living.egress);
        let mut record = read.map_err(|error| {
            tracing::error!(sandbox = %living.id, error = %Chain(&error), "cannot adopt sandbox");
            EndReason::Crashed
        })?;
        self.check_image(&living.id, &mut record).await;
        let status = SandboxStatus {
            ends_at: run.ends_at,
            paused: run.paused,
            ..starting(&living.id, run.started_at)
        };
        let found = self.find_held(&living.id, &record).await;
        if let Some(reason) = record.ending {
            let launched = found.map_err(|Lost { usage, .. }| Lost { reason, usage })?;
            self.drive(status, living.resources, |driver| {
                driver.adopt_and_end(launched, record, reason)
            })
            .map_err(|Taken| reason)?;
            return Ok(Adopted::Ending(reason));
        }
        let launched = found.inspect_err(|lost| {
            tracing::warn!(sandbox = %living.id, reason = %lost.reason, "sandbox was lost");
        })?;
        self.drive(status, living.resources, |driver| {
            driver.adopt_and_drive(launched, record, run.started_at)
        })
        .map_err(|Taken| EndReason::Crashed)?;
        // Whoever was told of the adoption may look at once.
        let mut status = self.entry(&living.id).ok_or(EndReason::Crashed)?.status;
        let settled = status
            .wait_for(|status| status.phase != Phase::Starting)
            .await;
        (settled.map(|_| Adopted::Running)).map_err(|_| EndReason::Crashed.into())
    }

    /// Strikes an image out of a record that is not there. Processes of which it was taken would be
    /// destroyed for it, and a sandbox without any would be shown as one that can be resumed.
    async fn check_image(&self, id: &SandboxId, record: &mut DriverRecord) {
        let Some(image) = record.image.clone() else {
            return;
        };
        match self.inner.isolation.has_checkpoint(image).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::error!(sandbox = %id, "the image of a paused sandbox is gone");
                record.image = None;
            }
            // It may be there.
            Err(error) => {
                tracing::warn!(sandbox = %id, %error, "cannot look for the image of a paused sandbox");
            }
        }
    }

    /// Finds the processes of a sandbox; `None` if it is paused and needs none.
    async fn find_held(
        &self,
        id: &SandboxId,
        record: &DriverRecord,
    ) -> Result<Option<Launched>, Lost> {
        let Some(launch) = record.launch.clone() else {
            return match record.image {
                Some(_) => Ok(None),
                None => Err(EndReason::Crashed.into()),
            };
        };
        match self.inner.isolation.adopt(launch).await {
            Ok(launched) => Ok(Some(launched)),
            // The image is whole from before the processes were to go, and outlives the host.
            Err(_) if record.is_frozen && record.image.is_some() => Ok(None),
            Err(error) => {
                tracing::debug!(sandbox = %id, error = %Chain(&error), "sandbox is gone");
                let Lost { reason, usage } = lost(&error);
                let usage = record.whole_usage(usage);
                Err(Lost { reason, usage })
            }
        }
    }

    /// Waits for the first attempt to end a sandbox, and says whether nothing of it is left.
    async fn has_ended(&self, id: &SandboxId) -> bool {
        let Some(mut entry) = self.entry(id) else {
            return true;
        };
        let tried = entry.status.wait_for(|status| match status.phase {
            Phase::Gone | Phase::Stuck => true,
            Phase::Starting
            | Phase::Running
            | Phase::Snapshotting
            | Phase::Pausing
            | Phase::Paused
            | Phase::Resuming
            | Phase::Stopping => false,
        });
        tried.await.is_ok_and(|status| status.phase == Phase::Gone)
    }
}

/// The image that a sandbox is paused in, by its record.
fn image_of(living: &LivingSandbox) -> Option<Checkpoint> {
    let run = living.run.as_ref()?;
    let ordered = living.egress.clone();
    let record = DriverRecord::from_text(&run.driver_record, run.ends_at, ordered);
    record.ok()?.image
}

/// A sandbox that is not there any more, and what it used if that is still known.
#[derive(Debug)]
struct Lost {
    reason: EndReason,
    usage: Usage,
}

impl From<EndReason> for Lost {
    fn from(reason: EndReason) -> Self {
        Self {
            reason,
            usage: Usage::default(),
        }
    }
}

/// The end of a sandbox that could not be taken over.
fn lost(error: &AdoptError) -> Lost {
    match error {
        AdoptError::HostRestarted => EndReason::HostRestart.into(),
        AdoptError::Record(_) => EndReason::Crashed.into(),
        AdoptError::Gone(usage) => Lost {
            reason: reason_of(Exit::Unknown, usage),
            usage: *usage,
        },
    }
}
