//! Looks at the layers of a template.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use skep_types::{LayerFile, LayerKey};

use crate::catalog::{Catalog, CatalogError};
use crate::store::{LayerRecord, StoreError};

impl Catalog {
    /// Describes a layer; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// [`CatalogError`] if it cannot be read.
    pub fn layer(&self, key: LayerKey) -> Result<Option<LayerRecord>, CatalogError> {
        let key = key.to_string().parse();
        let Ok(key) = key else { return Ok(None) };
        match (self.store().layer(&key)?, self.below()) {
            (None, Some(below)) => Ok(below.layer(&key)?),
            (found, _) => Ok(found),
        }
    }

    /// Calls `look` with the path from the root and the description of each file of a layer, until it
    /// returns false; says whether it did. Directories come before what is in them. Follows no link.
    ///
    /// # Errors
    ///
    /// [`CatalogError`] if it cannot be read.
    pub fn each_file(
        &self,
        key: LayerKey,
        mut look: impl FnMut(&str, LayerFile) -> bool,
    ) -> Result<bool, CatalogError> {
        let root = self.layer_path(key);
        let mut waiting = vec![PathBuf::new()];
        while let Some(directory) = waiting.pop() {
            for path in names_in(&root, &directory)? {
                let full = root.join(&path);
                let found = fs::symlink_metadata(&full).map_err(StoreError::files("read", full))?;
                let kind = found.file_type();
                let file = LayerFile {
                    // An overlay marks what is gone by a device of no number.
                    is_removed: kind.is_char_device() && found.rdev() == 0,
                    is_directory: kind.is_dir(),
                    bytes: if kind.is_file() { found.len() } else { 0 },
                    mode: found.mode() & 0o7777,
                    modified: found.mtime(),
                };
                if !look(&format!("/{}", path.to_string_lossy()), file) {
                    return Ok(true);
                }
                if kind.is_dir() {
                    waiting.push(path);
                }
            }
        }
        Ok(false)
    }
}

/// Lists a directory below the root, in the order of names.
fn names_in(root: &Path, directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let full = root.join(directory);
    let failed = || StoreError::files("read", full.clone());
    let mut paths = Vec::new();
    for entry in fs::read_dir(&full).map_err(failed())? {
        paths.push(directory.join(entry.map_err(failed())?.file_name()));
    }
    paths.sort();
    Ok(paths)
}
