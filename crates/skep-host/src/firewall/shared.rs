//! The filter that programs of a host share by way of iptables, and rules of ours in it.
//!
//! A packet passes only if every filter lets it. Docker, ufw and scripts of the same kind give the
//! shared chains a policy that drops whatever no rule accepts. Our rules stand at the end of
//! those chains: they answer for our interfaces in the place of the policy, after every rule of
//! the operator, and after our own table has judged the packet.

use serde_json::{Value, json};

use super::nft::{accept, ask_nft, equal, payload, run_nft};
use super::{FirewallError, Naming, from_ours, to_ours};

const FAMILY: &str = "ip";
const TABLE: &str = "filter";

/// A chain of the shared filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SharedChain {
    Forward,
    Input,
}

const CHAINS: [SharedChain; 2] = [SharedChain::Forward, SharedChain::Input];

impl SharedChain {
    fn name(self) -> &'static str {
        match self {
            Self::Forward => "FORWARD",
            Self::Input => "INPUT",
        }
    }

    fn is(self, chain: &Value) -> bool {
        is_shared(chain) && chain["name"] == self.name()
    }

    /// Rules that let the packets of this server's sandboxes pass. They use nothing that iptables
    /// itself would not write: it refuses to read a chain that it does not understand.
    fn rules(self, naming: Naming) -> Vec<Vec<Value>> {
        match self {
            Self::Forward => vec![
                vec![from_ours(naming), accept()],
                vec![to_ours(naming), accept()],
            ],
            // Names; our own table refuses everything else at this address.
            Self::Input => vec![vec![
                equal(payload("ip", "daddr"), json!(naming.gateway().to_string())),
                from_ours(naming),
                accept(),
            ]],
        }
    }
}

/// Returns true if a chain, as `nft` lists it, is one of the shared filter's.
pub(crate) fn is_shared(chain: &Value) -> bool {
    chain["family"] == FAMILY && chain["table"] == TABLE
}

/// Adds the rules that are missing in chains of `listing` whose policy is to drop. Blocks.
pub(super) fn enter(naming: Naming, listing: &[Value]) -> Result<(), FirewallError> {
    let mut commands = Vec::new();
    for chain in CHAINS {
        let is_closed = |listed: &&Value| chain.is(listed) && listed["policy"] == "drop";
        if !listing.iter().any(|listed| is_closed(&listed)) {
            continue;
        }
        let there = rules_in(chain)?;
        let mut wanted = chain.rules(naming);
        wanted.retain(|rule| !there.iter().any(|there| there["expr"] == json!(rule)));
        commands.extend(wanted.into_iter().map(|expressions| {
            json!({"add": {"rule": {
                "family": FAMILY, "table": TABLE, "chain": chain.name(), "expr": expressions,
            }}})
        }));
    }
    if commands.is_empty() {
        return Ok(());
    }
    tracing::info!(
        rules = commands.len(),
        "sandboxes pass the filter that iptables shares"
    );
    run_nft(&json!({"nftables": commands}))
}

/// Takes the rules away. Blocks.
pub(super) fn leave(naming: Naming) -> Result<(), FirewallError> {
    let commands: Vec<_> = ours(naming)?
        .into_iter()
        .map(|(chain, handle)| {
            json!({"delete": {"rule": {
                "family": FAMILY, "table": TABLE, "chain": chain.name(), "handle": handle,
            }}})
        })
        .collect();
    if commands.is_empty() {
        return Ok(());
    }
    run_nft(&json!({"nftables": commands}))
}

/// Returns true if any of the rules is there. Blocks.
pub(super) fn is_entered(naming: Naming) -> Result<bool, FirewallError> {
    Ok(!ours(naming)?.is_empty())
}

/// Our rules, by their handles.
fn ours(naming: Naming) -> Result<Vec<(SharedChain, u64)>, FirewallError> {
    let listing = super::list_chains()?;
    let mut ours = Vec::new();
    for chain in CHAINS {
        if !listing.iter().any(|listed| chain.is(listed)) {
            continue;
        }
        let wanted = chain.rules(naming);
        let there = rules_in(chain)?;
        let ours_there = there
            .iter()
            .filter(|rule| wanted.iter().any(|wanted| rule["expr"] == json!(wanted)));
        ours.extend(ours_there.filter_map(|rule| Some((chain, rule["handle"].as_u64()?))));
    }
    Ok(ours)
}

/// The rules of a chain, as `nft` lists them.
fn rules_in(chain: SharedChain) -> Result<Vec<Value>, FirewallError> {
    let listing = ask_nft(&["list", "chain", FAMILY, TABLE, chain.name()])?;
    Ok(listing
        .into_iter()
        .filter_map(|mut object| object.get_mut("rule").map(Value::take))
        .collect())
}
