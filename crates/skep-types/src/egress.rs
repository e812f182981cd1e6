//! Policy of what a sandbox may reach.
//!
//! The policy is its owner's; what no policy opens is [`PLATFORM_DENIED`]. A packet is judged in
//! this order: a connection that was accepted, ranges that the operator allows, ranges that the
//! platform denies, what the owner allows, what the owner denies, and the rest is accepted.

mod destination;
mod header_name;
mod host_name;
mod host_pattern;
mod host_rule;
mod proxy;
mod ranges;
mod request_pattern;
mod request_rules;

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

pub use destination::{AddressRange, Destination};
pub use header_name::{HeaderName, HeaderNameError};
pub use host_name::{HostName, HostNameError};
pub use host_pattern::HostPattern;
pub use host_rule::HostRule;
pub use proxy::{
    EgressProxy, EgressProxyError, EgressProxyTlsWords, EgressProxyWords, ProxyAddress, ProxyHost,
    ValueRequest,
};
pub use ranges::{AddressSpan, Reach};
pub use request_pattern::{RequestPattern, RequestPatternWords};
pub use request_rules::{
    RequestLimits, RequestRule, RequestRuleError, RequestRuleWords, RequestRules,
};

/// Address ranges no sandbox reaches, whatever its owner allows: private networks, link-local
/// (where cloud metadata lives), carrier-grade NAT, loopback, multicast and reserved.
pub const PLATFORM_DENIED: &[&str] = &[
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "224.0.0.0/4",
    "240.0.0.0/4",
];

/// The text that means every address. A policy that allows host names must deny it.
const ALL_TRAFFIC: &str = "0.0.0.0/0";

/// Limit on what a policy allows, and on what it denies.
const MOST_DESTINATIONS: usize = 512;

/// Limit on the ports at which a policy allows hosts: each is a rule of the packet filter.
const MOST_PORTS: usize = 16;

/// Ports of plain HTTP, and of HTTP in TLS.
const WEB: u16 = 80;
const TLS: u16 = 443;

/// Limit on the resolvers of a policy.
const MOST_RESOLVERS: usize = 10;

/// Policy for the outgoing connections of a sandbox. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Egress(Arc<Policy>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Policy {
    internet: Option<bool>,
    allowed: Vec<Destination>,
    denied: Vec<AddressRange>,
    resolvers: Option<Vec<Ipv4Addr>>,
    requests: RequestRules,
    proxy: Option<EgressProxy>,
}

/// A policy in the words of its owner, as it is asked for and shown, without its [`RequestRules`] and
/// its [`EgressProxy`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressRules {
    /// Choice of internet access; `false` denies every address in place of `denied`.
    pub internet: Option<bool>,
    /// Addresses, ranges and host names that may be reached.
    pub allowed: Vec<String>,
    /// Addresses and ranges that may not.
    pub denied: Vec<String>,
    /// Addresses of the resolvers that answer for names; `None` for the host's, and none at all if
    /// it is empty.
    pub resolvers: Option<Vec<String>>,
}

/// The reason for which rules are no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// Something else than an address or a range is denied.
    #[error("invalid denied CIDR {0}")]
    Denied(String),
    /// Something else than an address, a range or a host name is allowed.
    #[error("invalid allowed address {0}")]
    Allowed(String),
    /// Host names are allowed, and not everything else is denied.
    #[error(
        "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out \
         to block all other traffic."
    )]
    NamesWithoutDenial,
    /// There are too many of one kind.
    #[error("{kind} can have at most {limit} entries.")]
    TooMany {
        /// Name of the list.
        kind: &'static str,
        /// Limit on its entries.
        limit: usize,
    },
    /// A resolver is no IPv4 address.
    #[error("invalid DNS server {0}: an IPv4 address is expected")]
    Resolver(String),
}

/// The names that are resolved for a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names<'a> {
    /// Every name.
    All,
    /// No name.
    None,
    /// Names that one of these hosts matches: an answer for any other would be a way out.
    Only(&'a [Destination]),
}

/// Connections of a sandbox whose egress changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// It has none: nobody has used it yet.
    None,
    /// Those that the new policy denies are cut.
    Cut,
}

