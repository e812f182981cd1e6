//! The templates of this host: found and listed.

mod manifest;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use skep_types::{LayerKey, Sharing, TemplateImage, TemplateStart};

use crate::key::ContentKey;
use crate::store::{LayerRecord, Store, StoreError};

pub(crate) use manifest::Manifest;

/// The templates in one directory, shared by every process that opens it.
#[derive(Debug, Clone)]
pub struct Catalog {
    store: Store,
    /// The store whose layers those of this one lie on, if it is not the lowest.
    below: Option<Store>,
}

/// A template as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Purpose of the template, in a sentence.
    pub description: String,
    /// The names it is found under: its own, then those of templates that are not built and
    /// that it stands in for.
    pub names: Vec<String>,
    /// The image that sandboxes are started from.
    pub image: TemplateImage,
    /// Layers of the template, the lowest first. Layers that templates share are listed with each.
    pub layers: Vec<LayerRecord>,
}

/// Failure to find or list a template.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The store could not be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A template's layer is gone. Building the template again brings it back.
    #[error("template `{template}` lacks its layer {}", layer.short())]
    LayerMissing {
        /// Name of the template.
        template: String,
        /// Key of the missing layer.
        layer: ContentKey,
    },
}

impl Catalog {
    /// Opens the catalog in `dir`, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Store`] if the directory cannot be used.
    pub fn open(dir: &Path) -> Result<Self, CatalogError> {
        Ok(Self {
            store: Store::open(dir)?,
            below: None,
        })
    }

    /// Opens the store in `dir` for layers that lie on those of this one: paths of both are known,
    /// and everything else is of the new one alone.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Store`] if the directory cannot be used.
    pub fn open_above(&self, dir: &Path) -> Result<Self, CatalogError> {
        Ok(Self {
            store: Store::open(dir)?,
            below: Some(self.store.clone()),
        })
    }

    /// Finds a template by its name or its id, or else the one that stands in for that name: of
    /// several the one with the most layers. `None` means that none has been built.
    ///
    /// # Errors
    ///
    /// [`CatalogError::LayerMissing`] if it was built but is no longer whole.
    pub fn find(&self, name_or_id: &str) -> Result<Option<TemplateImage>, CatalogError> {
        if let Some(manifest) = self.manifest(name_or_id)? {
            return self.image(&manifest).map(Some);
        }
        let manifests = self.manifests()?;
        let has_id = |manifest: &&Manifest| manifest.key.template_id().as_str() == name_or_id;
        manifests
            .iter()
            .find(has_id)
            .or_else(|| stand_in(&manifests, name_or_id))
            .map(|manifest| self.image(manifest))
            .transpose()
    }

    /// All templates, by name.
    ///
    /// # Errors
    ///
    /// [`CatalogError::LayerMissing`] if one of them is no longer whole.
    pub fn list(&self) -> Result<Vec<Listed>, CatalogError> {
        let manifests = self.manifests()?;
        let is_built = |name: &String| manifests.iter().any(|manifest| manifest.name == *name);
        let answers_to = |manifest: &Manifest, name: &String| {
            let answering = stand_in(&manifests, name);
            !is_built(name) && answering.is_some_and(|answering| answering.name == manifest.name)
        };
        manifests
            .iter()
            .map(|manifest| {
                let stood_in_for = manifest.stands_in_for.iter();
                let others = stood_in_for
                    .filter(|name| answers_to(manifest, name))
                    .cloned();
                Ok(Listed {
                    description: manifest.description.clone(),
                    names: std::iter::once(manifest.name.clone())
                        .chain(others)
                        .collect(),
                    image: self.image(manifest)?,
                    layers: self.records(manifest)?,
                })
            })
            .collect()
    }

    pub(crate) fn below(&self) -> Option<&Store> {
        self.below.as_ref()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Gives a finished template its name, in place of what had it before.
    pub(crate) fn publish(&self, manifest: &Manifest) -> Result<TemplateImage, CatalogError> {
        let image = self.image(manifest)?;
        let path = self
            .manifest_path(&manifest.name)
            .expect("a recipe's name is a name");
        self.store.replace_file(&path, &manifest.to_bytes())?;
        Ok(image)
    }

    /// The manifest of a template, by its name.
    pub(crate) fn manifest(&self, name: &str) -> Result<Option<Manifest>, StoreError> {
        let Some(path) = self.manifest_path(name) else {
            return Ok(None);
        };
        match fs::read(&path) {
            Ok(bytes) => Manifest::from_bytes(&bytes)
                .map(Some)
                .map_err(|source| StoreError::Damaged { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::files("read", path)(error)),
        }
    }

    fn manifests(&self) -> Result<Vec<Manifest>, StoreError> {
        let names = self.store.names_in("images")?;
        let named = names.iter().filter_map(|name| name.strip_suffix(".json"));
        named
            .filter_map(|name| self.manifest(name).transpose())
            .collect()
    }

    /// The file of a template; `None` if the text cannot be a name, so that it never becomes a
    /// path either.
    fn manifest_path(&self, name: &str) -> Option<PathBuf> {
        let valid = !name.is_empty()
            && name.len() <= 128
            && name.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte)
            });
        valid.then(|| self.store.path("images").join(format!("{name}.json")))
    }

    fn records(&self, manifest: &Manifest) -> Result<Vec<LayerRecord>, CatalogError> {
        manifest
            .layers
            .iter()
            .map(|key| {
                self.store
                    .layer(key)?
                    .ok_or_else(|| CatalogError::LayerMissing {
                        template: manifest.name.clone(),
                        layer: *key,
                    })
            })
            .collect()
    }

    /// Directory of a layer's files on this host.
    pub fn layer_path(&self, key: LayerKey) -> PathBuf {
        let own = self.store.layer_root(&key);
        match &self.below {
            Some(below) if !own.exists() => below.layer_root(&key),
            _ => own,
        }
    }

    /// Directories of the layers of an image, the lowest first.
    pub fn layer_paths(&self, image: &TemplateImage) -> Vec<PathBuf> {
        let paths = image.layers.iter().map(|key| self.layer_path(*key));
        paths.collect()
    }

    /// The image of a template, from which sandboxes are started.
    pub(crate) fn image(&self, manifest: &Manifest) -> Result<TemplateImage, CatalogError> {
        self.records(manifest)?;
        Ok(TemplateImage {
            id: manifest.key.template_id(),
            name: manifest.name.clone(),
            layers: manifest.layers.iter().map(ContentKey::layer).collect(),
            env: manifest.env.clone(),
            user: manifest.user.clone(),
            workdir: manifest.workdir.clone(),
            resources: manifest.resources,
            sharing: Sharing::default(),
            start: start_of(manifest).map(Box::new),
        })
    }
}

/// Commands of a template, run by its user.
fn start_of(manifest: &Manifest) -> Option<TemplateStart> {
    if manifest.start.is_none() && manifest.ready.is_none() {
        return None;
    }
    Some(TemplateStart {
        command: manifest.start.clone(),
        ready: manifest.ready.clone(),
        user: manifest.user.clone(),
        workdir: manifest.workdir.clone(),
        env: manifest.env.clone(),
    })
}

/// The template that answers to a name while no template of that name is built. One that has
/// more in it comes nearer to what was asked for.
fn stand_in<'a>(manifests: &'a [Manifest], name: &str) -> Option<&'a Manifest> {
    let stands_in = |manifest: &&Manifest| manifest.stands_in_for.iter().any(|other| other == name);
    let candidates = manifests.iter().filter(stands_in);
    candidates.max_by_key(|manifest| manifest.layers.len())
}
