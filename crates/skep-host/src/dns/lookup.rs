//! Addresses of hosts that are reached on behalf of a sandbox.

use std::net::Ipv4Addr;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RData;
use skep_egress::Lookup;
use skep_linux::route::Routes;
use skep_types::{Egress, HostName};

use super::Service;
use super::answer::Question;
use super::upstream::{Upstreams, Way};
use crate::instance::all_subnets;

/// Addresses of one host that are looked at. Whoever owns a name chooses how many it has.
const MOST_ADDRESSES: usize = 16;

impl Service {
    /// Looks a host up for a sandbox with this policy. Who asks here connects from the host itself,
    /// where the packet filter judges nothing: addresses that no sandbox reaches are left out, and so
    /// are those of the host and of sandboxes, which no configuration opens.
    pub(crate) async fn look_up(&self, host: &HostName, egress: &Egress) -> Lookup {
        let Some(question) = Question::for_addresses(host) else {
            return Lookup::Found(Vec::new());
        };
        let own: Option<Upstreams> = egress
            .resolvers()
            .filter(|own| !own.is_empty())
            .map(|own| self.own_upstreams(own));
        let upstreams = own.as_ref().unwrap_or(&self.upstreams);
        let mut answer = upstreams.ask(&question, Way::Udp).await;
        if answer
            .as_ref()
            .is_some_and(|answer| answer.metadata.truncation)
        {
            answer = upstreams.ask(&question, Way::Tcp).await;
        }
        let Some(answer) = answer else {
            return Lookup::Failed;
        };
        if answer.metadata.response_code != ResponseCode::NoError {
            return Lookup::Found(Vec::new());
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign list that grows")]
        let addresses = answer
            .answers
            .iter()
            .filter_map(|record| match &record.data {
                RData::A(address) => Some(address.0),
                _ => None,
            });
        Lookup::Found(
            addresses
                .take(MOST_ADDRESSES)
                .filter(|address| self.may_connect(*address))
                .collect(),
        )
    }

    /// Returns true if the host may connect to this address for a sandbox.
    pub(crate) fn may_connect(&self, address: Ipv4Addr) -> bool {
        // The control of the attack suite has no ranges at all.
        self.denied.is_empty()
            || (self.is_reached(address) && !all_subnets().contains(&address) && !is_local(address))
    }
}

/// Returns true if the address is the host's own, or nobody can tell.
fn is_local(address: Ipv4Addr) -> bool {
    let local = Routes::open().and_then(|mut routes| routes.is_local(address));
    local.unwrap_or_else(|error| {
        tracing::debug!(%error, "there is no way to an address of a host");
        true
    })
}