impl Egress {
    /// The policy of these rules.
    ///
    /// # Errors
    ///
    /// [`EgressError`], in the order of the contract: what is denied, what is allowed, resolvers.
    pub fn new(rules: EgressRules) -> Result<Self, EgressError> {
        check_count("denyOut", rules.denied.len(), MOST_DESTINATIONS)?;
        check_count("allowOut", rules.allowed.len(), MOST_DESTINATIONS)?;
        let denied: Vec<AddressRange> = rules
            .denied
            .into_iter()
            .map(|text| {
                let range = text.parse();
                range.map_err(|_invalid| EgressError::Denied(shortened(text)))
            })
            .collect::<Result<_, _>>()?;
        let allowed: Vec<Destination> = rules
            .allowed
            .into_iter()
            .map(|text| {
                let destination = text.parse();
                destination.map_err(|_invalid| EgressError::Allowed(shortened(text)))
            })
            .collect::<Result<_, _>>()?;
        let has_names = allowed.iter().any(|allowed| allowed.host().is_some());
        if has_names && !denied.iter().any(|range| range.as_str() == ALL_TRAFFIC) {
            return Err(EgressError::NamesWithoutDenial);
        }
        let resolvers = rules.resolvers.map(resolvers).transpose()?;
        let policy = Self(Arc::new(Policy {
            internet: rules.internet,
            allowed,
            denied,
            resolvers,
            requests: RequestRules::default(),
            proxy: None,
        }));
        let ports = policy.ports_of_hosts().len();
        check_count("ports of hosts in allowOut", ports, MOST_PORTS)?;
        Ok(policy)
    }

    /// The same policy with rules for requests, in place of those that it has.
    #[must_use]
    pub fn with_request_rules(self, requests: RequestRules) -> Self {
        let policy = Arc::unwrap_or_clone(self.0);
        Self(Arc::new(Policy { requests, ..policy }))
    }

    /// Rules for requests to the hosts that it lets the sandbox reach.
    pub fn request_rules(&self) -> &RequestRules {
        &self.0.requests
    }

    /// The same policy with a proxy through which everything goes that it allows, in place of the one
    /// that it has.
    #[must_use]
    pub fn with_proxy(self, proxy: Option<EgressProxy>) -> Self {
        let policy = Arc::unwrap_or_clone(self.0);
        Self(Arc::new(Policy { proxy, ..policy }))
    }

    /// The proxy of its owner's own, through which everything goes that it allows.
    pub fn proxy(&self) -> Option<&EgressProxy> {
        self.0.proxy.as_ref()
    }

    /// The policy of an owner who has chosen nothing but internet access, if that.
    pub fn of_choice(internet: Option<bool>) -> Self {
        Self(Arc::new(Policy {
            internet,
            ..Policy::default()
        }))
    }

    /// The policy of a sandbox without internet, and without any rule of its own.
    pub fn closed() -> Self {
        Self::of_choice(Some(false))
    }

    /// The policy in its owner's words.
    pub fn rules(&self) -> EgressRules {
        let resolvers = self.0.resolvers.as_ref();
        EgressRules {
            internet: self.0.internet,
            allowed: self.0.allowed.iter().map(ToString::to_string).collect(),
            denied: self.0.denied.iter().map(ToString::to_string).collect(),
            resolvers: resolvers.map(|all| all.iter().map(ToString::to_string).collect()),
        }
    }

    /// Choice of internet access, if its owner made one.
    pub fn internet(&self) -> Option<bool> {
        self.0.internet
    }

    /// Addresses that may be reached, beyond what the platform denies.
    pub fn reach(&self) -> Reach {
        let allowed = self.0.allowed.iter().filter_map(Destination::range);
        Reach::new(allowed, self.denied())
    }

    /// Hosts that may be reached by their names.
    pub fn hosts(&self) -> impl Iterator<Item = &HostRule> {
        self.0.allowed.iter().filter_map(Destination::host)
    }

    /// The rule that lets this host be reached by its name at a port, if there is one.
    pub fn rule_for(&self, host: &HostName, port: u16) -> Option<&HostRule> {
        self.hosts().find(|rule| rule.allows(host, port))
    }

    /// Ports at which hosts are reached by name.
    pub fn ports_of_hosts(&self) -> BTreeSet<u16> {
        let ports = self.hosts().flat_map(HostRule::ports);
        ports.copied().collect()
    }

    /// Ports at which rules for requests hold, so that somebody has to look at what goes there, also
    /// where its address is reached.
    pub fn ports_of_requests(&self) -> BTreeSet<u16> {
        let rules = &self.0.requests;
        let mut ports = BTreeSet::new();
        if rules.have_effect() {
            ports.insert(TLS);
        }
        if rules.concern_plain_requests() {
            ports.insert(WEB);
        }
        ports
    }

    /// Addresses whose packets go there by themselves: none where everything goes through a proxy.
    pub fn routed(&self) -> Reach {
        match self.0.proxy {
            Some(_) => Reach::Nothing,
            None => self.reach(),
        }
    }

    /// Returns true if it is as a sandbox has it whose owner has said nothing.
    pub fn is_open(&self) -> bool {
        self.reach() == Reach::Everything && self.resolvers().is_none() && !self.judges_names()
    }

