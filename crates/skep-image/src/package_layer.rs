//! The host's package settings for sandboxes, as one more layer.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use skep_packages::PackageSettings;
use skep_types::TemplateImage;

use crate::catalog::{Catalog, CatalogError};
use crate::key::KeyWriter;
use crate::store::StoreError;

impl Catalog {
    /// The image with one layer more, in which package clients find the host's certificates,
    /// proxies and mirrors.
    ///
    /// The layer is made once for each template and host and then only looked up, so this can
    /// be asked for every sandbox.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Store`] if the layer cannot be made.
    pub fn with_package_settings(
        &self,
        image: &TemplateImage,
        settings: &PackageSettings,
    ) -> Result<TemplateImage, CatalogError> {
        let store = self.store();
        let mut fingerprint = KeyWriter::new("host-settings");
        for part in settings.parts() {
            fingerprint.text(&part);
        }
        let mut writer = KeyWriter::new("host-layer-1");
        writer.text(image.id.as_str()).key(&fingerprint.finish());
        let key = writer.finish();
        if store.layer(&key)?.is_none() {
            let _lock = store.lock(&key)?;
            // Somebody else may have made it while we waited for the lock.
            if store.layer(&key)?.is_none() {
                let draft = store.draft(&key)?;
                let layers = self.layer_paths(image);
                let read = |path: &str| read_through(&layers, path);
                for (path, content) in settings.files_for_sandbox(read) {
                    add_file(&draft.root(), &layers, path, &content)
                        .map_err(StoreError::files("write", path))?;
                }
                store.commit(draft, "package settings of the host")?;
            }
        }
        let mut shared = image.clone();
        shared.layers.push(key.layer());
        shared.env.extend(settings.env_for_sandbox());
        Ok(shared)
    }
}

/// A file as a template shows it: from the highest layer that has it.
pub(crate) fn read_through(layers: &[PathBuf], path: &str) -> Option<String> {
    let path = path.trim_start_matches('/');
    layers
        .iter()
        .rev()
        .map(|layer| layer.join(path))
        .find(|path| path.symlink_metadata().is_ok())
        .and_then(|path| fs::read_to_string(path).ok())
}

fn add_file(root: &Path, layers: &[PathBuf], path: &str, content: &str) -> io::Result<()> {
    let path = Path::new(path.trim_start_matches('/'));
    let directories: Vec<_> = path.ancestors().skip(1).collect();
    for directory in directories.into_iter().rev() {
        let own = root.join(directory);
        fs::create_dir_all(&own)?;
        // A directory of the highest layer decides who may do what in it, so it must be as it was.
        let below = layers
            .iter()
            .rev()
            .find_map(|layer| layer.join(directory).symlink_metadata().ok());
        let (mode, user, group) = below.map_or((0o755, 0, 0), |below| {
            (below.permissions().mode(), below.uid(), below.gid())
        });
        fs::set_permissions(&own, fs::Permissions::from_mode(mode & 0o7777))?;
        chown(&own, Some(user), Some(group))?;
    }
    let file = root.join(path);
    fs::write(&file, content)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644))
}
