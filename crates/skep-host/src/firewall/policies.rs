//! Sandboxes with a policy of their own, in the packet filter.
//!
//! Each has a chain that accepts what it may reach, and a set of addresses that the chain looks at;
//! a map leads to the chain by the sandbox's interface. A sandbox that may reach everything or
//! nothing has none of that: its interface's group says so. So does the group of one that has a
//! policy: one that is not in the map, because a server has just started, reaches nothing new.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;

use parking_lot::Mutex;
use skep_linux::packet_filter::{Expression, FilterChange, MapValue};
use skep_types::{AddressSpan, Egress, Names, Reach};

use super::FirewallError;
use crate::instance::{Naming, Slot};

/// Map from interfaces to the chains of their sandboxes.
pub(super) const POLICIES: &str = "policies";

const DNS: u16 = crate::dns::PORT;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Destinations that the packet filter lets a sandbox reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// All that the platform does not deny.
    Everything,
    /// Nothing at all.
    Nothing,
    /// Some.
    Some {
        /// Addresses, sorted and with gaps between them.
        spans: Vec<AddressSpan>,
        /// Resolvers that may be asked for names.
        resolvers: Vec<Ipv4Addr>,
    },
}

impl Allowance {
    pub(crate) fn of(egress: &Egress) -> Self {
        let resolvers = match egress.names() {
            Names::Only(_) => egress.resolvers().unwrap_or_default(),
            // They are among the addresses, or there is nothing to ask them for.
            Names::All | Names::None => &[],
        };
        let spans = match egress.reach() {
            Reach::Everything => return Self::Everything,
            Reach::Nothing if resolvers.is_empty() => return Self::Nothing,
            Reach::Nothing => Vec::new(),
            Reach::Some(spans) => spans,
        };
        Self::Some {
            spans,
            resolvers: resolvers.to_vec(),
        }
    }
}

/// The policies that are in force.
#[derive(Debug)]
pub(crate) struct Policies {
    naming: Naming,
    /// Held during a change of the packet filter, so that changes are in the order of the entries.
    live: Mutex<Live>,
}

#[derive(Debug, Default)]
struct Live {
    /// Number of the chain and set of each interface that has some.
    numbers: HashMap<String, u64>,
    /// The last number. None is used twice while a table lives: what has been replaced is
    /// deleted in the transaction that replaces it.
    last: u64,
}

impl Policies {
    pub(crate) fn new(naming: Naming) -> Self {
        Self {
            naming,
            live: Mutex::default(),
        }
    }

    /// Puts what a sandbox may reach in force, in place of what it could before. Blocks.
    pub(crate) fn set(&self, slot: Slot, allowance: &Allowance) -> io::Result<()> {
        self.set_in(&mut self.live.lock(), slot, allowance)
    }

    fn set_in(&self, live: &mut Live, slot: Slot, allowance: &Allowance) -> io::Result<()> {
        let table = self.naming.table();
        let mut change = FilterChange::new(&table);
        let interface = slot.interface();
        let number = live.last + 1;
        let former = live.numbers.get(&interface).copied();
        if former.is_some() {
            change.unmap_interface(POLICIES, &interface);
        }
        let is_ruled = match allowance {
            Allowance::Everything | Allowance::Nothing => false,
            Allowance::Some { spans, resolvers } => {
                add(&mut change, number, spans, resolvers);
                let chain = chain(number);
                change.map_interface(POLICIES, &interface, MapValue::Jump(&chain));
                true
            }
        };
        if let Some(former) = former {
            change.delete_chain(&chain(former));
            change.delete_set(&set(former));
        }
        change.commit()?;
        live.last = number;
        if is_ruled {
            live.numbers.insert(interface, number);
        } else {
            live.numbers.remove(&interface);
        }
        Ok(())
    }

    /// Installs the table anew, and all of `policies` in it: the table was there without them, or
    /// not at all. Blocks.
    pub(crate) fn reinstall(
        &self,
        install: impl FnOnce() -> Result<(), FirewallError>,
        policies: impl FnOnce() -> Vec<(Slot, Allowance)>,
    ) -> Result<(), FirewallError> {
        let mut live = self.live.lock();
        install()?;
        live.numbers.clear();
        for (slot, allowance) in policies() {
            (self.set_in(&mut live, slot, &allowance)).map_err(FirewallError::Policy)?;
        }
        Ok(())
    }
}

fn add(change: &mut FilterChange<'_>, number: u64, spans: &[AddressSpan], resolvers: &[Ipv4Addr]) {
    let (set, chain) = (set(number), chain(number));
    change.add_ranges(&set, spans.iter().map(|span| (span.first, span.last)));
    change.add_chain(&chain);
    let accept = Expression::Accept;
    change.add_rule(&chain, &[Expression::DestinationIn(&set), accept]);
    for resolver in resolvers {
        for protocol in [UDP, TCP] {
            let question = [
                Expression::Destination(*resolver),
                Expression::Protocol(protocol),
                Expression::DestinationPort(DNS),
                accept,
            ];
            change.add_rule(&chain, &question);
        }
    }
}

fn chain(number: u64) -> String {
    format!("policy-{number}")
}

fn set(number: u64) -> String {
    format!("reach-{number}")
}

#[cfg(test)]
mod tests {
    use skep_types::EgressRules;

    use super::*;

    #[test]
    fn resolvers_are_reached_where_only_some_names_are_and_nothing_else_is() {
        let egress = |allowed: &[&str], denied: &[&str]| {
            let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
            Egress::new(EgressRules {
                allowed: owned(allowed),
                denied: owned(denied),
                resolvers: Some(owned(&["9.9.9.9"])),
                internet: None,
            })
            .unwrap()
        };
        let named = Allowance::of(&egress(&["example.com"], &["0.0.0.0/0"]));
        let resolvers = vec![Ipv4Addr::new(9, 9, 9, 9)];
        let spans = Vec::new();
        assert_eq!(named, Allowance::Some { spans, resolvers });
        let all = Allowance::of(&egress(&[], &["0.0.0.0/0"]));
        assert_eq!(all, Allowance::Nothing);
        assert_eq!(Allowance::of(&Egress::default()), Allowance::Everything);
        assert_eq!(Allowance::of(&Egress::closed()), Allowance::Nothing);
    }
}
