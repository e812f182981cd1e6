//! Builds of templates.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{BuildStatus, LogLevel};

/// Body of `POST /v3/templates` and `POST /v2/templates`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewTemplate {
    /// Name, with a namespace before it and a tag after it if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The same, as older clients call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// More tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Processors of its sandboxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_count: Option<i64>,
    /// Memory of its sandboxes in MiB.
    #[serde(default, rename = "memoryMB", skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<i64>,
    /// Disk in MiB that its sandboxes have free at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_free_disk_mb: Option<i64>,
    /// The team of the key; another is refused.
    #[serde(default, rename = "teamID", skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
}

/// Answer to a request for a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedTemplate {
    /// The template, stable over its builds.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// The build that waits to be started.
    #[serde(rename = "buildID")]
    pub build_id: String,
    /// True if other teams may use it.
    pub public: bool,
    /// Its names with their namespaces.
    pub names: Vec<String>,
    /// Tags that the build will have.
    pub tags: Vec<String>,
    /// Its bare names.
    pub aliases: Vec<String>,
}

/// Answer of `GET /templates/{id}/files/{hash}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileUpload {
    /// True if nothing has to be uploaded.
    pub present: bool,
    /// Address to which the archive is put, without a key.
    pub url: String,
}

/// Body of `POST /v2/templates/{id}/builds/{build}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartBuild {
    /// Image of a registry that it begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_image: Option<String>,
    /// Template that it begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_template: Option<String>,
    /// Credentials for the registry of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_image_registry: Option<ImageRegistry>,
    /// True to reuse nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Steps, in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<BuildStep>>,
    /// Command that runs in every sandbox of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_cmd: Option<String>,
    /// Command that succeeds once a sandbox is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_cmd: Option<String>,
}

/// Credentials for a registry. What each kind needs is checked where it is read.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageRegistry {
    /// `registry`, `aws` or `gcp`.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// User name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password or access token of that user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Id of an access key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_access_key_id: Option<String>,
    /// Secret of that key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_secret_access_key: Option<String>,
    /// Region of the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_region: Option<String>,
    /// A service account, as the text of its JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_json: Option<String>,
}

impl std::fmt::Debug for ImageRegistry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = formatter.debug_struct("ImageRegistry");
        debug.field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// One step of a build. Clients send more keys, which are for themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildStep {
    /// `RUN`, `COPY`, `ENV`, `WORKDIR` or `USER`, among others.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its arguments, which each type has of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Name of the files that it copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_hash: Option<String>,
    /// Template that a `COPY_FROM` copies from. Only our own client sends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_template: Option<String>,
    /// True to do it and all that follow anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// Answer of `GET /templates/{id}/builds/{build}/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildInfo {
    /// The template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// The build.
    #[serde(rename = "buildID")]
    pub build_id: String,
    /// State of the build.
    pub status: BuildStatus,
    /// Always empty: lines of builds by a pushed image. The key is required.
    pub logs: Vec<String>,
    /// Lines of the log from the offset on.
    pub log_entries: Vec<BuildLogEntry>,
    /// Reason of the failure. Python fails on `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<BuildReason>,
}

/// Reason of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildReason {
    /// The reason.
    pub message: String,
    /// `base`, `finalize`, or the number of a step. Clients make a line of their caller's of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Lines of that step on this page that are warnings or errors.
    pub log_entries: Vec<BuildLogEntry>,
}

/// One line in the log of a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildLogEntry {
    /// Time of the event.
    pub timestamp: Timestamp,
    /// Severity of the event.
    pub level: LogLevel,
    /// One line.
    pub message: String,
    /// `base`, `finalize`, or the number of the step that it is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// Answer of `GET /templates/{id}/builds/{build}/logs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildLogs {
    /// Lines in the order asked for.
    pub logs: Vec<BuildLogEntry>,
}

/// Body of `POST /templates/tags`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignTags {
    /// Name of a template, with a tag or a build after a colon if there is one.
    pub target: String,
    /// Tags that it is to have.
    pub tags: Vec<String>,
}

/// Answer of `POST /templates/tags`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignedTags {
    /// The tags, as they are kept.
    pub tags: Vec<String>,
    /// The build that has them now.
    #[serde(rename = "buildID")]
    pub build_id: String,
}

/// Body of `DELETE /templates/tags`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveTags {
    /// Name of a template, without a tag.
    pub name: String,
    /// Tags that it is to lose.
    pub tags: Vec<String>,
}

/// A tag in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateTag {
    /// The tag.
    pub tag: String,
    /// The build that was last given it.
    #[serde(rename = "buildID")]
    pub build_id: String,
    /// Time at which that was.
    pub created_at: Timestamp,
}

/// Body of `PATCH /templates/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateTemplate {
    /// True to let other teams use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public: Option<bool>,
}

/// Answer of `PATCH /v2/templates/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdatedTemplate {
    /// Names under which others find it.
    pub names: Vec<String>,
}

/// Answer of `GET /templates/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateWithBuilds {
    /// Unique id of the template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// True if other teams may use it.
    pub public: bool,
    /// Its bare names.
    pub aliases: Vec<String>,
    /// Its names with their namespaces.
    pub names: Vec<String>,
    /// Time at which it was made.
    pub created_at: Timestamp,
    /// Time of its last change.
    pub updated_at: Timestamp,
    /// Time at which a sandbox was last made of it. The key is required, and may be `null`.
    pub last_spawned_at: Option<Timestamp>,
    /// Number of sandboxes made of it.
    pub spawn_count: u64,
    /// Its builds, the newest first.
    pub builds: Vec<TemplateBuild>,
}

/// A build in the history of its template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateBuild {
    /// The build.
    #[serde(rename = "buildID")]
    pub build_id: String,
    /// State of the build.
    pub status: BuildStatus,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Time of its last change.
    pub updated_at: Timestamp,
    /// Time of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// Processors of its sandboxes.
    pub cpu_count: u32,
    /// Memory of its sandboxes in MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Disk of its sandboxes in MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// Version of the agent's protocol that its sandboxes speak.
    pub envd_version: String,
}
