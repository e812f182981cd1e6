//! The host's settings for sandboxes, as one more layer.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use skep_types::TemplateImage;

use super::{HostSettings, bundle, npm, pip};
use crate::catalog::{Catalog, CatalogError};
use crate::key::KeyWriter;
use crate::store::StoreError;

const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
const SOURCES: &str = "/etc/apt/sources.list";

impl HostSettings {
    /// The image with one layer more, in which package clients find the host's certificates,
    /// proxies and mirrors. It works for `sudo` too, because it is files as well as variables.
    ///
    /// The layer is made once for each template and host and then only looked up, so this can
    /// be asked for every sandbox.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Store`] if the layer cannot be made.
    pub fn share(
        &self,
        catalog: &Catalog,
        image: &TemplateImage,
    ) -> Result<TemplateImage, CatalogError> {
        let store = catalog.store();
        let mut writer = KeyWriter::new("host-layer-1");
        writer.text(image.id.as_str()).key(&self.fingerprint);
        let key = writer.finish();
        if store.layer(&key)?.is_none() {
            let _building = store.build_lock()?;
            let _lock = store.lock(&key)?;
            // Somebody else may have made it while we waited for the lock.
            if store.layer(&key)?.is_none() {
                let draft = store.draft(&key)?;
                for (path, content) in self.layer_files(&image.layers) {
                    add_file(&draft.root(), &image.layers, path, &content)
                        .map_err(StoreError::files("write", path))?;
                }
                store.commit(draft, "package settings of the host")?;
            }
        }
        let mut shared = image.clone();
        shared.layers.push(store.layer_root(&key));
        shared.env.extend(self.proxy.iter().cloned());
        if self.bundle.is_some() {
            shared.env.extend(bundle::env(BUNDLE));
        }
        Ok(shared)
    }

    fn layer_files(&self, layers: &[PathBuf]) -> Vec<(&'static str, String)> {
        let bundle_path = self.bundle.is_some().then_some(Path::new(BUNDLE));
        let mut files = vec![
            (
                "/etc/apt/apt.conf.d/90host-settings",
                self.apt.configuration(None),
            ),
            // pip reads this one before `/etc/pip.conf`, which belongs to the template.
            ("/etc/xdg/pip/pip.conf", pip::render(&self.pip, bundle_path)),
            ("/etc/npmrc", npm::render(&self.npm, bundle_path)),
            ("/etc/uv/uv.toml", self.uv.render(bundle_path.is_some())),
        ];
        if let Some(own) = &self.bundle {
            let below = read_through(layers, BUNDLE).unwrap_or_default();
            files.push((BUNDLE, bundle::merge([below.as_str(), own].into_iter())));
        }
        if let (Some(mirror), Some(below)) = (self.apt.mirror(), read_through(layers, SOURCES)) {
            files.push((SOURCES, mirror.redirect(&below)));
        }
        files
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
    let folders: Vec<_> = path.ancestors().skip(1).collect();
    for folder in folders.into_iter().rev() {
        let own = root.join(folder);
        fs::create_dir_all(&own)?;
        // A folder of the highest layer decides who may do what in it, so it must be as it was.
        let below = layers
            .iter()
            .rev()
            .find_map(|layer| layer.join(folder).symlink_metadata().ok());
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
