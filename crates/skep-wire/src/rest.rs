//! Bodies of the REST API.
//!
//! What clients send is read leniently: unknown keys are ignored, and `null` is the same as
//! absent. What we send is strict: the Python client fails on a required key that is missing
//! and on `null` where it expects an object, so optional values are left out.

mod build;
mod console;
mod egress_proxy;
mod event;
mod health;
mod identity;
mod log;
mod metric;
mod network;
mod record;
mod sandbox;
mod secret;
mod snapshot;
mod team;
mod template;
mod version;
mod volume;
mod webhook;

use serde::{Deserialize, Serialize};

pub use build::{
    AssignTags, AssignedTags, BuildInfo, BuildLogEntry, BuildLogs, BuildReason, BuildStep,
    FileUpload, ImageRegistry, NewTemplate, RemoveTags, RequestedTemplate, StartBuild,
    TemplateBuild, TemplateTag, TemplateWithBuilds, UpdateTemplate, UpdatedTemplate,
};
pub use console::{ConsoleSession, ConsoleTeam, ConsoleTicket, NewConsoleSession};
pub use egress_proxy::{EgressProxy, EgressProxyTls};
pub use event::{
    EVENT_TYPE_PREFIX, EVENT_TYPES, SandboxEvent, SandboxEventData, SandboxEventNetwork,
    SandboxExecution,
};
pub use health::{Health, HealthProblem, HealthStatus, HostCheck, HostCheckStatus};
pub use identity::{IdentityKey, IdentityKeys, OpenIdConfiguration};
pub use log::{LogEntry, LogLevel, LogLine, Logs, LogsV2, SandboxRequest};
pub use metric::{MaxTeamMetric, Metric, Metrics, TeamMetric};
pub use network::{
    IdentityRequest, IdentityToken, Network, NetworkLimits, NetworkRequests, NetworkRule,
    NetworkRules, NetworkTransform, NetworkUpdate,
};
pub use record::{SandboxRecord, SandboxRecordState, SandboxUsage};
pub use sandbox::{
    AutoResume, Connect, Kept, Lifecycle, ListedSandbox, NewSandbox, OnTimeout, Pause, PauseMode,
    Refresh, Resume, Sandbox, SandboxDetail, SandboxOptions, SandboxState, SetTimeout, VolumeMount,
};
pub use secret::{NewSecret, Secret, UpdateSecret};
pub use snapshot::{Fork, ForkedSandbox, NewSnapshot, Rollback, Snapshot};
pub use team::{ApiKey, ApiKeyName, CreatedApiKey, KeyMask, Team};
pub use template::{BuildStatus, Template, TemplateAlias};
pub use version::{
    TemplateVersion, TemplateVersions, VersionFile, VersionFileKind, VersionFiles, VersionLayer,
    VersionSummary,
};
pub use volume::{
    NewVolume, Volume, VolumeAndToken, VolumeDetail, VolumeEntry, VolumeEntryChange,
    VolumeEntryKind, VolumeError, VolumeOptions,
};
pub use webhook::{
    NewWebhook, Redelivered, UpdateWebhook, Webhook, WebhookAttempt, WebhookDeliveries,
    WebhookDelivery, WebhookStats,
};

/// The body of every answer that is not a success.
///
/// `code` repeats the status: the JavaScript client looks here, the Python client there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// The HTTP status.
    pub code: u16,
    /// A stable name of what went wrong, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// Explanation for people: what went wrong and what to do.
    pub message: String,
}
