//! Templates in lists.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Whether a template can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BuildStatus {
    /// Being built.
    Building,
    /// Ordered, not begun.
    Waiting,
    /// It can.
    Ready,
    /// It could not be built.
    Error,
}

/// A template in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Its id.
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
    /// Whether other teams may use it.
    pub public: bool,
    /// Its bare names.
    pub aliases: Vec<String>,
    /// Its names with their namespaces.
    pub names: Vec<String>,
    /// Since when it is there.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Nobody: teams have no members yet. The key is required, and may be `null`.
    pub created_by: Option<()>,
    /// When a sandbox was last made of it. The key is required, and may be `null`.
    pub last_spawned_at: Option<Timestamp>,
    /// How many sandboxes were made of it.
    pub spawn_count: u64,
    /// How often it was built.
    pub build_count: u32,
    /// Which version of the agent's protocol its sandboxes speak.
    pub envd_version: String,
    /// Whether it can be used.
    pub build_status: BuildStatus,
}

/// `GET /templates/aliases/{alias}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateAlias {
    /// The template that has the name.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Whether other teams may use it.
    pub public: bool,
}
