//! Control's templates: those in the catalog.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use skep_control::{ResolveError, Team, TemplateInfo, Templates};
use skep_image::{Catalog, CatalogError, HostSettings, Listed};
use skep_types::{TemplateImage, TemplateReference};

/// The templates in the catalog. They belong to everybody and have one tag, the default.
#[derive(Debug, Clone)]
pub(crate) struct CatalogTemplates {
    pub(crate) catalog: Arc<Catalog>,
    /// What sandboxes are told about package registries, if the operator wants that.
    pub(crate) host: Option<Arc<HostSettings>>,
}

impl CatalogTemplates {
    /// Runs `look_up` where blocking is allowed: the catalog is files.
    async fn blocking<T: Send + 'static>(
        &self,
        look_up: impl FnOnce(&Self) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, ResolveError> {
        let templates = self.clone();
        let found = tokio::task::spawn_blocking(move || look_up(&templates)).await;
        match found {
            Ok(found) => found.map_err(|error| ResolveError::Failed(Box::new(error))),
            Err(panicked) => Err(ResolveError::Failed(Box::new(panicked))),
        }
    }

    fn image(&self, name: &str) -> Result<Option<TemplateImage>, CatalogError> {
        let Some(image) = self.catalog.find(name)? else {
            return Ok(None);
        };
        match &self.host {
            Some(host) => host.share(&self.catalog, &image).map(Some),
            None => Ok(Some(image)),
        }
    }
}

impl Templates for CatalogTemplates {
    fn resolve<'a>(
        &'a self,
        reference: &'a TemplateReference,
        _team: &'a Team,
    ) -> BoxFuture<'a, Result<TemplateImage, ResolveError>> {
        async move {
            let name = everybodys(reference)?;
            let image = self
                .blocking(move |templates| templates.image(&name))
                .await?;
            let image = image.ok_or_else(|| ResolveError::NotFound(reference.clone()))?;
            default_tag(reference).map(|()| image)
        }
        .boxed()
    }

    fn find<'a>(
        &'a self,
        reference: &'a TemplateReference,
        team: &'a Team,
    ) -> BoxFuture<'a, Result<TemplateInfo, ResolveError>> {
        async move {
            let name = everybodys(reference)?;
            let found = self
                .list(team)
                .await?
                .into_iter()
                .find(|info| info.names.contains(&name) || info.id.as_str() == name)
                .ok_or_else(|| ResolveError::NotFound(reference.clone()))?;
            default_tag(reference).map(|()| found)
        }
        .boxed()
    }

    fn list<'a>(
        &'a self,
        _team: &'a Team,
    ) -> BoxFuture<'a, Result<Vec<TemplateInfo>, ResolveError>> {
        async move {
            let listed = self.blocking(|templates| templates.catalog.list()).await?;
            Ok(listed.into_iter().map(info).collect())
        }
        .boxed()
    }
}

/// The bare name. Templates of the catalog are in nobody's namespace.
fn everybodys(reference: &TemplateReference) -> Result<String, ResolveError> {
    match reference.namespace {
        None => Ok(reference.identifier.clone()),
        Some(_) => Err(ResolveError::NotFound(reference.clone())),
    }
}

fn default_tag(reference: &TemplateReference) -> Result<(), ResolveError> {
    match reference.tag {
        None => Ok(()),
        Some(_) => Err(ResolveError::NoSuchTag(reference.clone())),
    }
}

fn info(listed: Listed) -> TemplateInfo {
    let built_at = built_at(&listed.image);
    TemplateInfo {
        id: listed.image.id,
        names: vec![listed.image.name],
        owner: None,
        public: true,
        resources: listed.image.resources,
        created_at: built_at,
        updated_at: built_at,
    }
}

/// A layer is put in its place when it is complete, and never changed again.
fn built_at(image: &TemplateImage) -> Timestamp {
    let top = image.layers.last().and_then(|layer| layer.metadata().ok());
    top.and_then(|metadata| metadata.modified().ok())
        .and_then(|modified| Timestamp::try_from(modified).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH)
}
