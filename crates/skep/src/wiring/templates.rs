//! Control's templates: those in the catalog.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use skep_control::{LayerFiles, LayerInfo, ResolveError, Team, TemplateInfo, Templates};
use skep_image::{Catalog, CatalogError, ImageCache, Listed};
use skep_packages::PackageSettings;
use skep_types::{LayerKey, Sharing, TeamId, TemplateImage, TemplateReference};

use crate::config::{Limits, Pool};

/// Owner of the templates of the catalog: everybody.
const OWNER: Option<&TeamId> = None;

/// The templates in the catalog. They belong to everybody and have one tag, the default.
///
/// What was found is remembered, so that the creation of a sandbox costs one look at a directory.
#[derive(Debug, Clone)]
pub(crate) struct CatalogTemplates {
    catalog: Arc<Catalog>,
    /// The layers of all templates, also of those that teams have built.
    built: Arc<Catalog>,
    /// Package registry settings for sandboxes, if the operator wants that.
    host: Option<Arc<PackageSettings>>,
    /// Largest limits of a sandbox.
    limits: Limits,
    /// Settings of pools and sharing.
    pool: Pool,
    cache: Arc<ImageCache>,
}

impl CatalogTemplates {
    /// The templates of the catalog that was opened in `cache_dir`, and the layers of those that are
    /// built on them.
    pub(crate) fn new(
        (catalog, built): (Arc<Catalog>, Arc<Catalog>),
        cache_dir: &Path,
        host: Option<Arc<PackageSettings>>,
        limits: Limits,
        pool: Pool,
    ) -> Self {
        Self {
            catalog,
            built,
            host,
            limits,
            pool,
            cache: Arc::new(ImageCache::new(cache_dir)),
        }
    }

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

    async fn image(&self, name: String) -> Result<Option<TemplateImage>, ResolveError> {
        let version = self.cache.version();
        if let Some(image) = version.and_then(|version| self.cache.find(version, &name)) {
            return Ok(Some(image));
        }
        let wanted = name.clone();
        let image = self
            .blocking(move |templates| templates.read(&wanted))
            .await?;
        if let (Some(version), Some(image)) = (version, &image) {
            self.cache.insert(version, name, image.clone());
        }
        Ok(image)
    }

    fn read(&self, name: &str) -> Result<Option<TemplateImage>, CatalogError> {
        let Some(image) = self.catalog.find(name)? else {
            return Ok(None);
        };
        let mut image = match &self.host {
            Some(host) => self.catalog.with_package_settings(&image, host)?,
            None => image,
        };
        image.resources = self.limits.bound(image.resources);
        image.sharing = self.sharing(&image);
        Ok(Some(image))
    }

    /// Says that there is no such template, and which one may be meant. What cannot be listed is
    /// not suggested.
    async fn not_found(&self, reference: &TemplateReference) -> ResolveError {
        let listed = self.blocking(|templates| templates.catalog.list()).await;
        let names: Vec<_> = listed
            .into_iter()
            .flatten()
            .flat_map(|listed| listed.names)
            .collect();
        ResolveError::not_found(reference, names.iter().map(String::as_str))
    }

    /// The rule for sharing what is warmed of a template. One of which it cannot be told whether
    /// it has a zygote is taken to have one.
    fn sharing(&self, image: &TemplateImage) -> Sharing {
        let has_zygote =
            skep_native::has_zygote(&self.catalog.layer_paths(image)).unwrap_or_else(|error| {
                tracing::warn!(%error, template = image.name, "cannot look for its zygote");
                true
            });
        Sharing::of_owner(OWNER, self.pool.sharing(has_zygote))
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
            let image = self.image(name).await?;
            let Some(image) = image else {
                return Err(self.not_found(reference).await);
            };
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
            let listed = self.list(team).await?;
            let is_it =
                |info: &&TemplateInfo| info.names.contains(&name) || info.id.as_str() == name;
            let found = listed.iter().find(is_it).cloned().ok_or_else(|| {
                let known = listed.iter().flat_map(|info| &info.names);
                ResolveError::not_found(reference, known.map(String::as_str))
            })?;
            default_tag(reference).map(|()| found)
        }
        .boxed()
    }

    fn list<'a>(
        &'a self,
        _team: &'a Team,
    ) -> BoxFuture<'a, Result<Vec<TemplateInfo>, ResolveError>> {
        async move {
            let listed = self
                .blocking(|templates| templates.catalog.list())
                .await?
                .into_iter();
            Ok(listed.map(|listed| self.info(listed)).collect())
        }
        .boxed()
    }

    fn layers<'a>(
        &'a self,
        keys: &'a [LayerKey],
    ) -> BoxFuture<'a, Result<Vec<LayerInfo>, ResolveError>> {
        let keys = keys.to_vec();
        async move {
            self.blocking(move |templates| {
                let info = |key: LayerKey| {
                    let record = templates.built.layer(key)?;
                    Ok(LayerInfo {
                        key,
                        bytes: record.as_ref().map_or(0, |record| record.bytes),
                        title: record.map(|record| record.title),
                    })
                };
                keys.into_iter().map(info).collect()
            })
            .await
        }
        .boxed()
    }

    fn files<'a>(
        &'a self,
        keys: &'a [LayerKey],
        most: usize,
    ) -> BoxFuture<'a, Result<LayerFiles, ResolveError>> {
        let keys = keys.to_vec();
        async move {
            self.blocking(move |templates| files_of(&templates.built, &keys, most))
                .await
        }
        .boxed()
    }
}

/// The files of layers, each as the highest of them has it.
fn files_of(catalog: &Catalog, keys: &[LayerKey], most: usize) -> Result<LayerFiles, CatalogError> {
    let mut all = LayerFiles::default();
    for key in keys {
        let has_more = catalog.each_file(*key, |path, file| {
            all.files.insert(path.to_owned(), file);
            all.files.len() < most
        })?;
        all.has_more |= has_more;
    }
    Ok(all)
}

/// The bare name. Templates of the catalog are in nobody's namespace.
fn everybodys(reference: &TemplateReference) -> Result<String, ResolveError> {
    match reference.namespace {
        None => Ok(reference.identifier.clone()),
        Some(_) => Err(ResolveError::not_found(reference, [])),
    }
}

fn default_tag(reference: &TemplateReference) -> Result<(), ResolveError> {
    match reference.tag {
        None => Ok(()),
        Some(_) => Err(ResolveError::NoSuchTag(reference.clone())),
    }
}

impl CatalogTemplates {
    fn info(&self, listed: Listed) -> TemplateInfo {
        let built_at = self.built_at(&listed.image);
        TemplateInfo {
            id: listed.image.id,
            names: listed.names,
            owner: OWNER.cloned(),
            public: true,
            resources: self.limits.bound(listed.image.resources),
            created_at: built_at,
            updated_at: built_at,
        }
    }

    /// A layer is put in its place when it is complete, and never changed again.
    fn built_at(&self, image: &TemplateImage) -> Timestamp {
        let top = image.layers.last().map(|key| self.catalog.layer_path(*key));
        top.and_then(|layer| layer.metadata().ok()?.modified().ok())
            .and_then(|modified| Timestamp::try_from(modified).ok())
            .unwrap_or(Timestamp::UNIX_EPOCH)
    }
}
