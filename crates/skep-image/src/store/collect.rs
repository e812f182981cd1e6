//! Collection of what nobody needs any more.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use skep_telemetry::Chain;
use skep_types::{LayerKey, random_bytes};

use super::{LockOutcome, Store, StoreError, remove_tree};
use crate::catalog::Catalog;
use crate::key::ContentKey;
use crate::step_record::StepRecord;

/// Summary of what was removed from a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Number of results of steps.
    pub steps: usize,
    /// Number of layers.
    pub layers: usize,
    /// Bytes of the layers.
    pub bytes: u64,
}

impl Catalog {
    /// Removes results of steps that were not used since `before`, and layers that were not, that no
    /// result names which is left, and that are not `needed`. Layers of a store below stay. Blocks.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read. What cannot be removed is logged and stays.
    pub fn collect(
        &self,
        needed: &HashSet<LayerKey>,
        before: SystemTime,
    ) -> Result<Collected, StoreError> {
        let store = self.store();
        store.sweep()?;
        let mut collected = Collected::default();
        let mut named = HashSet::new();
        for name in store.names_in("steps")? {
            let path = store.path("steps").join(&name);
            if store.forget_step(&path, before)? {
                collected.steps += 1;
            } else if let Some(layer) = layer_of(&path) {
                named.insert(layer);
            }
        }
        for name in store.names_in("layers")? {
            let Ok(key) = name.parse::<ContentKey>() else {
                continue;
            };
            if needed.contains(&key.layer()) || named.contains(&key.layer()) {
                continue;
            }
            match store.forget_layer(&key, before) {
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    collected.layers += 1;
                    collected.bytes += bytes;
                }
                Err(error) => tracing::warn!(error = %Chain(&error), "a layer is not removed"),
            }
        }
        Ok(collected)
    }
}

impl Store {
    /// Removes the result of a step if it was not used since `before`.
    fn forget_step(&self, path: &Path, before: SystemTime) -> Result<bool, StoreError> {
        let _nothing_is_used = self.uses.lock();
        if !is_older(path, before)? {
            return Ok(false);
        }
        fs::remove_file(path).map_err(StoreError::files("remove", path))?;
        Ok(true)
    }

    /// Removes a layer if it was not used since `before`, and returns its bytes.
    fn forget_layer(
        &self,
        key: &ContentKey,
        before: SystemTime,
    ) -> Result<Option<u64>, StoreError> {
        let LockOutcome::Held(_lock) = self.try_lock(key)? else {
            return Ok(None);
        };
        let layer = self.path("layers").join(key.to_string());
        // A name of those that the next sweep removes, if this server does not come to it.
        let name = format!("{key}.{}", hex::encode(random_bytes::<4>()));
        let going = self.path("building").join(name);
        let record = {
            let _nothing_is_used = self.uses.lock();
            if !is_older(&self.layer_record(key), before)? {
                return Ok(None);
            }
            let record = self.layer(key)?;
            fs::rename(&layer, &going).map_err(StoreError::files("take away", &layer))?;
            record
        };
        remove_tree(&going)?;
        for left in [self.log_path(key), self.path("locks").join(key.to_string())] {
            match fs::remove_file(&left) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::files("remove", left)(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(Some(record.map_or(0, |record| record.bytes)))
    }
}

/// Returns true if a file was last used before a moment. One that is gone was not.
fn is_older(path: &Path, before: SystemTime) -> Result<bool, StoreError> {
    match fs::metadata(path).and_then(|found| found.modified()) {
        Ok(used) => Ok(used < before),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::files("look at", path)(error)),
    }
}

/// The layer that the result of a step names. One that cannot be read names none.
fn layer_of(path: &Path) -> Option<LayerKey> {
    let record = StepRecord::from_bytes(&fs::read(path).ok()?).ok()?;
    record.layer.map(|layer| layer.layer())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::{LayerStart, StepContext};

    /// A store with a layer for each name, made by a step of the same key.
    fn store_with(names: &[&str]) -> (tempfile::TempDir, Catalog) {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(directory.path()).unwrap();
        for name in names {
            let LayerStart::Draft(draft) = catalog.start_layer(&key(name)).unwrap() else {
                panic!("it is there already");
            };
            fs::write(draft.root().join("file"), name).unwrap();
            draft.commit(name).unwrap();
            let record = StepRecord {
                state: key(name),
                layer: Some(key(name)),
                bytes: 4096,
                context: StepContext {
                    user: "root".to_owned(),
                    work_directory: None,
                    environment: BTreeMap::new(),
                },
            };
            catalog.record_step(&key(name), &record).unwrap();
        }
        (directory, catalog)
    }

    fn key(name: &str) -> ContentKey {
        ContentKey::of("test", [name.as_bytes()])
    }

    /// Makes everything of a name look as if nobody had used it for a day.
    fn age(catalog: &Catalog, name: &str) {
        let store = catalog.store();
        let long_ago = SystemTime::now() - Duration::from_hours(24);
        let step = store.path("steps").join(format!("{}.json", key(name)));
        for path in [step, store.layer_record(&key(name))] {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(long_ago).unwrap();
        }
    }

    fn an_hour_ago() -> SystemTime {
        SystemTime::now() - Duration::from_hours(1)
    }

    #[test]
    fn what_nobody_has_used_for_long_goes_and_what_is_needed_stays() {
        let (_directory, catalog) = store_with(&["old", "needed", "used"]);
        for name in ["old", "needed", "used"] {
            age(&catalog, name);
        }
        // A build that finds a result uses it.
        assert!(catalog.step(&key("used")).unwrap().is_some());
        let needed = HashSet::from([key("needed").layer()]);
        let collected = catalog.collect(&needed, an_hour_ago()).unwrap();
        assert_eq!((collected.steps, collected.layers), (2, 1));
        assert!(collected.bytes >= 4096);
        let is_there = |name| catalog.layer_path(key(name).layer()).exists();
        assert!(!is_there("old") && is_there("needed") && is_there("used"));
        assert_eq!(catalog.step(&key("old")).unwrap(), None);
        assert!(catalog.step(&key("used")).unwrap().is_some());
        assert_eq!(catalog.store().names_in("locks").unwrap().len(), 2);
        // What was made is never half there: it can be made again.
        assert!(matches!(
            catalog.start_layer(&key("old")).unwrap(),
            LayerStart::Draft(_)
        ));
    }

    #[test]
    fn a_layer_of_the_store_below_is_known_and_never_collected() {
        let (_below, below) = store_with(&["base"]);
        age(&below, "base");
        let directory = tempfile::tempdir().unwrap();
        let above = below.open_above(directory.path()).unwrap();
        let collected = above.collect(&HashSet::new(), SystemTime::now()).unwrap();
        assert_eq!(collected, Collected::default());
        assert!(above.layer_path(key("base").layer()).exists());
        assert_eq!(above.step(&key("base")).unwrap(), None);
    }
}
