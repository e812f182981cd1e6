//! Versions of templates, of which only Skep tells this much.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{BuildStatus, BuildStep};

/// Answer of `GET /skep/templates/{id}`: one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateVersion {
    /// Unique id of the template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Its names with their namespaces.
    pub names: Vec<String>,
    /// True if other teams may use it.
    pub public: bool,
    /// The version in short.
    #[serde(flatten)]
    pub version: VersionSummary,
    /// Image that it was built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_image: Option<String>,
    /// Template that it was built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_template: Option<String>,
    /// Steps of the build.
    pub steps: Vec<BuildStep>,
    /// User of its commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Directory of its commands, if it is not the user's home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Variables of its commands.
    pub env_vars: BTreeMap<String, String>,
    /// Command that runs in every sandbox of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_cmd: Option<String>,
    /// Command that succeeds once a sandbox is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_cmd: Option<String>,
    /// Its layers, the lowest first.
    pub layers: Vec<VersionLayer>,
}

/// A version in a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionSummary {
    /// The build that made it.
    #[serde(rename = "buildID")]
    pub build_id: String,
    /// Id of what is in it, once it is ready.
    #[serde(rename = "contentID", default, skip_serializing_if = "Option::is_none")]
    pub content_id: Option<String>,
    /// State of the build.
    pub status: BuildStatus,
    /// Tags that mean this version.
    pub tags: Vec<String>,
    /// Bytes that it takes beyond its base, once it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Time of the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Time of the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// Reason of its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Processors of its sandboxes.
    pub cpu_count: u32,
    /// Memory of its sandboxes in MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Disk of its sandboxes in MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
}

/// A layer of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionLayer {
    /// Its key: the same layer has the same in every version.
    pub key: String,
    /// The step that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Bytes that it takes.
    pub bytes: u64,
}

/// Answer of `GET /skep/templates/{id}/builds`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateVersions {
    /// Unique id of the template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Its names with their namespaces.
    pub names: Vec<String>,
    /// True if other teams may use it.
    pub public: bool,
    /// Its versions, the newest first. A template that belongs to everybody has none.
    pub builds: Vec<VersionSummary>,
}

/// Answer of `GET /skep/templates/{id}/files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionFiles {
    /// Files of the layers, by path.
    pub files: Vec<VersionFile>,
    /// True if there are more.
    pub has_more: bool,
}

/// A file in the layers of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionFile {
    /// Its path.
    pub path: String,
    /// `file`, `directory`, or `removed` if a layer takes it away.
    #[serde(rename = "type")]
    pub kind: VersionFileKind,
    /// Its bytes.
    pub size: u64,
    /// Its permissions.
    pub mode: u32,
    /// Time of its last change.
    pub modified_at: Timestamp,
}

/// Kind of a file in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VersionFileKind {
    /// A file, or something else that is no directory.
    File,
    /// A directory.
    Directory,
    /// The mark that a file of a lower layer is gone.
    Removed,
}
