//! The end of builds and versions by their owner's wish.

use skep_store::VersionDeletion;
use skep_types::{BuildId, TemplateReference};

use crate::control::now;
use crate::{Caller, Control, VersionError};

impl Control {
    /// Ends a build of the caller's team that waits or runs. It has failed from then on.
    ///
    /// # Errors
    ///
    /// [`VersionError`]; nothing has changed.
    pub async fn cancel_build(
        &self,
        caller: &Caller,
        template: &TemplateReference,
        build: BuildId,
    ) -> Result<(), VersionError> {
        caller.may_change()?;
        self.find_build(caller, template, build).await?;
        let cancelling = self.inner.store.builds().cancel(build, now());
        if !cancelling.recorded().await? {
            return Err(VersionError::Ended(build));
        }
        self.inner.builds.cancel(build);
        Ok(())
    }

    /// Deletes a version of a template of the caller's team that nothing uses. Its layers go when
    /// nothing else has them.
    ///
    /// # Errors
    ///
    /// [`VersionError`]; nothing has changed.
    pub async fn delete_version(
        &self,
        caller: &Caller,
        template: &TemplateReference,
        build: BuildId,
    ) -> Result<(), VersionError> {
        caller.may_change()?;
        self.find_build(caller, template, build).await?;
        let deleting = self.inner.store.builds().delete(build, now());
        let reason = match deleting.recorded().await? {
            VersionDeletion::Deleted => return Ok(()),
            VersionDeletion::Unknown => return Err(VersionError::UnknownBuild(build)),
            VersionDeletion::UnderWay => "it is being built; cancel it first".to_owned(),
            VersionDeletion::Tagged(tag) => {
                format!("the tag '{tag}' means it; give the tag to another version first")
            }
            VersionDeletion::Running => "there are running sandboxes of it".to_owned(),
            VersionDeletion::Paused => "there are paused sandboxes of it".to_owned(),
            VersionDeletion::Snapshots => "there are snapshots of it".to_owned(),
        };
        Err(VersionError::VersionInUse { build, reason })
    }
}
