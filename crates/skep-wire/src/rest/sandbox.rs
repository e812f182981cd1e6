//! Requests and answers about sandboxes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{IdentityRequest, Network};

/// `POST /sandboxes` and `POST /v2/sandboxes`.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSandbox {
    /// `[namespace/]name[:tag]` or an id.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Seconds to live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Asks for a pause instead of the end when the timeout is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause: Option<bool>,
    /// Asks that pause to keep the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause_memory: Option<bool>,
    /// Asks that traffic wakes the paused sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_resume: Option<AutoResume>,
    /// Asks for an agent that demands a token. The second generation of the route always does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure: Option<bool>,
    /// Permits access to the internet. The one key in this spelling.
    #[serde(
        default,
        rename = "allow_internet_access",
        skip_serializing_if = "Option::is_none"
    )]
    pub allow_internet_access: Option<bool>,
    /// Finer rules for the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Key-value pairs that the owner attaches to the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Environment of every process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<BTreeMap<String, String>>,
    /// Options beyond the contract.
    #[serde(
        default,
        deserialize_with = "without_values",
        skip_serializing_if = "Option::is_none"
    )]
    pub skep: Option<SandboxOptions>,
    /// Servers of the model context protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<serde_json::Value>,
    /// Identity tokens for the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iam: Option<IdentityRequest>,
    /// Volumes and where they appear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_mounts: Option<Vec<VolumeMount>>,
}

impl std::fmt::Debug for NewSandbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The environment holds secrets, and metadata may.
        formatter
            .debug_struct("NewSandbox")
            .field("template_id", &self.template_id)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Options of a sandbox beyond the contract. What is not understood in it is refused.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SandboxOptions {
    /// Values that code in the sandbox must not show.
    pub secrets: Vec<String>,
    /// Names of variables in `envVars` whose values are such.
    pub secret_envs: Vec<String>,
}

/// The parser's messages quote values of the wrong type, which may be secrets.
fn without_values<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SandboxOptions>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(from)?;
    let options = value.map(serde_json::from_value).transpose();
    options.map_err(|error| {
        let text = error.to_string();
        if text.starts_with("unknown field") {
            D::Error::custom(text)
        } else {
            D::Error::custom("a field of `skep` has the wrong type")
        }
    })
}

impl std::fmt::Debug for SandboxOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SandboxOptions")
            .field("secret_envs", &self.secret_envs)
            .finish_non_exhaustive()
    }
}

/// Setting for paused sandboxes that traffic can wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoResume {
    /// True if traffic wakes the sandbox.
    pub enabled: bool,
}

/// A volume in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeMount {
    /// The volume's name.
    pub name: String,
    /// Mount point in the sandbox.
    pub path: String,
    /// `true` if the sandbox may not write to it; ours. `NAME:ro` as the name is the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// `POST /sandboxes/{id}/connect`, both generations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connect {
    /// Seconds to live from now, at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// `false` starts a paused sandbox from its disk alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
}

/// Body of `POST /sandboxes/{id}/pause`. Other fields are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// `false` keeps its files alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
    /// Leaves a sandbox alone whose agent does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_healthy_guest: Option<bool>,
}

/// Body of `POST /sandboxes/{id}/resume`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resume {
    /// Seconds to live from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Pauses it when that time is over, or kills it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause: Option<bool>,
    /// `false` starts it from its disk alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
}

/// Body of `POST /sandboxes/{id}/timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetTimeout {
    /// Seconds to live from now.
    pub timeout: i64,
}

/// Body of `POST /sandboxes/{id}/refreshes`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refresh {
    /// Seconds to live from now, at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<i64>,
}

/// A new sandbox, with everything a caller needs to reach it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// Its template's id.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Unique id of the sandbox.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// The first name of its template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// A constant that old clients want to see.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Version of the agent's protocol that it speaks.
    pub envd_version: String,
    /// Token that opens its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<String>,
    /// Token that opens its own ports, when they are not open to everybody. Sent as `null`
    /// otherwise: Python clients of a year ago show a missing key as an object of their own.
    #[serde(default)]
    pub traffic_access_token: Option<String>,
    /// Domain under which its ports are reached; absent where the client knows better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The form in which it was kept, if this answer is of one that goes on from there.
    #[serde(flatten)]
    pub kept: Option<Kept>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Sandbox")
            .field("sandbox_id", &self.sandbox_id)
            .field("template_id", &self.template_id)
            .finish_non_exhaustive()
    }
}

