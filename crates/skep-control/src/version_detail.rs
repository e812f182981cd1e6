//! Versions of templates, as their owner looks at them.

use skep_store::BuildRecord;
use skep_types::{BuildId, BuildOrder, TemplateImage, TemplateReference};

use crate::{
    Caller, Control, LayerFiles, LayerInfo, ListedTemplate, ResolveError, TemplateError,
    VersionError,
};

/// Most files of a version that are told.
const MOST_FILES: usize = 20_000;

/// One version of a template.
#[derive(Debug, Clone)]
pub struct VersionDetail {
    /// The template.
    pub template: ListedTemplate,
    /// The build that made it; a template that belongs to everybody has none.
    pub build: Option<BuildRecord>,
    /// Tags that mean it.
    pub tags: Vec<String>,
    /// Order, if the caller's team gave it.
    pub order: Option<BuildOrder>,
    /// Layers of its sandboxes, if it is ready.
    pub image: Option<TemplateImage>,
    /// Its layers, the lowest first.
    pub layers: Vec<LayerInfo>,
}

/// The versions of a template.
#[derive(Debug, Clone)]
pub struct VersionHistory {
    /// The template.
    pub template: ListedTemplate,
    /// Its versions, the newest first.
    pub versions: Vec<VersionRow>,
}

/// A version in a history.
#[derive(Debug, Clone)]
pub struct VersionRow {
    /// The build.
    pub build: BuildRecord,
    /// Tags that mean it.
    pub tags: Vec<String>,
}

impl Control {
    /// The version that a reference means to the caller's team. By its build it is found whatever
    /// its state is.
    ///
    /// # Errors
    ///
    /// [`VersionError`].
    pub async fn version_detail(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
    ) -> Result<VersionDetail, VersionError> {
        let Some(record) = self.find_team_template(&caller.team, reference).await? else {
            return self.everybodys_detail(caller, reference).await;
        };
        let is_own = record.team == caller.team.id;
        let template = record.id.clone();
        let named = reference.tag.as_ref().and_then(|tag| tag.parse().ok());
        let build = match named {
            Some(build) if is_own => self.find_build(caller, reference, build).await?,
            _ => {
                let version = self
                    .find_version(&caller.team, reference)
                    .await?
                    .ok_or_else(|| ResolveError::NoSuchTag(reference.clone()))?;
                let found = self.inner.store.builds().find(version.build).await?;
                found.ok_or(VersionError::UnknownBuild(version.build))?
            }
        };
        let detail = self
            .inner
            .store
            .builds()
            .detail(build.id)
            .await?
            .ok_or(VersionError::UnknownBuild(build.id))?;
        let image = detail.built.map(|built| built.image);
        let history = self.version_history(caller, reference).await?;
        Ok(VersionDetail {
            template: history.template,
            tags: self.tags_that_mean(&template, build.id).await?,
            order: detail.order.filter(|_| is_own),
            layers: self.layers_of(image.as_ref()).await?,
            image,
            build: Some(build),
        })
    }

    /// The versions of a template that the caller's team can use.
    ///
    /// # Errors
    ///
    /// [`VersionError`].
    pub async fn version_history(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
    ) -> Result<VersionHistory, VersionError> {
        let history =
            self.template_history(caller, reference)
                .await
                .map_err(|error| match error {
                    TemplateError::Resolve(error) => VersionError::Resolve(error),
                    TemplateError::Record(error) => VersionError::Record(error),
                })?;
        let template = history.listed.info.id.clone();
        let meanings = self.inner.store.tags().meanings(template).await?;
        let row = |build: BuildRecord| VersionRow {
            tags: meanings
                .iter()
                .filter(|(_, meant)| *meant == build.id)
                .map(|(tag, _)| tag.clone())
                .collect(),
            build,
        };
        Ok(VersionHistory {
            template: history.listed,
            versions: history.builds.into_iter().map(row).collect(),
        })
    }

    /// Files of the layers of a version, without its first `below` layers.
    ///
    /// # Errors
    ///
    /// [`VersionError`].
    pub async fn version_files(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
        below: usize,
    ) -> Result<LayerFiles, VersionError> {
        let detail = self.version_detail(caller, reference).await?;
        let layers: Vec<_> = detail
            .layers
            .iter()
            .skip(below)
            .map(|layer| layer.key)
            .collect();
        Ok(self.inner.templates.files(&layers, MOST_FILES).await?)
    }

    async fn everybodys_detail(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
    ) -> Result<VersionDetail, VersionError> {
        let image = self
            .inner
            .templates
            .resolve(reference, &caller.team)
            .await?;
        let history = self.version_history(caller, reference).await?;
        Ok(VersionDetail {
            template: history.template,
            build: None,
            tags: vec![crate::version_name::USUAL_TAG.to_owned()],
            order: None,
            layers: self.layers_of(Some(&image)).await?,
            image: Some(image),
        })
    }

    async fn layers_of(
        &self,
        image: Option<&TemplateImage>,
    ) -> Result<Vec<LayerInfo>, VersionError> {
        let keys = image.map_or(&[][..], |image| &image.layers);
        Ok(self.inner.templates.layers(keys).await?)
    }

    async fn tags_that_mean(
        &self,
        template: &skep_types::TemplateId,
        build: BuildId,
    ) -> Result<Vec<String>, VersionError> {
        let meanings = self.inner.store.tags().meanings(template.clone()).await?;
        let meant = meanings.into_iter().filter(|(_, meant)| *meant == build);
        Ok(meant.map(|(tag, _)| tag).collect())
    }
}
