//! Rules for outgoing connections, between the contract and the domain.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde_json::Value;
use skep_types::{Egress, EgressError, EgressRules};
use skep_wire::rest::{Network, NetworkUpdate};

use crate::error::ApiError;

/// The part of a network's rules that is about outgoing connections.
#[derive(Debug, Default)]
pub(crate) struct EgressBody {
    internet: Option<bool>,
    allow_out: Option<Vec<String>>,
    deny_out: Option<Vec<String>>,
    dns_servers: Option<Vec<String>>,
    rules: Option<BTreeMap<String, Value>>,
    proxy: Option<Value>,
}

impl EgressBody {
    /// The part of a new sandbox's rules, and the choice beside them.
    pub(crate) fn of_new(network: Option<&Network>, internet: Option<bool>) -> Self {
        let network = network.cloned().unwrap_or_default();
        Self {
            internet,
            allow_out: network.allow_out,
            deny_out: network.deny_out,
            dns_servers: network.dns_servers,
            rules: network.rules,
            proxy: network.egress_proxy,
        }
    }

    /// The rules that replace those of a sandbox.
    pub(crate) fn of_update(body: NetworkUpdate) -> Self {
        Self {
            internet: body.allow_internet_access,
            allow_out: body.allow_out,
            deny_out: body.deny_out,
            dns_servers: body.dns_servers,
            rules: body.rules,
            proxy: body.egress_proxy,
        }
    }

    /// The policy, in the order in which the contract refuses.
    pub(crate) fn read(self) -> Result<Egress, ApiError> {
        let egress = Egress::new(EgressRules {
            internet: self.internet,
            allowed: self.allow_out.unwrap_or_default(),
            denied: self.deny_out.unwrap_or_default(),
            resolvers: self.dns_servers,
        })?;
        if self.rules.is_some_and(|rules| !rules.is_empty()) {
            return Err(unavailable(
                "Network transform rules are not available on this server.",
            ));
        }
        if self.proxy.is_some_and(|proxy| !proxy.is_null()) {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "feature_unavailable",
                "Egress proxy (network.egressProxy) is not enabled for this team.",
            ));
        }
        Ok(egress)
    }
}

impl From<EgressError> for ApiError {
    fn from(error: EgressError) -> Self {
        match error {
            EgressError::Denied(_)
            | EgressError::Allowed(_)
            | EgressError::NamesWithoutDenial
            | EgressError::TooMany { .. }
            | EgressError::Resolver(_) => Self::bad_request("validation_error", error.to_string()),
        }
    }
}

fn unavailable(message: &str) -> ApiError {
    ApiError::bad_request("feature_unavailable", message)
}
