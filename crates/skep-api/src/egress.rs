//! Rules for outgoing connections, between the contract and the domain.

mod proxy;
mod request_rules;

use skep_types::{Egress, EgressError, EgressProxyError, EgressRules};
use skep_wire::rest::{EgressProxy, Network, NetworkRules, NetworkUpdate};

use crate::error::ApiError;
pub(crate) use proxy::{NewProxy, sealed, shown_proxy};
pub(crate) use request_rules::{read_rules, shown_rules};

/// The part of a network's rules that is about outgoing connections.
#[derive(Debug, Default)]
pub(crate) struct EgressBody {
    internet: Option<bool>,
    allow_out: Option<Vec<String>>,
    deny_out: Option<Vec<String>>,
    dns_servers: Option<Vec<String>>,
    rules: Option<NetworkRules>,
    proxy: Option<EgressProxy>,
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

    /// The policy of a new sandbox, in the order in which the contract refuses, without its proxy: the
    /// password of that is to be sealed first.
    pub(crate) fn read(mut self) -> Result<(Egress, Option<NewProxy>), ApiError> {
        let rules = self.rules.take();
        let egress = self.policy()?;
        let rules = read_rules(rules.unwrap_or_default())?;
        let proxy = self.read_proxy()?;
        Ok((egress.with_request_rules(rules), proxy))
    }

    /// The policy that replaces a sandbox's, without its proxy and its rules for requests. Those, if
    /// there are any, are left: there may be no such sandbox, which its owner is told before what is
    /// wrong in them.
    pub(crate) fn read_update(
        mut self,
    ) -> Result<(Egress, Option<NewProxy>, Option<NetworkRules>), ApiError> {
        let rules = self.rules.take();
        let egress = self.policy()?;
        let proxy = self.read_proxy()?;
        Ok((egress, proxy, rules))
    }

    fn policy(&mut self) -> Result<Egress, EgressError> {
        Egress::new(EgressRules {
            internet: self.internet,
            allowed: self.allow_out.take().unwrap_or_default(),
            denied: self.deny_out.take().unwrap_or_default(),
            resolvers: self.dns_servers.take(),
        })
    }

    fn read_proxy(&mut self) -> Result<Option<NewProxy>, EgressProxyError> {
        self.proxy.take().map(NewProxy::read).transpose()
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
