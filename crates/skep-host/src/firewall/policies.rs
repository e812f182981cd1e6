//! Sandboxes with a policy of their own, in the packet filter.
//!
//! Each has a chain that accepts what it may reach, and a set of addresses that the chain looks at;
//! a map leads to the chain by the sandbox's interface. Where hosts are reached by name, another
//! chain leads what goes to their ports elsewhere to the sandbox's egress proxy, and where its owner has a proxy of
//! their own, every connection. A sandbox that may reach everything or
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
    /// Ranges of addresses, and hosts by name where there is an egress proxy.
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
    led: Led,
}

/// Connections that are led to an egress proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Led {
    /// All of them.
    All,
    /// Those to some ports of the world.
    Ports {
        /// Ports whose connections are led there unless their addresses are reached.
        from: Vec<u16>,
        /// Ports whose connections are led there in any case.
        always: Vec<u16>,
    },
}

impl Led {
    fn of(egress: &Egress) -> Self {
        if egress.proxy().is_some() {
            return Self::All;
        }
        Self::Ports {
            from: egress.ports_of_hosts().into_iter().collect(),
            always: egress.ports_of_requests().into_iter().collect(),
        }
    }

    /// Ports at which nothing but TCP is let through.
    fn looked_at(&self) -> &[u16] {
        match self {
            // Nothing is let through anyway.
            Self::All => &[],
            Self::Ports { always, .. } => always,
        }
    }
}

impl Allowance {
    /// The allowance of a policy. Where it judges names, `proxy` is the port of who does; without one,
    /// no host is reached by its name.
    pub(crate) fn of(egress: &Egress, proxy: Option<u16>) -> Self {
        let proxy = proxy
            .filter(|_| egress.judges_names())
            .map(|port| WayToProxy {
                port,
                led: Led::of(egress),
            });
        let resolvers = match egress.names() {
            Names::Only(_) if egress.proxy().is_none() => egress.resolvers().unwrap_or_default(),
            // They are among the addresses, or there is nothing to ask them for, or nothing leaves but
            // through a proxy.
            Names::Only(_) | Names::All | Names::None => &[],
        };
        let spans = match egress.routed() {
            Reach::Everything if proxy.is_none() => return Self::Everything,
            Reach::Everything => vec![AddressSpan {
                first: Ipv4Addr::UNSPECIFIED,
                last: Ipv4Addr::BROADCAST,
            }],
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

    /// Puts what a sandbox may reach in force, in place of what it could before, and has it noted.
    /// Between the two nobody installs the table anew, which would be with what was noted before.
    /// Blocks.
    pub(crate) fn set(
        &self,
        slot: Slot,
        allowance: &Allowance,
        note: impl FnOnce(),
    ) -> io::Result<()> {
        let mut live = self.live.lock();
        self.set_in(&mut live, slot, allowance)?;
        note();
        Ok(())
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
                let looked_at = proxy.as_ref().map(|way| way.led.looked_at());
                add(&mut change, number, spans, looked_at.unwrap_or_default());
                add_resolvers(&mut change, number, resolvers);
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

fn add(change: &mut FilterChange<'_>, number: u64, spans: &[AddressSpan], looked_at: &[u16]) {
    let (set, chain) = (set(number), chain(number));
    change.add_ranges(&set, spans.iter().map(|span| (span.first, span.last)));
    change.add_chain(&chain);
    for port in looked_at {
        // Nobody could look into QUIC. Clients that hear so use TCP.
        let quic = [
            Expression::Protocol(UDP),
            Expression::DestinationPort(*port),
            Expression::Return,
        ];
        change.add_rule(&chain, &quic);
    }
    change.add_rule(
        &chain,
        &[Expression::DestinationIn(&set), Expression::Accept],
    );
}

/// Lets questions for names through to these resolvers.
fn add_resolvers(change: &mut FilterChange<'_>, number: u64, resolvers: &[Ipv4Addr]) {
    let (chain, accept) = (chain(number), Expression::Accept);
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

/// Leads connections to a proxy: all, or some always and some unless their addresses are reached
/// anyway.
fn add_redirect(change: &mut FilterChange<'_>, number: u64, gateway: Ipv4Addr, way: &WayToProxy) {
    let (set, chain) = (set(number), redirect(number));
    change.add_chain(&chain);
    let led = |from: &u16| {
        [
            Expression::Protocol(TCP),
            Expression::DestinationPort(*from),
            Expression::Redirect(gateway, way.port),
        ]
    };
    match &way.led {
        Led::All => {
            // What is served at the gateway does not leave.
            let stays = [Expression::Destination(gateway), Expression::Accept];
            change.add_rule(&chain, &stays);
            let leaves = [
                Expression::Protocol(TCP),
                Expression::Redirect(gateway, way.port),
            ];
            change.add_rule(&chain, &leaves);
        }
        Led::Ports { from, always } => {
            for from in always {
                change.add_rule(&chain, &led(from));
            }
            let reached = [Expression::DestinationIn(&set), Expression::Accept];
            change.add_rule(&chain, &reached);
            for from in from {
                change.add_rule(&chain, &led(from));
            }
        }
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
    use skep_types::{EgressProxy, EgressRules, RequestRuleWords, RequestRules};

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
                    led: Led::Ports {
                        from: vec![80, 443],
                        always: Vec::new(),
                    },
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

    #[test]
    fn with_a_proxy_of_the_owners_nothing_goes_by_itself_and_every_connection_is_led() {
        let proxy = EgressProxy::written("p.test:1080".parse().unwrap(), None, None);
        let named = Egress::new(EgressRules {
            allowed: vec!["a.test".to_owned()],
            denied: vec!["0.0.0.0/0".to_owned()],
            resolvers: Some(vec!["9.9.9.9".to_owned()]),
            internet: None,
        });
        for egress in [Egress::default(), named.unwrap()] {
            let egress = egress.with_proxy(Some(proxy.clone()));
            let expected = Allowance::Some {
                spans: Vec::new(),
                resolvers: Vec::new(),
                proxy: Some(WayToProxy {
                    port: 7,
                    led: Led::All,
                }),
            };
            assert_eq!(Allowance::of(&egress, Some(7)), expected);
            // Before there is somebody who leads it, nothing leaves.
            assert_eq!(Allowance::of(&egress, None), Allowance::Nothing);
        }
        let closed = Egress::closed().with_proxy(Some(proxy));
        assert_eq!(Allowance::of(&closed, Some(7)), Allowance::Nothing);
    }

    #[test]
    fn rules_for_requests_lead_their_ports_to_the_proxy_whatever_is_reached_and_open_nothing() {
        let rule = RequestRuleWords {
            headers: vec![("x".to_owned(), "y".to_owned())],
            ..RequestRuleWords::default()
        };
        let rules = RequestRules::new([("a.test".to_owned(), vec![rule])]).unwrap();
        let open = Egress::default().with_request_rules(rules.clone());
        let expected = Allowance::Some {
            spans: vec![AddressSpan {
                first: Ipv4Addr::UNSPECIFIED,
                last: Ipv4Addr::BROADCAST,
            }],
            resolvers: Vec::new(),
            proxy: Some(WayToProxy {
                port: 7,
                led: Led::Ports {
                    from: Vec::new(),
                    always: vec![443],
                },
            }),
        };
        assert_eq!(Allowance::of(&open, Some(7)), expected);
        let closed = Egress::closed().with_request_rules(rules);
        assert_eq!(Allowance::of(&closed, Some(7)), Allowance::Nothing);
    }
}
