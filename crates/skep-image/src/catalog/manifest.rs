//! Manifests of finished templates.

use serde::{Deserialize, Serialize};
use skep_types::Resources;

use crate::key::ContentKey;

/// A template as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Names under which it is found while no template of that name is built.
    pub(crate) stands_in_for: Vec<String>,
    /// The key of everything in it, settings without a layer included.
    pub(crate) key: ContentKey,
    /// Layers of the template, the lowest first.
    pub(crate) layers: Vec<ContentKey>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) user: String,
    pub(crate) workdir: Option<String>,
    pub(crate) resources: Resources,
    /// Command that each of its sandboxes starts with.
    pub(crate) start: Option<String>,
    /// Command that succeeds when that is ready.
    pub(crate) ready: Option<String>,
}

/// The form on disk. It is apart from the types of the domain, which may change.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: Format,
    name: String,
    description: String,
    /// Templates of earlier versions stand in for nothing.
    #[serde(default)]
    stands_in_for: Vec<String>,
    key: String,
    layers: Vec<String>,
    env: Vec<(String, String)>,
    user: String,
    workdir: Option<String>,
    cpus: u32,
    memory_mib: u32,
    disk_mib: u32,
    pids: u32,
    /// Left out where there is none, as in templates of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ready: Option<String>,
}

#[derive(Serialize, Deserialize)]
enum Format {
    #[serde(rename = "skep-template-1")]
    First,
}

impl Manifest {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let document = Document {
            format: Format::First,
            name: self.name.clone(),
            description: self.description.clone(),
            stands_in_for: self.stands_in_for.clone(),
            key: self.key.to_string(),
            layers: self.layers.iter().map(ContentKey::to_string).collect(),
            env: self.env.clone(),
            user: self.user.clone(),
            workdir: self.workdir.clone(),
            cpus: self.resources.cpus,
            memory_mib: self.resources.memory_mib,
            disk_mib: self.resources.disk_mib,
            pids: self.resources.pids,
            start: self.start.clone(),
            ready: self.ready.clone(),
        };
        serde_json::to_vec_pretty(&document).expect("texts and numbers")
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let document: Document = serde_json::from_slice(bytes)?;
        let key = |text: &String| text.parse().map_err(serde::de::Error::custom);
        Ok(Self {
            key: key(&document.key)?,
            layers: document.layers.iter().map(key).collect::<Result<_, _>>()?,
            name: document.name,
            description: document.description,
            stands_in_for: document.stands_in_for,
            env: document.env,
            user: document.user,
            workdir: document.workdir,
            resources: Resources {
                cpus: document.cpus,
                memory_mib: document.memory_mib,
                disk_mib: document.disk_mib,
                pids: document.pids,
            },
            start: document.start,
            ready: document.ready,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyWriter;

    #[test]
    fn a_manifest_reads_back() {
        let manifest = Manifest {
            name: "base".to_owned(),
            description: "x".to_owned(),
            stands_in_for: vec!["other".to_owned()],
            key: KeyWriter::new("a").finish(),
            layers: vec![KeyWriter::new("b").finish()],
            env: vec![("A".to_owned(), "=\n\"".to_owned())],
            user: "user".to_owned(),
            workdir: None,
            resources: Resources::default(),
            start: Some("x &".to_owned()),
            ready: None,
        };
        let bytes = manifest.to_bytes();
        assert_eq!(Manifest::from_bytes(&bytes).unwrap(), manifest);
    }
}
