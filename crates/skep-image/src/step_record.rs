//! Results of steps that somebody else carries out.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::key::ContentKey;
use crate::store::StoreError;

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRecord {
    /// Everything that led to it. The keys of what follows are made of it.
    pub state: ContentKey,
    /// Its layer, if it has changed files.
    pub layer: Option<ContentKey>,
    /// Bytes of the layer.
    pub bytes: u64,
    /// State that it leaves to the next step.
    pub context: StepContext,
}

/// Environment, user and directory after a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepContext {
    /// User of commands.
    pub user: String,
    /// Directory of commands, if it is not the user's home.
    pub work_directory: Option<String>,
    /// Variables of commands.
    pub environment: BTreeMap<String, String>,
}

/// The form on disk.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    state: String,
    layer: Option<String>,
    bytes: u64,
    context: StepContext,
}

impl Catalog {
    /// The result of the step with this key, if it was carried out and its layer is there. Both are
    /// in use from then on: they are not collected as long as what was used is kept.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it cannot be read.
    pub fn step(&self, key: &ContentKey) -> Result<Option<StepRecord>, StoreError> {
        self.store().while_nothing_goes(|| self.step_now(key))
    }

    fn step_now(&self, key: &ContentKey) -> Result<Option<StepRecord>, StoreError> {
        let path = self.step_path(key);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::files("read", path)(error)),
        };
        let record = StepRecord::from_bytes(&bytes).map_err(|source| StoreError::Damaged {
            path: path.clone(),
            source,
        })?;
        let store = self.store();
        if let Some(layer) = &record.layer {
            if store.layer(layer)?.is_none() {
                return Ok(None);
            }
            store.touch(&store.layer_record(layer))?;
        }
        store.touch(&path)?;
        Ok(Some(record))
    }

    /// Remembers the result of a step, in place of an earlier one.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it cannot be written.
    pub fn record_step(&self, key: &ContentKey, record: &StepRecord) -> Result<(), StoreError> {
        let document = Document {
            state: record.state.to_string(),
            layer: record.layer.as_ref().map(ContentKey::to_string),
            bytes: record.bytes,
            context: record.context.clone(),
        };
        let bytes = serde_json::to_vec(&document).expect("texts and numbers");
        self.store().replace_file(&self.step_path(key), &bytes)
    }

    fn step_path(&self, key: &ContentKey) -> PathBuf {
        self.store().path("steps").join(format!("{key}.json"))
    }
}

impl StepRecord {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let document: Document = serde_json::from_slice(bytes)?;
        let key = |text: &String| text.parse().map_err(serde::de::Error::custom);
        Ok(Self {
            state: key(&document.state)?,
            layer: document.layer.as_ref().map(key).transpose()?,
            bytes: document.bytes,
            context: document.context,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer_draft::LayerStart;

    fn record(layer: Option<ContentKey>) -> StepRecord {
        StepRecord {
            state: ContentKey::of("state", [&b"x"[..]]),
            layer,
            bytes: 7,
            context: StepContext {
                user: "user".to_owned(),
                work_directory: Some("/app".to_owned()),
                environment: BTreeMap::from([("A".to_owned(), "b\nc".to_owned())]),
            },
        }
    }

    #[test]
    fn a_step_is_found_as_long_as_its_layer_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(directory.path()).unwrap();
        let key = ContentKey::of("test", [&b"step"[..]]);
        assert_eq!(catalog.step(&key).unwrap(), None);
        catalog.record_step(&key, &record(None)).unwrap();
        assert_eq!(catalog.step(&key).unwrap(), Some(record(None)));

        let layer = ContentKey::of("test", [&b"layer"[..]]);
        catalog.record_step(&key, &record(Some(layer))).unwrap();
        assert_eq!(catalog.step(&key).unwrap(), None);
        let LayerStart::Draft(draft) = catalog.start_layer(&layer).unwrap() else {
            panic!("somebody else makes it");
        };
        fs::write(draft.root().join("file"), "x").unwrap();
        draft.commit("a step").unwrap();
        assert_eq!(catalog.step(&key).unwrap(), Some(record(Some(layer))));
    }
}
