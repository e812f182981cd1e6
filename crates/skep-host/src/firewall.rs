//! The packet filter's rules on the destinations that sandboxes may reach.
//!
//! There is one table for all sandboxes of a server, written once by `nft`. Only sandboxes whose
//! owners have rules of their own are in it ([`policies`]), by messages to the kernel, so that
//! starting a sandbox starts no other program. A packet is judged by the
//! interface it comes from: its name says that it is a sandbox's, its group whether that
//! sandbox reaches everything, nothing or what its policy says, and the host's own routes, which
//! lead to each sandbox over its own interface only, whether the sender is who it says it is.

mod keeper;
mod nft;
mod policies;
mod shared;

use std::io;
use std::process::{Command, Stdio};

use ipnet::Ipv4Net;
use serde_json::{Value, json};
use skep_telemetry::Chain;
use skep_types::PLATFORM_DENIED;

use crate::config::HostConfig;
use crate::defence::Defence;
use crate::instance::{Naming, all_subnets};
use crate::kernel_settings::Bystanders;
pub(crate) use keeper::keep;
use nft::{
    Table, accept, ask_nft, differ, discard, equal, goto, known, meta, payload, range, refuse,
    reset, run_nft, state,
};
pub(crate) use policies::{Allowance, Policies};
use policies::{POLICIES, PROXIES, REDIRECTS};
pub(crate) use shared::is_shared;

/// Groups of interfaces, which only mean something together with their names.
const OPEN: u32 = 0x5ce9_0001;
const CLOSED: u32 = 0x5ce9_0002;
const RULED: u32 = 0x5ce9_0003;
/// Every server's interfaces start with this.
const ANY_INTERFACE: &str = "skep*";
/// Connections that one sandbox may have open at a time: the host's table of them is one
/// for all, and full for all.
const CONNECTIONS: u32 = 8192;
/// Those of them to one service at the gateway.
const GATEWAY_CONNECTIONS: u32 = 256;
const DNS: u16 = crate::dns::PORT;

