//! The endpoint for agents.

use std::num::NonZeroU32;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use skep_types::{Egress, EgressError, EgressRules};

use crate::config::{DEFAULT_INTERPRETER, names};

/// The endpoint `/mcp`, at which agents use sandboxes by the Model Context Protocol.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct Mcp {
    /// Serves it if true.
    pub enabled: bool,
    /// Template of the sandboxes that it makes.
    pub template: String,
    /// Minutes that they live after their last use; no tool works longer.
    pub lifetime_minutes: NonZeroU32,
    /// Gives them the internet if true.
    pub internet: bool,
    /// Addresses, ranges and hosts that they may reach, whatever is denied.
    #[serde(deserialize_with = "names")]
    pub allow_out: Vec<String>,
    /// Addresses and ranges that they may not.
    #[serde(deserialize_with = "names")]
    pub deny_out: Vec<String>,
    /// Sessions of all teams together; clients of the newest revision have none.
    pub sessions: NonZeroU32,
    /// Sessions of one team.
    pub sessions_per_team: NonZeroU32,
    /// Tools of one team that work at the same time.
    pub calls_per_team: NonZeroU32,
}

impl Default for Mcp {
    fn default() -> Self {
        let number = |number| NonZeroU32::new(number).expect("not zero");
        Self {
            enabled: true,
            template: DEFAULT_INTERPRETER.to_owned(),
            lifetime_minutes: number(30),
            internet: true,
            allow_out: Vec::new(),
            deny_out: Vec::new(),
            sessions: number(1024),
            sessions_per_team: number(128),
            calls_per_team: number(64),
        }
    }
}

impl<'de> Deserialize<'de> for Mcp {
    /// Refuses rules that every sandbox would be refused for, before a model is the first to hear.
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let mcp = Self::deserialize(source)?;
        let rules = EgressRules {
            internet: Some(mcp.internet),
            allowed: mcp.allow_out.clone(),
            denied: mcp.deny_out.clone(),
            resolvers: None,
        };
        match Egress::new(rules) {
            Ok(_policy) => Ok(mcp),
            // The contract's words for it are those of the SDKs.
            Err(EgressError::NamesWithoutDenial) => Err(D::Error::custom(
                "`allow_out` has hosts by name, so `deny_out` must have `0.0.0.0/0`",
            )),
            Err(
                error @ (EgressError::Denied(_)
                | EgressError::Allowed(_)
                | EgressError::TooMany { .. }
                | EgressError::Resolver(_)),
            ) => Err(D::Error::custom(error)),
        }
    }
}
