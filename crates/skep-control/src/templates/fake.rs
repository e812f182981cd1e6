//! Templates that exist in memory alone.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use skep_types::{LayerKey, Resources, Sharing, TemplateId, TemplateImage, TemplateReference};

use super::{LayerFiles, LayerInfo, ResolveError, TemplateInfo, Templates};
use crate::Team;

/// A fixed set of templates without files.
#[derive(Debug, Clone)]
pub struct FakeTemplates {
    templates: Vec<TemplateInfo>,
    sharing: Sharing,
}

impl FakeTemplates {
    /// Templates of these names that belong to everybody.
    pub fn named(names: &[&str]) -> Self {
        let template = |name: &&str| TemplateInfo {
            id: TemplateId::random(),
            names: vec![(*name).to_owned()],
            owner: None,
            public: true,
            resources: Resources::default(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        };
        Self {
            templates: names.iter().map(template).collect(),
            sharing: Sharing::default(),
        }
    }

    /// Sets the way in which public templates are shared.
    #[must_use]
    pub fn shared(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    /// One template more.
    #[must_use]
    pub fn with(mut self, template: TemplateInfo) -> Self {
        self.templates.push(template);
        self
    }

    fn find(
        &self,
        reference: &TemplateReference,
        team: &Team,
    ) -> Result<&TemplateInfo, ResolveError> {
        let mine = |template: &&TemplateInfo| template.owner.as_ref() == Some(&team.id);
        let named = |template: &&TemplateInfo| template.names.contains(&reference.identifier);
        let template = match &reference.namespace {
            Some(slug) => self
                .templates
                .iter()
                .find(|template| *slug == team.slug && named(template) && mine(template)),
            None => (self.templates.iter())
                .find(|template| named(template) && mine(template))
                .or_else(|| {
                    (self.templates.iter())
                        .find(|template| named(template) && template.owner.is_none())
                })
                .or_else(|| {
                    (self.templates.iter())
                        .find(|template| template.id.as_str() == reference.identifier)
                }),
        };
        let template = template.ok_or_else(|| ResolveError::not_found(reference, []))?;
        if !template.public && !mine(&template) {
            return Err(ResolveError::NoAccess(reference.clone()));
        }
        if reference.tag.is_some() {
            return Err(ResolveError::NoSuchTag(reference.clone()));
        }
        Ok(template)
    }
}

impl Templates for FakeTemplates {
    fn resolve<'a>(
        &'a self,
        reference: &'a TemplateReference,
        team: &'a Team,
    ) -> BoxFuture<'a, Result<TemplateImage, ResolveError>> {
        let image = self.find(reference, team).map(|template| TemplateImage {
            id: template.id.clone(),
            name: template.names.first().cloned().unwrap_or_default(),
            layers: Vec::new(),
            env: Vec::new(),
            user: "user".to_owned(),
            workdir: None,
            resources: template.resources,
            sharing: Sharing::of_owner(template.owner.as_ref(), self.sharing),
            start: None,
        });
        async move { image }.boxed()
    }

    fn find<'a>(
        &'a self,
        reference: &'a TemplateReference,
        team: &'a Team,
    ) -> BoxFuture<'a, Result<TemplateInfo, ResolveError>> {
        let found = self.find(reference, team).cloned();
        async move { found }.boxed()
    }

    fn list<'a>(
        &'a self,
        team: &'a Team,
    ) -> BoxFuture<'a, Result<Vec<TemplateInfo>, ResolveError>> {
        let visible = |template: &&TemplateInfo| {
            template.owner.is_none() || template.owner.as_ref() == Some(&team.id)
        };
        let list = self.templates.iter().filter(visible).cloned().collect();
        async move { Ok(list) }.boxed()
    }

    fn layers<'a>(
        &'a self,
        keys: &'a [LayerKey],
    ) -> BoxFuture<'a, Result<Vec<LayerInfo>, ResolveError>> {
        let layers = keys
            .iter()
            .map(|key| LayerInfo {
                key: *key,
                title: None,
                bytes: 0,
            })
            .collect();
        async move { Ok(layers) }.boxed()
    }

    fn files<'a>(
        &'a self,
        _keys: &'a [LayerKey],
        _most: usize,
    ) -> BoxFuture<'a, Result<LayerFiles, ResolveError>> {
        async move { Ok(LayerFiles::default()) }.boxed()
    }
}
