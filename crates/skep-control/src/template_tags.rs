//! Tags of templates.

use jiff::Timestamp;
use skep_types::{BuildId, TemplateReference};

use crate::control::now;
use crate::template_list::build_of;
use crate::version_name::{Tag, USUAL_TAG};
use crate::{Caller, Control, SnapshotQuery, VersionError};

/// Number of snapshots of a name whose tags are shown.
const MOST_SNAPSHOTS: u32 = 1000;

/// A tag of a template, and the build that was last given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTag {
    /// The tag.
    pub tag: String,
    /// Id of the build, as text.
    pub build: String,
    /// Time at which the build was given it.
    pub at: Timestamp,
}

impl Control {
    /// Gives tags to the version that a reference of the caller's team means.
    ///
    /// # Errors
    ///
    /// [`VersionError`]; nothing has changed.
    pub async fn assign_tags(
        &self,
        caller: &Caller,
        target: &TemplateReference,
        tags: &[Tag],
    ) -> Result<BuildId, VersionError> {
        caller.may_change()?;
        let record = self.own_template(&caller.team, target).await?;
        let from = target.tag.as_deref().unwrap_or(USUAL_TAG).to_owned();
        let store = self.inner.store.tags();
        let version = store.version(record.id.clone(), from).await?;
        let build = match version {
            Some(version) => version.build,
            None => return Err(VersionError::NoVersion(target.clone())),
        };
        let tags = tags.iter().map(ToString::to_string).collect();
        store
            .assign(record.id, tags, build, now())
            .recorded()
            .await?;
        Ok(build)
    }

    /// Takes tags off a template of the caller's team. One that it does not have is no error.
    ///
    /// # Errors
    ///
    /// [`VersionError`]; nothing has changed.
    pub async fn remove_tags(
        &self,
        caller: &Caller,
        name: &TemplateReference,
        tags: &[Tag],
    ) -> Result<(), VersionError> {
        caller.may_change()?;
        let record = self.own_template(&caller.team, name).await?;
        let tags = tags.iter().map(ToString::to_string).collect();
        let removing = self.inner.store.tags().remove(record.id, tags, now());
        Ok(removing.recorded().await?)
    }

    /// The tags of a template or snapshot that the caller's team can use.
    ///
    /// # Errors
    ///
    /// [`VersionError`].
    pub async fn tags(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
    ) -> Result<Vec<ListedTag>, VersionError> {
        let snapshots = self.tags_of_snapshots(caller, reference).await?;
        if !snapshots.is_empty() {
            return Ok(snapshots);
        }
        if let Some(record) = self.find_team_template(&caller.team, reference).await? {
            let tags = self.inner.store.tags().list(record.id).await?;
            let listed = tags.into_iter().map(|assigned| ListedTag {
                tag: assigned.tag,
                build: assigned.build.to_string(),
                at: assigned.at,
            });
            return Ok(listed.collect());
        }
        let info = self.inner.templates.find(reference, &caller.team).await?;
        Ok(vec![ListedTag {
            tag: USUAL_TAG.to_owned(),
            build: build_of(info.id.as_str()),
            at: info.updated_at,
        }])
    }

    async fn tags_of_snapshots(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
    ) -> Result<Vec<ListedTag>, VersionError> {
        let query = SnapshotQuery {
            named: Some(TemplateReference {
                tag: None,
                ..reference.clone()
            }),
            limit: MOST_SNAPSHOTS,
            ..SnapshotQuery::default()
        };
        let page = self.snapshots(caller, query).await?;
        let listed = page.items.into_iter().map(|record| ListedTag {
            build: build_of(record.id.as_str()),
            tag: record.tag,
            at: record.created_at,
        });
        Ok(listed.collect())
    }
}
