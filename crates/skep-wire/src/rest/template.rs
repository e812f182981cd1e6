//! Templates in lists.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// State of a template's build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BuildStatus {
    /// It is being built.
    Building,
    /// Ordered, not begun.
    Waiting,
    /// It can be used.
    Ready,
    /// It could not be built.
    Error,
}

/// A template in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Unique id of the template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// The build behind its default tag.
    #[serde(rename = "buildID")]
    pub build_id: String,
    /// Processors of its sandboxes.
    pub cpu_count: u32,
    /// Memory of its sandboxes in MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Disk of its sandboxes in MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
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
    /// Nobody: teams have no members yet. The key is required, and may be `null`.
    pub created_by: Option<()>,
    /// Time at which a sandbox was last made of it. The key is required, and may be `null`.
    pub last_spawned_at: Option<Timestamp>,
    /// Number of sandboxes made of it.
    pub spawn_count: u64,
    /// Number of times it was built.
    pub build_count: u32,
    /// Version of the agent's protocol that its sandboxes speak.
    pub envd_version: String,
    /// State of its build.
    pub build_status: BuildStatus,
}

/// Answer of `GET /templates/aliases/{alias}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateAlias {
    /// The template that has the name.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// True if other teams may use it.
    pub public: bool,
}