/// Failure to install or remove the rules.
#[derive(Debug, thiserror::Error)]
pub enum FirewallError {
    /// `nft` comes with the package `nftables`.
    #[error("cannot run nft")]
    NoTool(#[source] io::Error),
    /// The kernel or `nft` refused the rules.
    #[error("nft refused the rules: {0}")]
    Refused(String),
    /// `nft` listed what is there in a form that it did not promise.
    #[error("cannot read what nft lists")]
    Listing(#[source] serde_json::Error),
    /// The policy of a sandbox could not be put in force; it reaches nothing.
    #[error("cannot put the policy of a sandbox in force")]
    Policy(#[source] io::Error),
}

/// The group of the interface of a sandbox that may reach this.
pub(crate) fn group(allowance: &Allowance) -> u32 {
    match allowance {
        Allowance::Everything => OPEN,
        Allowance::Nothing => CLOSED,
        Allowance::Some { .. } => RULED,
    }
}

/// Ranges that no sandbox reaches.
pub(crate) fn denied() -> Vec<Ipv4Net> {
    PLATFORM_DENIED
        .iter()
        .map(|range| range.parse().expect("the ranges are constants"))
        .chain([all_subnets()])
        .collect()
}

/// Puts the rules in force, in place of those of an earlier server. Blocks.
pub(crate) fn install(
    naming: Naming,
    config: &HostConfig,
    bystanders: &Bystanders,
) -> Result<(), FirewallError> {
    run_nft(&rules(naming, config, bystanders))?;
    // Without it sandboxes are held all the same; they may not reach what they may.
    if let Err(error) = enter_shared_filter(naming, config) {
        tracing::warn!(error = %Chain(&error), "cannot see to the filter that iptables shares");
    }
    Ok(())
}

/// Lets sandboxes pass the filter that iptables shares, where its policy would drop them. Blocks.
fn enter_shared_filter(naming: Naming, config: &HostConfig) -> Result<(), FirewallError> {
    if config.has(Defence::SharedFilter) {
        shared::enter(naming, &list_chains()?)?;
    }
    Ok(())
}

/// Takes the rules away. Blocks.
pub(crate) fn remove(naming: Naming) -> Result<(), FirewallError> {
    let left = shared::leave(naming);
    run_nft(&Table::removal(&naming.table())).and(left)
}

/// All chains of all tables, as `nft` lists them. Blocks.
pub(crate) fn list_chains() -> Result<Vec<Value>, FirewallError> {
    let listing = ask_nft(&["list", "chains"])?;
    let chains = listing.into_iter();
    Ok(chains
        .filter_map(|mut object| object.get_mut("chain").map(Value::take))
        .collect())
}

/// Returns true if the filter that iptables shares has rules of this instance number. Blocks.
pub(crate) fn is_in_shared_filter(naming: Naming) -> Result<bool, FirewallError> {
    shared::is_entered(naming)
}

/// Returns true if the table of this instance number is installed. Blocks.
pub(crate) fn is_installed(naming: Naming) -> io::Result<bool> {
    let listed = Command::new("nft")
        .args(["list", "table", "inet", &naming.table()])
        .stdin(Stdio::null())
        .output()?;
    Ok(listed.status.success())
}

/// The table of a server, chain by chain.
fn rules(naming: Naming, config: &HostConfig, bystanders: &Bystanders) -> Value {
    let mut table = Table::new(naming.table());
    table.ranges("denied", &denied());
    table.ranges("allowed", &config.allowed_ranges);
    table.chains_by_interface(POLICIES);
    table.chains_by_interface(REDIRECTS);
    table.chains_by_interface(PROXIES);
    arriving(&mut table, naming, config);
    redirecting(&mut table, naming, config);
    to_host(&mut table, naming, config);
    through_host(&mut table, naming, config);
    leaving(&mut table, naming);
    if config.has(Defence::UntrackedNames) {
        table.base("answering", "filter", "output", -300);
        for (chain, expressions) in untracked_names(naming) {
            table.rule(chain, expressions);
        }
    }
    if config.has(Defence::ApartNetworks) && !bystanders.closed.is_empty() {
        // Forwarding is on for us alone: no packet goes from one of the host's other networks
        // to another that did not before.
        let arriving = equal(meta("iifname"), json!({"set": bystanders.closed}));
        let leaving = equal(meta("oifname"), json!({"set": bystanders.all}));
        table.rule("forward", [arriving, leaving, discard()]);
    }
    table.replace()
}

/// Before anything else: a sandbox speaks IPv4, and as itself.
fn arriving(table: &mut Table, naming: Naming, config: &HostConfig) {
    let judged = |defence| verdict(config, defence, discard());
    // At -300 connections are not tracked yet (-200), so what is dropped leaves no entry, and
    // `notrack` has an effect.
    table.base("arriving", "filter", "prerouting", -300);
    table.chain("arrived");
    table.rule("arriving", [from_ours(naming), goto("arrived")]);
    let is_ipv6 = equal(meta("nfproto"), json!("ipv6"));
    table.rule("arrived", [is_ipv6, judged(Defence::NoIpv6)]);
    table.rule(
        "arrived",
        [strange_sender(), judged(Defence::CheckedSenders)],
    );
}

/// To the egress proxy, where a sandbox has one.
fn redirecting(table: &mut Table, naming: Naming, config: &HostConfig) {
    // Before the place where others change destinations (-100): the first who does decides.
    table.base("redirecting", "nat", "prerouting", -101);
    if !config.gateway_ports.is_empty() {
        // An owner's rule may be about the same port, of a host of the world.
        table.rule("redirecting", [to_gateway(naming), accept()]);
    }
    table.rule("redirecting", [from_ours(naming), by_interface(REDIRECTS)]);
}

/// To the host itself: names, what else is served at the gateway, the sandbox's own egress proxy, and
/// nothing else.
fn to_host(table: &mut Table, naming: Naming, config: &HostConfig) {
    // At -10, before the operator's own filters at 0. A drop is final; an accept is still judged
    // by theirs.
    table.base("input", "filter", "input", -10);
    table.chain("to_machine");
    table.rule("input", [from_ours(naming), goto("to_machine")]);
    // Answers of sandboxes on connections that the host began, as the proxy does.
    table.rule("to_machine", [known(), accept()]);
    for protocol in ["udp", "tcp"] {
        let question = equal(payload(protocol, "dport"), json!(DNS));
        table.rule("to_machine", [to_gateway(naming), question, accept()]);
    }
    for (number, port) in config.gateway_ports.iter().enumerate() {
        let to_service = equal(payload("tcp", "dport"), json!(port));
        let too_many = too_many_connections(&format!("gateway-{number}"), GATEWAY_CONNECTIONS);
        let counted = [to_gateway(naming), to_service.clone(), too_many, refuse()];
        table.rule("to_machine", counted);
        table.rule("to_machine", [to_gateway(naming), to_service, accept()]);
    }
    // What was led to the sandbox's own proxy by its rules, and not who knows the proxy of another.
    let is_redirected = json!({"match": {
        "op": "in", "left": {"ct": {"key": "status"}}, "right": "dnat",
    }});
    let too_many = too_many_connections("redirected", CONNECTIONS);
    let counted = [is_redirected.clone(), too_many, refuse()];
    table.rule("to_machine", counted);
    table.rule("to_machine", [is_redirected, by_interface(PROXIES)]);
    table.rule(
        "to_machine",
        [verdict(config, Defence::ClosedHost, refuse())],
    );
}

/// Through the host: to the internet, and never from one sandbox to another.
fn through_host(table: &mut Table, naming: Naming, config: &HostConfig) {
    let judged = |defence| verdict(config, defence, refuse());
    table.base("forward", "filter", "forward", -10);
    table.chain("outward");
    table.chain("inward");
    table.chain("refused");
    table.rule("forward", [from_ours(naming), goto("outward")]);
    table.rule("forward", [to_ours(naming), goto("inward")]);
    table.rule("outward", [known(), accept()]);
    table.rule("outward", [state(json!("invalid")), discard()]);
    // Before the ranges that the operator allows: no configuration opens a way between sandboxes.
    let to_any_sandbox = equal(meta("oifname"), json!(ANY_INTERFACE));
    table.rule(
        "outward",
        [to_any_sandbox, judged(Defence::ClosedNeighbours)],
    );
    let has_no_internet = differ(meta("iifgroup"), json!({"set": [OPEN, RULED]}));
    table.rule("outward", [has_no_internet, goto("refused")]);
    // Counts new connections only, because packets of known ones were accepted above.
    table.rule(
        "outward",
        [too_many_connections("connections", CONNECTIONS), refuse()],
    );
    // No owner opens what the platform denies; the operator does.
    let is_denied = equal(payload("ip", "daddr"), json!("@denied"));
    let is_no_exception = differ(payload("ip", "daddr"), json!("@allowed"));
    table.rule(
        "outward",
        [is_denied, is_no_exception, judged(Defence::DeniedRanges)],
    );
    let has_no_policy = equal(meta("iifgroup"), json!(OPEN));
    table.rule("outward", [has_no_policy, accept()]);
    // The chain of a policy accepts what may be reached, and comes back with the rest.
    table.rule("outward", [by_interface(POLICIES)]);
    let rest = verdict(config, Defence::OwnersRules, goto("refused"));
    table.rule("outward", [rest]);
    // The kernel sends few other refusals a second, and to a connection that was cut they are only
    // a hint.
    let is_tcp = equal(meta("l4proto"), json!("tcp"));
    table.rule("refused", [is_tcp, reset()]);
    table.rule("refused", [refuse()]);
    // What is new comes from the host itself, and so does not pass here.
    table.rule("inward", [known(), accept()]);
    table.rule("inward", [discard()]);
}

/// Out of the host, under its own address.
fn leaving(table: &mut Table, naming: Naming) {
    table.base("leaving", "nat", "postrouting", 100);
    table.rule(
        "leaving",
        [
            equal(payload("ip", "saddr"), range(&naming.subnet())),
            differ(meta("oifname"), json!(ANY_INTERFACE)),
            json!({"masquerade": null}),
        ],
    );
}

/// The verdict of a defence; packets pass where the attack suite leaves it out.
fn verdict(config: &HostConfig, defence: Defence, verdict: Value) -> Value {
    if config.has(defence) {
        verdict
    } else {
        accept()
    }
}

/// Rules that keep questions for names, and the answers, out of the host's table of connections:
/// it is one for all, and an entry for each would stay for half a minute. Nothing here asks
/// whether a name's packet belongs to a connection.
fn untracked_names(naming: Naming) -> [(&'static str, Vec<Value>); 4] {
    let gateway = json!(naming.gateway().to_string());
    let question = |protocol: &str| {
        vec![
            equal(payload("ip", "daddr"), gateway.clone()),
            equal(payload(protocol, "dport"), json!(DNS)),
            json!({"notrack": null}),
        ]
    };
    let answer = |protocol: &str| {
        vec![
            to_ours(naming),
            equal(payload("ip", "saddr"), gateway.clone()),
            equal(payload(protocol, "sport"), json!(DNS)),
            json!({"notrack": null}),
        ]
    };
    [
        ("arrived", question("udp")),
        ("arrived", question("tcp")),
        ("answering", answer("udp")),
        ("answering", answer("tcp")),
    ]
}

/// Condition that a packet comes from a sandbox of this server.
fn from_ours(naming: Naming) -> Value {
    equal(meta("iifname"), json!(interfaces(naming)))
}

/// Condition that it goes to one.
fn to_ours(naming: Naming) -> Value {
    equal(meta("oifname"), json!(interfaces(naming)))
}

fn interfaces(naming: Naming) -> String {
    format!("{}*", naming.interface_prefix())
}

/// Condition that a packet goes to the gateway's address.
fn to_gateway(naming: Naming) -> Value {
    equal(payload("ip", "daddr"), json!(naming.gateway().to_string()))
}

/// Leads to the chain that a map has for the interface that a packet came from.
fn by_interface(map: &str) -> Value {
    json!({"vmap": {"key": meta("iifname"), "data": format!("@{map}")}})
}

/// The host would not send to this address over the interface that the packet came from.
fn strange_sender() -> Value {
    equal(
        json!({"fib": {"result": "oif", "flags": ["saddr", "iif"]}}),
        json!(false),
    )
}

/// The sender has more connections open than it may.
fn too_many_connections(meter: &str, most: u32) -> Value {
    json!({"meter": {
        "name": meter,
        "key": payload("ip", "saddr"),
        "stmt": {"ct count": {"val": most, "inv": true}},
    }})
}
