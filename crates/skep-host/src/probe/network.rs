//! The packet filter and the routes.

use std::fs;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use ipnet::Ipv4Net;
use serde_json::Value;

use super::{Check, ask_program};
use crate::instance;

pub(super) fn packet_filter() -> Check {
    let name = "packet filter";
    let cure = "install the package nftables";
    match ask_program("nft", &["--version"]) {
        Ok(Some(version)) => match list_chains() {
            Ok(_) => Check::good(name, version),
            Err(said) => Check::missing(name, said, "use a kernel with nf_tables"),
        },
        Ok(None) => Check::missing(name, "no nft", cure),
        Err(error) => Check::missing(name, error.to_string(), cure),
    }
}

/// A packet passes only if every table lets it. Docker, for one, lets nothing through that is
/// not its own.
pub(super) fn other_filters() -> Check {
    let name = "other packet filters";
    let chains = list_chains().unwrap_or_default();
    let closed = closed_chains(&chains);
    if closed.is_empty() {
        return Check::good(name, "none that drops what sandboxes send");
    }
    Check::limited(
        name,
        format!("dropped unless allowed there: {}", closed.join(", ")),
        "allow what comes from and goes to interfaces called skep* in that filter",
    )
}

/// Chains that see forwarded packets and drop those they have no rule for.
fn closed_chains(listing: &Value) -> Vec<String> {
    let objects = listing["nftables"].as_array();
    let chains = objects.into_iter().flatten().map(|object| &object["chain"]);
    chains
        .filter(|chain| chain["hook"] == "forward" && chain["policy"] == "drop")
        .map(|chain| {
            let part = |key: &str| chain[key].as_str().unwrap_or("?").to_owned();
            format!("{} {} {}", part("family"), part("table"), part("name"))
        })
        .collect()
}

fn list_chains() -> Result<Value, String> {
    let output = Command::new("nft")
        .args(["-j", "list", "chains"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
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
    fn a_filter_that_drops_what_it_does_not_know_is_named() {
        let listing = serde_json::json!({"nftables": [
            {"metainfo": {}},
            {"chain": {"family": "ip", "table": "filter", "name": "FORWARD", "hook": "forward", "policy": "drop"}},
            {"chain": {"family": "ip", "table": "filter", "name": "INPUT", "hook": "input", "policy": "drop"}},
            {"chain": {"family": "inet", "table": "skep0", "name": "forward", "hook": "forward", "policy": "accept"}},
        ]});
        assert_eq!(closed_chains(&listing), ["ip filter FORWARD"]);
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
