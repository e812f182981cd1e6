//! Rules for a sandbox's network.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::EgressProxy;

/// Rules for requests, by host (`example.com`) or all hosts below one (`*.example.com`).
pub type NetworkRules = BTreeMap<String, Option<Vec<NetworkRule>>>;

/// Rules for the network, as they are ordered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// True if the sandbox's own ports are open to everybody.
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
    pub egress_proxy: Option<EgressProxy>,
    /// The `Host` that the sandbox's own services see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask_request_host: Option<String>,
    /// Rules for requests, by the hosts that they are sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<NetworkRules>,
    /// Name servers that stay reachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_servers: Option<Vec<String>>,
    /// Ports of the sandbox that speak TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https_ports: Option<Vec<i64>>,
}

/// Body of `PUT /sandboxes/{id}/network`: the rules for what leaves, all of them. Other fields are
/// ignored: clients send none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkUpdate {
    /// Permits access to the internet.
    #[serde(
        default,
        rename = "allow_internet_access",
        skip_serializing_if = "Option::is_none"
    )]
    pub allow_internet_access: Option<bool>,
    /// Addresses and names that may be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_out: Option<Vec<String>>,
    /// Addresses that may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deny_out: Option<Vec<String>>,
    /// A proxy for everything that leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_proxy: Option<EgressProxy>,
    /// Rules for requests, by the hosts that they are sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<NetworkRules>,
    /// Name servers that answer for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_servers: Option<Vec<String>>,
}

/// A rule for requests to a host. What is not understood in it is refused: a rule that restricts less
/// than it says is worse than none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkRule {
    /// Changes of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transform: Option<NetworkTransform>,
    /// The requests that are let through; ours. All of them without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Vec<NetworkRequests>>,
    /// Limits on requests and bytes; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<NetworkLimits>,
}

/// Changes of requests to a host.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkTransform {
    /// Headers that replace those of the same name. Their values may have placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
}

impl fmt::Debug for NetworkTransform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever does not use the vault writes keys into values.
        let names: Vec<_> = self.headers.iter().flat_map(BTreeMap::keys).collect();
        formatter
            .debug_struct("NetworkTransform")
            .field("headers", &names)
            .finish()
    }
}

/// Requests with one of these methods to one of these paths. Without a list, all of its kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkRequests {
    /// Methods, in capital letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    /// Paths, in which `*` stands for any letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
}

/// Limits on what goes to a host and comes from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkLimits {
    /// Requests in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<i64>,
    /// Bytes in both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// Bytes in both directions in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<i64>,
}

/// Identity tokens that the workload wants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityRequest {
    /// Settings of the tokens, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<BTreeMap<String, IdentityToken>>,
}

/// Settings of an identity token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityToken {
    /// Audience of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// Kind of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_type: Option<String>,
}