/// The form in which a sandbox was kept while nothing of it ran. Clients of others do not look at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// `memory` of the host, where it stood; a `checkpoint` with its memory; or its `files` alone.
    pub kept_in: String,
    /// Names of its parts that are not kept in this form.
    pub lost: Vec<String>,
    /// Name of the part that keeps a paused one from being written to a checkpoint; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}

/// State of a sandbox that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxState {
    /// It runs and can be reached.
    Running,
    /// It waits to be resumed.
    Paused,
}

/// The parts that are kept of a paused sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PauseMode {
    /// Its processes with their memory, and its files.
    Full,
    /// Its files alone.
    Filesystem,
}

/// A sandbox in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedSandbox {
    /// Its template's id.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// The first name of its template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Unique id of the sandbox.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// A constant that old clients want to see.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Time at which this run of it became ready.
    pub started_at: Timestamp,
    /// Time at which it ends if nobody asks for more time.
    pub end_at: Timestamp,
    /// Number of processors.
    pub cpu_count: u32,
    /// Memory in MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Disk in MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// Key-value pairs that its owner attached.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// State of the sandbox.
    pub state: SandboxState,
    /// The parts that are kept of it, if it is paused and its pause is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_mode: Option<PauseMode>,
    /// True if its agent did not answer when it was paused; absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub envd_unresponsive_at_pause: bool,
    /// The form in which it is kept if it is paused, or was before it went on; absent for others.
    #[serde(flatten)]
    pub kept: Option<Kept>,
    /// Version of the agent's protocol that it speaks.
    pub envd_version: String,
    /// Volumes in it.
    #[serde(default)]
    pub volume_mounts: Vec<VolumeMount>,
}

/// Answer of `GET /sandboxes/{id}`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxDetail {
    /// The fields that lists have too.
    #[serde(flatten)]
    pub listed: ListedSandbox,
    /// Token that opens its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<String>,
    /// Internet access that its owner asked for, if they said anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_internet_access: Option<bool>,
    /// Rules for its network, if its owner gave any. A field is absent rather than null: clients
    /// break on that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Domain under which its ports are reached; absent where the client knows better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Policy for the time after its timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
}

impl std::fmt::Debug for SandboxDetail {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SandboxDetail")
            .field("listed", &self.listed)
            .finish_non_exhaustive()
    }
}

/// Changes of a sandbox's state that happen by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// True if traffic wakes it.
    pub auto_resume: bool,
    /// Policy for its timeout.
    pub on_timeout: OnTimeout,
}

/// Policy for a sandbox whose timeout is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    /// The sandbox ends.
    Kill,
    /// It is paused.
    Pause,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn accepts(text: &str) -> NewSandbox {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_each_generation_of_clients_sends_is_read() {
        let new = accepts(r#"{"templateID":"base","metadata":{},"envVars":{}}"#);
        assert_eq!((new.timeout, new.secure), (None, None));
        let year = accepts(
            r#"{"templateID":"base","allow_internet_access":true,"autoPause":false,"envVars":{},
                "metadata":{},"secure":true,"timeout":300}"#,
        );
        assert_eq!((year.timeout, year.auto_pause), (Some(300), Some(false)));
        assert_eq!(year.allow_internet_access, Some(true));
        let odd = accepts(r#"{"templateID":"base","network":null,"timeout":null,"novelty":[1]}"#);
        assert_eq!((odd.network, odd.timeout), (None, None));
    }

    #[test]
    fn a_printed_request_shows_neither_environment_nor_metadata() {
        let request = accepts(
            r#"{"templateID":"base","envVars":{"KEY":"hidden-1"},"metadata":{"k":"hidden-2"}}"#,
        );
        assert!(!format!("{request:?}").contains("hidden"));
    }

    #[test]
    fn what_is_absent_is_left_out_but_for_the_traffic_token() {
        let sandbox = Sandbox {
            template_id: "t".to_owned(),
            sandbox_id: "i".to_owned(),
            alias: None,
            client_id: "c".to_owned(),
            envd_version: "0.6.13".to_owned(),
            envd_access_token: None,
            traffic_access_token: None,
            domain: None,
            kept: None,
        };
        assert_eq!(
            serde_json::to_string(&sandbox).unwrap(),
            r#"{"templateID":"t","sandboxID":"i","clientID":"c","envdVersion":"0.6.13","trafficAccessToken":null}"#
        );
    }
}