    /// Returns true if hosts are reached by their names that are not reached by their addresses, or
    /// rules hold for requests to some that are reached, or all that is reached is behind a proxy, so
    /// that somebody has to look at names.
    pub fn judges_names(&self) -> bool {
        let has_hosts = self.hosts().next().is_some();
        let reads_all = self.0.requests.have_effect() || self.0.proxy.is_some();
        match self.reach() {
            Reach::Everything => reads_all,
            Reach::Some(_) => has_hosts || reads_all,
            Reach::Nothing => has_hosts,
        }
    }

    /// The names that are resolved for it. Where every address is denied, only those that it may
    /// reach by name: questions for others would carry out whatever is written into them.
    pub fn names(&self) -> Names<'_> {
        if self.0.resolvers.as_ref().is_some_and(Vec::is_empty) {
            return Names::None;
        }
        if Reach::new(std::iter::empty(), self.denied()) != Reach::Nothing {
            return Names::All;
        }
        match self.hosts().next() {
            Some(_) => Names::Only(&self.0.allowed),
            None => Names::None,
        }
    }

    /// Resolvers that its owner named.
    pub fn resolvers(&self) -> Option<&[Ipv4Addr]> {
        self.0.resolvers.as_deref()
    }

    fn denied(&self) -> impl Iterator<Item = &AddressRange> {
        let replaced = (self.0.internet == Some(false)).then(AddressRange::everything);
        let given: &[AddressRange] = match replaced {
            Some(_) => &[],
            None => &self.0.denied,
        };
        replaced.into_iter().chain(given)
    }
}

impl Names<'_> {
    /// Returns true if this name is resolved.
    pub fn include(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Only(destinations) => {
                let mut hosts = destinations.iter().filter_map(Destination::host);
                hosts.any(|host| host.names(name))
            }
        }
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

fn check_count(kind: &'static str, count: usize, limit: usize) -> Result<(), EgressError> {
    if count > limit {
        return Err(EgressError::TooMany { kind, limit });
    }
    Ok(())
}

fn resolvers(texts: Vec<String>) -> Result<Vec<Ipv4Addr>, EgressError> {
    check_count("dnsServers", texts.len(), MOST_RESOLVERS)?;
    let addresses = texts.into_iter().map(|text| {
        let address = text
            .parse()
            .ok()
            .filter(|address: &Ipv4Addr| !address.is_unspecified());
        address.ok_or_else(|| EgressError::Resolver(shortened(text)))
    });
    addresses.collect()
}

