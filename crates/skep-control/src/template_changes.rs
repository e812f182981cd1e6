//! Publishing and deleting templates.

use skep_store::DeleteOutcome;
use skep_types::TemplateReference;

use crate::control::now;
use crate::{Caller, Control, TemplateRecord, VersionError};

impl Control {
    /// Lets other teams use a template of the caller's team, or not; `None` changes nothing.
    ///
    /// # Errors
    ///
    /// [`VersionError`]; nothing has changed.
    pub async fn publish_template(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
        public: Option<bool>,
    ) -> Result<TemplateRecord, VersionError> {
        caller.may_change()?;
        let record = self.own_template(&caller.team, reference).await?;
        let Some(public) = public else {
            return Ok(record);
        };
        let templates = self.inner.store.templates();
        let publishing = templates.set_public(record.id.clone(), public, now());
        publishing.recorded().await?;
        Ok(TemplateRecord { public, ..record })
    }

    /// Deletes a template of the caller's team with all its versions, or a snapshot with all its
    /// tags. Builds of it that run are ended.
    ///
    /// # Errors
    ///
    /// [`VersionError`]; nothing has changed.
    pub async fn delete_template(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
    ) -> Result<(), VersionError> {
        caller.may_change()?;
        if self.forget_snapshot(caller, reference).await? {
            return Ok(());
        }
        let record = self.own_template(&caller.team, reference).await?;
        let deleting = self.inner.store.templates().delete(record.id, now());
        let users = match deleting.recorded().await? {
            DeleteOutcome::Deleted(running) => {
                for build in running {
                    self.inner.builds.cancel(build);
                }
                return Ok(());
            }
            DeleteOutcome::Running => "running sandboxes",
            DeleteOutcome::Paused => "paused sandboxes",
            DeleteOutcome::Snapshots => "snapshots",
        };
        Err(VersionError::InUse {
            template: reference.to_string(),
            users,
        })
    }
}
