//! Last known meanings of references, for the time when a registry does not answer.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::manifest::Part;
use crate::pull::Resolved;
use crate::reference::Reference;

/// References that are remembered; beyond that the oldest is forgotten.
const MOST: usize = 1000;

/// A directory with a file for each reference.
#[derive(Debug, Clone)]
pub(crate) struct LastVersions(pub(crate) PathBuf);

#[derive(Serialize, Deserialize)]
struct Record {
    digest: String,
    layers: Vec<Layer>,
    environment: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
struct Layer {
    blob: String,
    size: u64,
    content: String,
}

impl LastVersions {
    /// Last known meaning of a reference; `None` if nothing is known, or nothing that can be read. Blocks.
    pub(crate) fn find(&self, reference: &Reference) -> Option<Resolved> {
        let bytes = fs::read(self.path(reference)).ok()?;
        let record: Record = serde_json::from_slice(&bytes).ok()?;
        let layers = record.layers.iter().map(|layer| {
            let part = Part {
                digest: layer.blob.parse().ok()?,
                size: layer.size,
            };
            Some((part, layer.content.parse().ok()?))
        });
        Some(Resolved {
            digest: record.digest.parse().ok()?,
            layers: layers.collect::<Option<Vec<_>>>()?,
            environment: record.environment,
        })
    }

    /// Remembers what a reference means. Blocks.
    pub(crate) fn remember(&self, reference: &Reference, image: &Resolved) -> io::Result<()> {
        let record = Record {
            digest: image.digest.to_string(),
            layers: image
                .layers
                .iter()
                .map(|(part, content)| Layer {
                    blob: part.digest.to_string(),
                    size: part.size,
                    content: content.to_string(),
                })
                .collect(),
            environment: image.environment.clone(),
        };
        fs::create_dir_all(&self.0)?;
        let path = self.path(reference);
        if !path.exists() {
            self.make_room()?;
        }
        // Half of a file is none, which costs a question to the registry.
        fs::write(&path, serde_json::to_vec(&record)?)
    }

    fn make_room(&self) -> io::Result<()> {
        let files = fs::read_dir(&self.0)?.collect::<io::Result<Vec<_>>>()?;
        if files.len() < MOST {
            return Ok(());
        }
        let changed = |path: &Path| fs::metadata(path).and_then(|found| found.modified());
        let oldest = files
            .iter()
            .map(fs::DirEntry::path)
            .min_by_key(|path| changed(path).ok());
        oldest.map_or(Ok(()), fs::remove_file)
    }

    fn path(&self, reference: &Reference) -> PathBuf {
        let name = Digest::of(reference.to_string().as_bytes()).to_string();
        self.0.join(name.replace("sha256:", ""))
    }
}
