//! The packet filter and the routes.

use std::fs;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_json::Value;
use skep_telemetry::Chain;

use skep_types::Check;

use super::ask_program;
use crate::{firewall, instance};

pub(super) fn packet_filter() -> Check {
    let name = "packet filter";
    let cure = "install the package nftables";
    match ask_program("nft", &["--version"]) {
        Ok(Some(version)) => match firewall::list_chains() {
            Ok(_) => Check::good(name, version),
            Err(error) => Check::missing(
                name,
                Chain(&error).to_string(),
                "use a kernel with nf_tables",
            ),
        },
        Ok(None) => Check::missing(name, "no nft", cure),
        Err(error) => Check::missing(name, error.to_string(), cure),
    }
}

/// A packet passes only if every table lets it.
pub(super) fn other_filters() -> Check {
    let chains = firewall::list_chains().unwrap_or_default();
    let legacy = fs::read_to_string("/proc/net/ip_tables_names").unwrap_or_default();
    judge_filters(&chains, &legacy)
}

/// Judges the chains of other filters, and the list of tables of the older iptables.
fn judge_filters(chains: &[Value], legacy: &str) -> Check {
    let name = "other packet filters";
    if legacy.lines().any(|table| table == "filter") {
        return Check::limited(
            name,
            "iptables-legacy is in use, where this host's rules cannot be seen",
            "if its policy is DROP: `iptables-legacy -A FORWARD -i skep+ -j ACCEPT`, the same with `-o`, \
             and `iptables-legacy -A INPUT -i skep+ -j ACCEPT`",
        );
    }
    if chains.iter().any(|chain| chain["table"] == "firewalld") {
        return Check::limited(
            name,
            "firewalld rejects what comes from interfaces that it has no zone for",
            "once: `firewall-cmd --permanent --zone=trusted --add-interface=skep+ && firewall-cmd --reload`",
        );
    }
    let closed = closed_chains(chains);
    let (shared, foreign): (Vec<_>, Vec<_>) = closed
        .into_iter()
        .partition(|chain| firewall::is_shared(chain));
    if !foreign.is_empty() {
        let names: Vec<_> = foreign.into_iter().map(full_name).collect();
        return Check::limited(
            name,
            format!("dropped unless allowed there: {}", names.join(", ")),
            "allow what comes from and goes to interfaces called skep* in that filter",
        );
    }
    if shared.is_empty() {
        return Check::good(name, "none that drops what sandboxes send");
    }
    Check::good(
        name,
        "iptables drops what no rule accepts (Docker, ufw); the server adds rules for its interfaces",
    )
}

/// Chains that see forwarded packets and drop those they have no rule for.
fn closed_chains(chains: &[Value]) -> Vec<&Value> {
    let is_closed = |chain: &&Value| chain["hook"] == "forward" && chain["policy"] == "drop";
    chains.iter().filter(is_closed).collect()
}

fn full_name(chain: &Value) -> String {
    let part = |key: &str| chain[key].as_str().unwrap_or("?").to_owned();
    format!("{} {} {}", part("family"), part("table"), part("name"))
}

pub(super) fn forwarding() -> Check {
    let name = "forwarding";
    let setting = fs::read_to_string("/proc/sys/net/ipv4/ip_forward");
    match setting.as_deref().map(str::trim) {
        Ok("1") => Check::good(name, "on"),
        Ok(_) => Check::good(name, "off; the server switches it on"),
        Err(error) => Check::missing(
            name,
            error.to_string(),
            "use a kernel that can forward IPv4",
        ),
    }
}

pub(super) fn addresses() -> Check {
    let name = "addresses";
    let ours = instance::all_subnets();
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let foreign: Vec<_> = routes
        .lines()
        .filter_map(route)
        .filter(|(interface, network)| {
            let overlaps = ours.contains(network) || network.contains(&ours);
            overlaps && network.prefix_len() > 0 && !interface.starts_with("skep")
        })
        .map(|(interface, network)| format!("{network} over {interface}"))
        .collect();
    if foreign.is_empty() {
        return Check::good(name, format!("{ours} is free"));
    }
    Check::limited(
        name,
        format!(
            "{ours} is for sandboxes, but there is {}",
            foreign.join(", ")
        ),
        "what is there is out of reach of this host while a sandbox has the same address",
    )
}

/// A line of `/proc/net/route`: the interface and the network behind it.
fn route(line: &str) -> Option<(&str, Ipv4Net)> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let [interface, destination, _, _, _, _, _, mask, ..] = fields.as_slice() else {
        return None;
    };
    // The kernel prints addresses as numbers in the order of the host's bytes.
    let address = |text: &str| {
        let number = u32::from_str_radix(text, 16).ok()?;
        Some(Ipv4Addr::from(number.to_ne_bytes()))
    };
    let network = Ipv4Net::with_netmask(address(destination)?, address(mask)?).ok()?;
    Some((interface, network))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_in_the_way_of_sandboxes_are_named() {
        use skep_types::CheckStatus::{self, Good, Limited};
        let chain = |table: &str, name: &str, hook: &str, policy: &str| {
            let family = if table == "filter" { "ip" } else { "inet" };
            serde_json::json!({
                "family": family, "table": table, "name": name, "hook": hook, "policy": policy,
            })
        };
        #[track_caller]
        fn check(chains: &[Value], legacy: &str, status: CheckStatus, said: &str) {
            let check = judge_filters(chains, legacy);
            assert_eq!(check.status, status, "{check:?}");
            assert!(check.detail.contains(said), "{check:?}");
        }
        let ours = chain("skep0", "forward", "forward", "accept");
        let input = chain("mine", "in", "input", "drop");
        check(&[ours.clone(), input], "", Good, "none");
        let docker = chain("filter", "FORWARD", "forward", "drop");
        check(&[ours.clone(), docker.clone()], "", Good, "adds rules");
        let foreign = chain("mine", "through", "forward", "drop");
        check(&[docker, foreign], "", Limited, "inet mine through");
        let firewalld = chain("firewalld", "filter_FORWARD", "forward", "accept");
        check(&[firewalld, ours], "", Limited, "firewalld");
        check(&[], "nat\nfilter\n", Limited, "iptables-legacy");
    }

    #[test]
    fn a_route_is_read() {
        let line = "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0";
        let (interface, network) = route(line).unwrap();
        assert_eq!(
            (interface, network.to_string().as_str()),
            ("eth0", "192.0.2.0/24")
        );
        assert_eq!(route("Iface\tDestination\tGateway"), None);
    }
}
