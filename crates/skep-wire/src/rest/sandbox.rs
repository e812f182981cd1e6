//! Sandboxes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

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
    /// Pause instead of ending when the time is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause: Option<bool>,
    /// Whether that pause keeps the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause_memory: Option<bool>,
    /// Wake on traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_resume: Option<AutoResume>,
    /// Whether the agent asks for a token. The second generation of the route always does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure: Option<bool>,
    /// Whether the sandbox may reach the internet. The one key in this spelling.
    #[serde(
        default,
        rename = "allow_internet_access",
        skip_serializing_if = "Option::is_none"
    )]
    pub allow_internet_access: Option<bool>,
    /// Finer rules for the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// What the owner writes on the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Environment of every process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<BTreeMap<String, String>>,
    /// What callers may want beyond the contract.
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

/// What a caller may want of a sandbox beyond the contract. What is not understood in it is
/// refused.
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

/// Whether traffic wakes a paused sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoResume {
    /// It does.
    pub enabled: bool,
}

/// Rules for the network, as far as a refusal has to tell them apart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Whether the sandbox's own ports are open to everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_public_traffic: Option<bool>,
    /// Addresses and names that may be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_out: Option<Vec<String>>,
    /// Addresses that may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deny_out: Option<Vec<String>>,
    /// A proxy for everything that leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_proxy: Option<serde_json::Value>,
    /// The `Host` that the sandbox's own services see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask_request_host: Option<String>,
    /// Headers to add to what leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<BTreeMap<String, serde_json::Value>>,
    /// Name servers that stay reachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_servers: Option<Vec<String>>,
    /// Ports of the sandbox that speak TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https_ports: Option<Vec<u16>>,
}

/// Which identity tokens the workload wants.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IdentityRequest {
    /// By name.
    #[serde(default)]
    pub tokens: Option<BTreeMap<String, serde_json::Value>>,
}

/// A volume in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeMount {
    /// The volume's name.
    pub name: String,
    /// Where it appears.
    pub path: String,
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

/// `POST /sandboxes/{id}/timeout`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetTimeout {
    /// Seconds to live from now.
    pub timeout: i64,
}

/// `POST /sandboxes/{id}/refreshes`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refresh {
    /// Seconds to live from now, at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<i64>,
}

/// What a caller needs to reach a sandbox.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// Its template's id.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Its id.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// The first name of its template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// A constant that old clients want to see.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Which version of the agent's protocol it speaks.
    pub envd_version: String,
    /// What opens its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<String>,
    /// What opens its own ports, when they are not open to everybody. Sent as `null` otherwise:
    /// Python clients of a year ago show a missing key as an object of their own.
    #[serde(default)]
    pub traffic_access_token: Option<String>,
    /// Under which name its ports are reached; absent where the client knows better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
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

/// Whether a sandbox runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxState {
    /// It does.
    Running,
    /// It waits to be resumed.
    Paused,
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
    /// Its id.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// A constant that old clients want to see.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// When this run of it became ready.
    pub started_at: Timestamp,
    /// When it ends if nobody asks for more time.
    pub end_at: Timestamp,
    /// Processors.
    pub cpu_count: u32,
    /// Memory in MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Disk in MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// What its owner wrote on it.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Whether it runs.
    pub state: SandboxState,
    /// Which version of the agent's protocol it speaks.
    pub envd_version: String,
    /// Volumes in it.
    #[serde(default)]
    pub volume_mounts: Vec<VolumeMount>,
}

/// `GET /sandboxes/{id}`
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxDetail {
    /// What a list says of it.
    #[serde(flatten)]
    pub listed: ListedSandbox,
    /// What opens its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<String>,
    /// Whether its owner asked for the internet, if they said anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_internet_access: Option<bool>,
    /// Under which name its ports are reached; absent where the client knows better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// What happens when its time is over.
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

/// What happens to a sandbox by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// Whether traffic wakes it.
    pub auto_resume: bool,
    /// When its time is over.
    pub on_timeout: OnTimeout,
}

/// What happens when a sandbox's time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    /// It ends.
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
        };
        assert_eq!(
            serde_json::to_string(&sandbox).unwrap(),
            r#"{"templateID":"t","sandboxID":"i","clientID":"c","envdVersion":"0.6.13","trafficAccessToken":null}"#
        );
    }
}