/// The text in an answer to whoever sent it, of which there may be megabytes.
fn shortened(text: String) -> String {
    const LONGEST: usize = 256;
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allowed: &[&str], denied: &[&str]) -> EgressRules {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        EgressRules {
            allowed: owned(allowed),
            denied: owned(denied),
            ..EgressRules::default()
        }
    }

    fn policy(allowed: &[&str], denied: &[&str]) -> Egress {
        Egress::new(rules(allowed, denied)).unwrap()
    }

    #[track_caller]
    fn check(egress: &Egress, address: &str, reached: bool) {
        let address = address.parse().unwrap();
        assert_eq!(egress.reach().contains(address), reached, "{address}");
    }

    #[test]
    fn what_is_allowed_goes_before_what_is_denied_and_the_rest_is_open() {
        check(&Egress::default(), "8.8.8.8", true);
        let some = policy(&["8.8.8.8"], &["8.8.0.0/16", "1.1.1.1"]);
        check(&some, "8.8.8.8", true);
        check(&some, "8.8.4.4", false);
        check(&some, "1.1.1.1", false);
        check(&some, "1.1.1.2", true);
        let only = policy(&["1.1.1.0/24"], &["0.0.0.0/0"]);
        check(&only, "1.1.1.255", true);
        check(&only, "1.1.2.0", false);
    }

    #[test]
    fn no_internet_denies_everything_in_place_of_what_is_denied_and_keeps_what_is_allowed() {
        assert_eq!(Egress::closed().reach(), Reach::Nothing);
        let closed = Egress::new(EgressRules {
            internet: Some(false),
            ..rules(&["1.1.1.1"], &["9.9.9.9"])
        })
        .unwrap();
        check(&closed, "1.1.1.1", true);
        check(&closed, "8.8.8.8", false);
        assert_eq!(
            closed.rules().denied,
            ["9.9.9.9"],
            "it is shown as it was given"
        );
    }

    #[test]
    fn rules_are_refused_in_the_contracts_order_and_words() {
        #[track_caller]
        fn check(allowed: &[&str], denied: &[&str], said: &str) {
            let refused = Egress::new(rules(allowed, denied)).unwrap_err();
            assert_eq!(refused.to_string(), said);
        }
        for text in ["example.com", "0.0.0.0", "::", "1.2.3.4/33", "", "1.2.3"] {
            check(
                &["0.0.0.0"],
                &[text],
                &format!("invalid denied CIDR {text}"),
            );
        }
        for text in [
            "0.0.0.0", "::", "::/0", "http://x", "a b", "", "*x.com", "1.2.3",
        ] {
            check(&[text], &[], &format!("invalid allowed address {text}"));
        }
        let names = "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' \
                     in deny out to block all other traffic.";
        check(&["example.com"], &[], names);
        check(&["*"], &["0.0.0.0/1", "128.0.0.0/1"], names);
        let many = vec!["1.1.1.1"; MOST_DESTINATIONS + 1];
        check(&many, &[], "allowOut can have at most 512 entries.");
        let long = "x".repeat(1000);
        let refused = Egress::new(rules(&[], &[&long])).unwrap_err();
        assert!(refused.to_string().len() < 300);
    }

    #[test]
    fn no_internet_does_not_stand_for_the_denial_that_names_need() {
        let rules = EgressRules {
            internet: Some(false),
            ..rules(&["example.com"], &[])
        };
        assert_eq!(Egress::new(rules), Err(EgressError::NamesWithoutDenial));
    }

    #[test]
    fn resolvers_are_a_few_addresses() {
        let with = |resolvers: &[&str]| {
            Egress::new(EgressRules {
                resolvers: Some(resolvers.iter().map(ToString::to_string).collect()),
                ..EgressRules::default()
            })
        };
        assert_eq!(with(&[]).unwrap().names(), Names::None);
        let two = with(&["1.1.1.1", "8.8.8.8"]).unwrap();
        assert_eq!(two.resolvers().unwrap().len(), 2);
        for wrong in ["::1", "dns.example", "0.0.0.0", "1.1.1.1:53"] {
            assert_eq!(with(&[wrong]), Err(EgressError::Resolver(wrong.into())));
        }
        let refused = with(&["1.1.1.1"; 11]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "dnsServers can have at most 10 entries."
        );
    }

    #[test]
    fn names_are_resolved_where_something_can_be_reached_by_them() {
        assert_eq!(Egress::default().names(), Names::All);
        assert_eq!(policy(&[], &["1.1.1.1"]).names(), Names::All);
        assert_eq!(Egress::closed().names(), Names::None);
        assert_eq!(policy(&["1.1.1.1"], &["0.0.0.0/0"]).names(), Names::None);
        let hosts = policy(&["a.test", "*.b.test"], &["0.0.0.0/0"]);
        for (name, resolved) in [
            ("a.test", true),
            ("A.Test.", true),
            ("x.a.test", false),
            ("x.y.b.test", true),
            ("b.test", false),
            ("secret.evil.test", false),
        ] {
            assert_eq!(hosts.names().include(name), resolved, "{name}");
        }
    }

    #[test]
    fn hosts_are_reached_by_the_rule_that_names_them() {
        let hosts = policy(&["1.1.1.1", "*.b.test", "a.test"], &["0.0.0.0/0"]);
        assert!(hosts.judges_names());
        for (name, rule) in [
            ("A.test.", Some("a.test")),
            ("x.a.test", None),
            ("x.b.test", Some("*.b.test")),
            ("b.test", None),
        ] {
            let found = hosts.rule_for(&name.parse().unwrap(), 443);
            assert_eq!(found.map(ToString::to_string).as_deref(), rule, "{name}");
            assert_eq!(hosts.rule_for(&name.parse().unwrap(), 22), None);
        }
        let ported = policy(&["a.test:8443", "b.test"], &["0.0.0.0/0"]);
        let ports: Vec<_> = ported.ports_of_hosts().into_iter().collect();
        assert_eq!(ports, [80, 443, 8443]);
        assert!(ported.names().include("a.test"));
        let many: Vec<_> = (1..=17).map(|port| format!("a.test:{port}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let refused = Egress::new(rules(&many, &["0.0.0.0/0"])).unwrap_err();
        let said = "ports of hosts in allowOut can have at most 16 entries.";
        assert_eq!(refused.to_string(), said);
        assert!(!policy(&["1.1.1.1"], &["0.0.0.0/0"]).judges_names());
        let all = policy(&["a.test", "0.0.0.0/0"], &["0.0.0.0/0"]);
        assert!(!all.judges_names(), "every address is reached anyway");
    }

    #[test]
    fn rules_are_shown_as_they_were_given() {
        let rules = EgressRules {
            internet: Some(true),
            resolvers: Some(vec!["9.9.9.9".into()]),
            ..rules(
                &["1.1.1.1", "2.0.0.0/8", "::1", "Example.com", "*"],
                &["0.0.0.0/0", "fd00::/8"],
            )
        };
        let mut shown = rules.clone();
        shown.allowed[3] = "example.com".into();
        assert_eq!(Egress::new(rules).unwrap().rules(), shown);
    }
}
