//! Sandboxes with a policy of their own, in the packet filter.
//!
//! Each has a chain that accepts what it may reach, and a set of addresses that the chain looks at;
//! a map leads to the chain by the sandbox's interface. Where hosts are reached by name, another
//! chain leads what goes to their ports elsewhere to the sandbox's egress proxy. A sandbox that may reach everything or
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
/// Map from interfaces to the chains that lead to their egress proxies.
pub(super) const REDIRECTS: &str = "redirects";
/// Map from interfaces to the chains that let them in there.
pub(super) const PROXIES: &str = "proxies";

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
        /// The way to the egress proxy, which looks at names, if there is one.
        proxy: Option<WayToProxy>,
    },
}

/// The way to an egress proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WayToProxy {
    /// Port at which it listens.
    port: u16,
    /// Ports of the world whose connections are led there.
    from: Vec<u16>,
}

impl Allowance {
    /// The allowance of a policy. Where it judges names, `proxy` is the port of who does; without one,
    /// no host is reached by its name.
    pub(crate) fn of(egress: &Egress, proxy: Option<u16>) -> Self {
        let proxy = proxy.filter(|_| egress.judges_names());
        let proxy = proxy.map(|port| WayToProxy {
            port,
            from: egress.ports_of_hosts().into_iter().collect(),
        });
        let resolvers = match egress.names() {
            Names::Only(_) => egress.resolvers().unwrap_or_default(),
            // They are among the addresses, or there is nothing to ask them for.
            Names::All | Names::None => &[],
        };
        let spans = match egress.reach() {
            Reach::Everything => return Self::Everything,
            Reach::Nothing if resolvers.is_empty() && proxy.is_none() => return Self::Nothing,
            Reach::Nothing => Vec::new(),
            Reach::Some(spans) => spans,
        };
        Self::Some {
            spans,
            resolvers: resolvers.to_vec(),
            proxy,
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
    /// The chains and set of each interface that has some.
    numbers: HashMap<String, Numbered>,
    /// The last number. None is used twice while a table lives: what has been replaced is
    /// deleted in the transaction that replaces it.
    last: u64,
}

/// The chains and set of an interface.
#[derive(Debug, Clone, Copy)]
struct Numbered {
    number: u64,
    is_redirected: bool,
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
        if let Some(former) = former {
            change.unmap_interface(POLICIES, &interface);
            if former.is_redirected {
                change.unmap_interface(REDIRECTS, &interface);
                change.unmap_interface(PROXIES, &interface);
            }
        }
        let current = match allowance {
            Allowance::Everything | Allowance::Nothing => None,
            Allowance::Some {
                spans,
                resolvers,
                proxy,
            } => {
                add(&mut change, number, spans, resolvers);
                change.map_interface(POLICIES, &interface, MapValue::Jump(&chain(number)));
                if let Some(way) = proxy {
                    add_redirect(&mut change, number, self.naming.gateway(), way);
                    let chain = redirect(number);
                    change.map_interface(REDIRECTS, &interface, MapValue::Jump(&chain));
                    let chain = admission(number);
                    change.map_interface(PROXIES, &interface, MapValue::Jump(&chain));
                }
                let is_redirected = proxy.is_some();
                Some(Numbered {
                    number,
                    is_redirected,
                })
            }
        };
        if let Some(former) = former {
            change.delete_chain(&chain(former.number));
            if former.is_redirected {
                change.delete_chain(&redirect(former.number));
                change.delete_chain(&admission(former.number));
            }
            change.delete_set(&set(former.number));
        }
        change.commit()?;
        live.last = number;
        match current {
            Some(current) => live.numbers.insert(interface, current),
            None => live.numbers.remove(&interface),
        };
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

/// Leads connections to a proxy, unless their addresses are reached anyway.
fn add_redirect(change: &mut FilterChange<'_>, number: u64, gateway: Ipv4Addr, way: &WayToProxy) {
    let (set, chain) = (set(number), redirect(number));
    change.add_chain(&chain);
    let reached = [Expression::DestinationIn(&set), Expression::Accept];
    change.add_rule(&chain, &reached);
    for from in &way.from {
        let led = [
            Expression::Protocol(TCP),
            Expression::DestinationPort(*from),
            Expression::Redirect(gateway, way.port),
        ];
        change.add_rule(&chain, &led);
    }
    // Only here: others on the host lead connections elsewhere, too, and not for sandboxes.
    let chain = admission(number);
    change.add_chain(&chain);
    let arrived = [
        Expression::Destination(gateway),
        Expression::Protocol(TCP),
        Expression::DestinationPort(way.port),
        Expression::Accept,
    ];
    change.add_rule(&chain, &arrived);
}

fn admission(number: u64) -> String {
    format!("proxy-{number}")
}

fn redirect(number: u64) -> String {
    format!("redirect-{number}")
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
        let named = |proxy| Allowance::of(&egress(&["example.com"], &["0.0.0.0/0"]), proxy);
        for proxy in [None, Some(7)] {
            let expected = Allowance::Some {
                spans: Vec::new(),
                resolvers: vec![Ipv4Addr::new(9, 9, 9, 9)],
                proxy: proxy.map(|port| WayToProxy {
                    port,
                    from: vec![80, 443],
                }),
            };
            assert_eq!(named(proxy), expected);
        }
        let without = |egress: &Egress| Allowance::of(egress, Some(7));
        let all = without(&egress(&[], &["0.0.0.0/0"]));
        assert_eq!(all, Allowance::Nothing);
        assert_eq!(without(&Egress::default()), Allowance::Everything);
        assert_eq!(without(&Egress::closed()), Allowance::Nothing);
    }
}
