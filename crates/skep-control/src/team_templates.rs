//! Templates that teams have built, as references mean them.

use skep_store::{BuildStatus, StoreError, TemplateRecord, Version};
use skep_types::{BuildContext, BuildId, Sharing, TemplateId, TemplateImage, TemplateReference};

use crate::version_name::USUAL_TAG;
use crate::{Control, ResolveError, Team, TemplateInfo, VersionError};

/// A version of a team's template that can run.
#[derive(Debug, Clone)]
pub(crate) struct TeamVersion {
    pub(crate) template: TemplateId,
    pub(crate) name: String,
    pub(crate) build: BuildId,
    pub(crate) image: TemplateImage,
    pub(crate) context: BuildContext,
}

impl TeamVersion {
    /// Reference that means this version and never another.
    pub(crate) fn fixed_reference(&self) -> String {
        format!("{}:{}", self.template, self.build)
    }
}

impl From<StoreError> for ResolveError {
    fn from(error: StoreError) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl Control {
    /// The template of a team that a reference means, and that the team may use; `None` if it may be
    /// one that belongs to everybody.
    pub(crate) async fn find_team_template(
        &self,
        team: &Team,
        reference: &TemplateReference,
    ) -> Result<Option<TemplateRecord>, ResolveError> {
        let templates = self.inner.store.templates();
        let name = reference.identifier.clone();
        let found = match &reference.namespace {
            Some(slug) => templates.find_in(slug.clone(), name).await?,
            None => templates.find(team.id.clone(), name).await?,
        };
        match found {
            Some(record) if record.team != team.id && !record.public => {
                Err(ResolveError::NoAccess(reference.clone()))
            }
            found => Ok(found),
        }
    }

    /// The template of this team that a reference means.
    pub(crate) async fn own_template(
        &self,
        team: &Team,
        reference: &TemplateReference,
    ) -> Result<TemplateRecord, VersionError> {
        match self.find_team_template(team, reference).await? {
            Some(record) if record.team == team.id => Ok(record),
            Some(_public) => Err(ResolveError::NoAccess(reference.clone()).into()),
            None => {
                // Says that there is none, or what else it is.
                self.inner.templates.find(reference, team).await?;
                Err(VersionError::Everybodys(reference.clone()))
            }
        }
    }

    /// The version of a team's template that a reference means; `None` if it may be a template that
    /// belongs to everybody.
    pub(crate) async fn find_version(
        &self,
        team: &Team,
        reference: &TemplateReference,
    ) -> Result<Option<TeamVersion>, ResolveError> {
        let Some(record) = self.find_team_template(team, reference).await? else {
            return Ok(None);
        };
        let tag = reference.tag.as_deref().unwrap_or(USUAL_TAG).to_owned();
        let tags = self.inner.store.tags();
        let Some(version) = tags.version(record.id.clone(), tag.clone()).await? else {
            return Err(self.no_version(&record, &tag, reference).await?);
        };
        let Version {
            build,
            built,
            resources,
        } = version;
        Ok(Some(TeamVersion {
            template: record.id,
            name: record.name.clone(),
            build,
            image: TemplateImage {
                name: record.name,
                resources,
                sharing: Sharing::of_owner(Some(&record.team), built.image.sharing),
                ..built.image
            },
            context: built.context,
        }))
    }

    /// Says why a tag of a template means no version.
    async fn no_version(
        &self,
        record: &TemplateRecord,
        tag: &str,
        reference: &TemplateReference,
    ) -> Result<ResolveError, StoreError> {
        let all = self.inner.store.tags().list(record.id.clone()).await?;
        if let Some(assigned) = all.iter().find(|assigned| assigned.tag == tag)
            && let Some(build) = self.inner.store.builds().find(assigned.build).await?
            && matches!(build.status, BuildStatus::Waiting | BuildStatus::Building)
        {
            return Ok(ResolveError::NotReady(reference.clone()));
        }
        Ok(ResolveError::NoSuchTag(reference.clone()))
    }

    /// Describes a team's template, if it has the tag that is asked for.
    pub(crate) async fn team_template_info(
        &self,
        record: TemplateRecord,
        reference: &TemplateReference,
    ) -> Result<TemplateInfo, ResolveError> {
        let builds = self
            .inner
            .store
            .builds()
            .of_template(record.id.clone())
            .await?;
        if let Some(tag) = &reference.tag {
            let tags = self.inner.store.tags().list(record.id.clone()).await?;
            let has_tag = tags.iter().any(|assigned| assigned.tag == *tag);
            let is_build = builds.iter().any(|build| build.id.to_string() == *tag);
            if !has_tag && !is_build {
                return Err(ResolveError::NoSuchTag(reference.clone()));
            }
        }
        let resources = builds.first().map(|build| build.resources);
        Ok(TemplateInfo {
            id: record.id,
            names: vec![record.name],
            owner: Some(record.team),
            public: record.public,
            resources: resources.unwrap_or_default(),
            created_at: record.created_at,
            updated_at: record.updated_at,
        })
    }
}
