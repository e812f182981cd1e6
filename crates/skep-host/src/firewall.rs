//! The packet filter's rules on the destinations that sandboxes may reach.
//!
//! There is one table for all sandboxes of a server, and nothing in it is about any single
//! one, so that starting a sandbox starts no other program. A packet is judged by the
//! interface it comes from: its name says that it is a sandbox's, its group whether that
//! sandbox has internet, and the host's own routes, which lead to each sandbox over its
//! own interface only, whether the sender is who it says it is.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use ipnet::Ipv4Net;
use serde_json::{Value, json};
use skep_types::{Egress, PLATFORM_DENIED};

use crate::config::HostConfig;
use crate::defence::Defence;
use crate::instance::{Naming, all_subnets};
use crate::kernel_settings::Bystanders;

/// Groups of interfaces, which only mean something together with their names.
const OPEN: u32 = 0x5ce9_0001;
const CLOSED: u32 = 0x5ce9_0002;
/// Every server's interfaces start with this.
const ANY_INTERFACE: &str = "skep*";
/// Connections that one sandbox may have open at a time: the host's table of them is one
/// for all, and full for all.
const CONNECTIONS: u32 = 8192;
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
}

/// The group of the interface of a sandbox that may do this.
pub(crate) fn group(egress: Egress) -> u32 {
    match egress {
        Egress::Internet => OPEN,
        Egress::None => CLOSED,
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
    run_nft(&rules(naming, config, bystanders))
}

/// Takes the rules away. Blocks.
pub(crate) fn remove(naming: Naming) -> Result<(), FirewallError> {
    run_nft(&replace(naming, Vec::new()))
}

/// Returns true if the table of this instance number is installed. Blocks.
pub(crate) fn is_installed(naming: Naming) -> io::Result<bool> {
    let listed = Command::new("nft")
        .args(["list", "table", "inet", &naming.table()])
        .stdin(Stdio::null())
        .output()?;
    Ok(listed.status.success())
}

fn rules(naming: Naming, config: &HostConfig, bystanders: &Bystanders) -> Value {
    let table = naming.table();
    let ours = format!("{}*", naming.interface_prefix());
    let from_ours = equal(meta("iifname"), json!(ours));
    let known = json!({"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}});
    let unknown =
        json!({"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "invalid"}});
    let to_any_sandbox = equal(meta("oifname"), json!(ANY_INTERFACE));
    let (accept, drop) = (json!({"accept": null}), json!({"drop": null}));
    // Whoever asks for what is not allowed hears so at once instead of waiting for nothing.
    let refuse = json!({"reject": {"type": "icmpx", "expr": "admin-prohibited"}});
    let unless_left_out = |defence, verdict: &Value| {
        if config.has(defence) {
            verdict
        } else {
            &accept
        }
        .clone()
    };
    let no_ipv6 = unless_left_out(Defence::NoIpv6, &drop);
    let checked_sender = unless_left_out(Defence::CheckedSenders, &drop);
    let closed_host = unless_left_out(Defence::ClosedHost, &refuse);
    let closed_neighbour = unless_left_out(Defence::ClosedNeighbours, &refuse);
    let denied_range = unless_left_out(Defence::DeniedRanges, &refuse);
    let rule = |chain: &str, expressions: &[&Value]| json!({"add": {"rule": {"family": "inet", "table": table, "chain": chain, "expr": expressions}}});
    // Policies accept: the table is about our interfaces and judges none of the host's other
    // traffic.
    let base = |name: &str, kind: &str, hook: &str, priority: i32| {
        json!({"add": {"chain": {
            "family": "inet", "table": table, "name": name,
            "type": kind, "hook": hook, "prio": priority, "policy": "accept",
        }}})
    };
    let chain =
        |name: &str| json!({"add": {"chain": {"family": "inet", "table": table, "name": name}}});
    let ranges = |name: &str, ranges: &[Ipv4Net]| {
        let elements: Vec<Value> = ranges.iter().map(range).collect();
        let mut set = json!({
            "family": "inet", "table": table, "name": name,
            "type": "ipv4_addr", "flags": ["interval"], "auto-merge": true,
        });
        if !elements.is_empty() {
            set["elem"] = json!(elements);
        }
        json!({"add": {"set": set}})
    };
    // A `goto` does not come back: the rules behind it in a base chain are for other packets.
    let jump = |target: &str| json!({"goto": {"target": target}});
    let dns = |protocol: &str| {
        [
            equal(payload("ip", "daddr"), json!(naming.gateway().to_string())),
            equal(payload(protocol, "dport"), json!(DNS)),
        ]
    };
    let (udp, tcp) = (dns("udp"), dns("tcp"));

    let mut commands = vec![
        ranges("denied", &denied()),
        ranges("allowed", &config.allowed_ranges),
        // Before anything else: a sandbox speaks IPv4, and as itself. At -300 connections are not
        // tracked yet (-200), so what is dropped leaves no entry, and `notrack` has an effect.
        base("arriving", "filter", "prerouting", -300),
        chain("arrived"),
        rule("arriving", &[&from_ours, &jump("arrived")]),
        rule(
            "arrived",
            &[&equal(meta("nfproto"), json!("ipv6")), &no_ipv6],
        ),
        rule("arrived", &[&strange_sender(), &checked_sender]),
        // To the host itself: names, and nothing else.
        // At -10, before the operator's own filters at 0. A drop is final; an accept is still
        // judged by theirs.
        base("input", "filter", "input", -10),
        chain("to_machine"),
        rule("input", &[&from_ours, &jump("to_machine")]),
        // Answers of sandboxes on connections that the host began, as the proxy does.
        rule("to_machine", &[&known, &accept]),
        rule("to_machine", &[&udp[0], &udp[1], &accept]),
        rule("to_machine", &[&tcp[0], &tcp[1], &accept]),
        rule("to_machine", &[&closed_host]),
        // Through the host.
        base("forward", "filter", "forward", -10),
        chain("outward"),
        chain("inward"),
        rule("forward", &[&from_ours, &jump("outward")]),
        rule(
            "forward",
            &[&equal(meta("oifname"), json!(ours)), &jump("inward")],
        ),
        rule("outward", &[&known, &accept]),
        rule("outward", &[&unknown, &drop]),
        // Before the ranges that the operator allows: no configuration opens a way between
        // sandboxes.
        rule("outward", &[&to_any_sandbox, &closed_neighbour]),
        rule(
            "outward",
            &[&differ(meta("iifgroup"), json!(OPEN)), &refuse],
        ),
        // Counts new connections only, because packets of known ones were accepted above.
        rule("outward", &[&too_many_connections(), &refuse]),
        // Exceptions from the denied ranges, so they come first.
        rule(
            "outward",
            &[&equal(payload("ip", "daddr"), json!("@allowed")), &accept],
        ),
        rule(
            "outward",
            &[
                &equal(payload("ip", "daddr"), json!("@denied")),
                &denied_range,
            ],
        ),
        rule("outward", &[&accept]),
        // What is new comes from the host itself, and so does not pass here.
        rule("inward", &[&known, &accept]),
        rule("inward", &[&drop]),
        base("leaving", "nat", "postrouting", 100),
        rule(
            "leaving",
            &[
                &equal(payload("ip", "saddr"), range(&naming.subnet())),
                &differ(meta("oifname"), json!(ANY_INTERFACE)),
                &json!({"masquerade": null}),
            ],
        ),
    ];
    if config.has(Defence::UntrackedNames) {
        commands.push(base("answering", "filter", "output", -300));
        commands.extend(untracked_names(naming).map(|(chain, expressions)| {
            let expressions: Vec<_> = expressions.iter().collect();
            rule(chain, &expressions)
        }));
    }
    if config.has(Defence::ApartNetworks) && !bystanders.closed.is_empty() {
        // Forwarding is on for us alone: no packet goes from one of the host's other networks
        // to another that did not before.
        let arriving = equal(meta("iifname"), json!({"set": bystanders.closed}));
        let leaving = equal(meta("oifname"), json!({"set": bystanders.all}));
        commands.push(rule("forward", &[&arriving, &leaving, &drop]));
    }
    let mut with_table = vec![json!({"add": {"table": {"family": "inet", "name": table}}})];
    with_table.extend(commands);
    replace(naming, with_table)
}

/// Rules that keep questions for names, and the answers, out of the host's table of connections:
/// it is one for all, and an entry for each would stay for half a minute. Nothing here asks
/// whether a name's packet belongs to a connection.
fn untracked_names(naming: Naming) -> [(&'static str, Vec<Value>); 4] {
    let to_ours = equal(
        meta("oifname"),
        json!(format!("{}*", naming.interface_prefix())),
    );
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
            to_ours.clone(),
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

/// One transaction that removes the table, whether it is there or not, and does `commands`.
fn replace(naming: Naming, commands: Vec<Value>) -> Value {
    let table = json!({"table": {"family": "inet", "name": naming.table()}});
    // To delete a table that is not there is an error, to add one that is there is none. All of it
    // is one transaction, so there is no moment without rules.
    let mut all = vec![json!({"add": table}), json!({"delete": table})];
    all.extend(commands);
    json!({"nftables": all})
}

fn meta(key: &str) -> Value {
    json!({"meta": {"key": key}})
}

fn payload(protocol: &str, field: &str) -> Value {
    json!({"payload": {"protocol": protocol, "field": field}})
}

fn equal(left: Value, right: Value) -> Value {
    json!({"match": {"op": "==", "left": left, "right": right}})
}

fn differ(left: Value, right: Value) -> Value {
    json!({"match": {"op": "!=", "left": left, "right": right}})
}

fn range(range: &Ipv4Net) -> Value {
    json!({"prefix": {"addr": range.network().to_string(), "len": range.prefix_len()}})
}

/// The host would not send to this address over the interface that the packet came from.
fn strange_sender() -> Value {
    equal(
        json!({"fib": {"result": "oif", "flags": ["saddr", "iif"]}}),
        json!(false),
    )
}

/// The sender has more connections open than it may.
fn too_many_connections() -> Value {
    json!({"meter": {
        "name": "connections",
        "key": payload("ip", "saddr"),
        "stmt": {"ct count": {"val": CONNECTIONS, "inv": true}},
    }})
}

fn run_nft(rules: &Value) -> Result<(), FirewallError> {
    let mut nft = Command::new("nft")
        .args(["-j", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(FirewallError::NoTool)?;
    let mut input = nft.stdin.take().expect("standard input is a pipe");
    let written = input.write_all(rules.to_string().as_bytes());
    drop(input);
    let output = nft.wait_with_output().map_err(FirewallError::NoTool)?;
    if output.status.success() {
        // If it failed, what it says is worth more than that it did not read to the end.
        return written.map_err(FirewallError::NoTool);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(FirewallError::Refused(
        said.trim().chars().take(512).collect(),
    ))
}
