//! The network namespace and its link to the host.

use std::net::Ipv4Addr;

use skep_linux::route::{HardwareAddress, Routes, VethPair};

use super::HostProc;
use crate::step_error::{About, StepError};
use crate::{Defence, LaunchPlan, Network, Users};

/// Name of the interface inside.
const INTERFACE: &str = "eth0";

/// Limit of the memory that the kernel keeps for a socket beside its queues, in bytes: groups,
/// options, and what is sent along with a message. No cgroup counts it. A message with as many
/// descriptors as the kernel allows, 253, takes a quarter.
const SOCKET_EXTRAS: &str = "4096";

/// Smallest, initial and largest receive buffer of a connection. Since Linux 6.18 the most is 32
/// MiB by default, of which nothing is counted before somebody accepts the connection; this is what
/// it was before.
const CONNECTION_BUFFER: &str = "4096 131072 6291456";

/// Multicast groups of a socket. Each takes of that, and as much again for the interface.
const SOCKET_GROUPS: &str = "4";

/// The host's network, still reachable after the launcher has left it.
#[derive(Debug)]
pub(super) struct Outside(Option<Routes>);

impl Outside {
    pub(super) fn open(network: &Network) -> Result<Self, StepError> {
        Ok(Self(match network {
            Network::Host | Network::Loopback => None,
            Network::Link(_) => Some(Routes::open()?),
        }))
    }

    /// Makes the pair of interfaces, and the host's route to the inner one.
    pub(super) fn make_link(self, plan: &LaunchPlan, host: &HostProc) -> Result<(), StepError> {
        let (Some(mut routes), Network::Link(link)) = (self.0, &plan.network) else {
            return Ok(());
        };
        // The default is for interfaces to come, so the loopback keeps its address.
        if plan.has(Defence::NoIpv6) {
            host.write("sys/net/ipv6/conf/default/disable_ipv6", "1")
                .or_else(missing_is_fine)?;
        }
        // The launcher is in the sandbox's namespace by now; `routes` still speaks to the host's.
        let namespace = host.open_file("self/ns/net")?;
        routes
            .make_veth_pair(VethPair {
                name: &link.host_name,
                group: link.host_group,
                hardware_address: hardware_address(End::Host, link.address),
                peer_name: INTERFACE,
                peer_hardware_address: hardware_address(End::Sandbox, link.address),
                peer_namespace: std::os::fd::AsFd::as_fd(&namespace),
            })
            .about(|| link.host_name.clone())?;
        let index = routes.index_of(&link.host_name)?;
        routes
            .add_route((link.address, 32), index, link.host_address)
            .about(|| link.address.to_string())
    }
}

/// One end of a link.
#[derive(Debug, Clone, Copy)]
enum End {
    Host,
    Sandbox,
}

/// Hardware address of one end of the link of a sandbox with this address: of those that anybody
/// may choose (the second bit of the first byte), and the same whenever the address is.
fn hardware_address(end: End, address: Ipv4Addr) -> HardwareAddress {
    let [a, b, c, d] = address.octets();
    let first = match end {
        End::Host => 0x02,
        End::Sandbox => 0x06,
    };
    [first, 0x5c, a, b, c, d]
}

/// A kernel without the protocol has nothing to switch off.
fn missing_is_fine(error: StepError) -> Result<(), StepError> {
    if error.errno == rustix::io::Errno::NOENT.raw_os_error() {
        Ok(())
    } else {
        Err(error)
    }
}

/// Addresses, routes and settings inside.
///
/// The namespace belongs to the host's user namespace, so root inside has no power over
/// it. What programs expect of root is allowed to everybody instead: low ports and `ping`.
pub(super) fn configure(plan: &LaunchPlan, host: &HostProc) -> Result<(), StepError> {
    let network = &plan.network;
    if *network == Network::Host {
        return Ok(());
    }
    let mut routes = Routes::open()?;
    let loopback = routes.index_of("lo")?;
    routes.bring_up(loopback).about(|| "lo".into())?;
    host.write("sys/net/ipv4/ip_unprivileged_port_start", "0")?;
    let (first, last) = match plan.users {
        Users::Host => (0, 65_535),
        Users::Range { first, count } => (first, first + (count - 1)),
    };
    host.write("sys/net/ipv4/ping_group_range", &format!("{first} {last}"))?;
    if plan.has(Defence::NoCopies) {
        // What is sent would be kept for whoever asks when it left, for a message alone, too,
        // where the filter does not see it. Older kernels have one such setting for all networks.
        host.write("sys/net/core/tstamp_allow_data", "0")
            .or_else(missing_is_fine)?;
    }
    if plan.has(Defence::SocketLimits) {
        limit_sockets(host)?;
    }
    let Network::Link(link) = network else {
        return Ok(());
    };
    let index = routes.index_of(INTERFACE)?;
    routes.bring_up(index).about(|| INTERFACE.into())?;
    routes
        .add_address(index, link.address, 32)
        .about(|| link.address.to_string())?;
    routes
        .add_default_route(link.gateway, index)
        .about(|| link.gateway.to_string())
}

fn limit_sockets(host: &HostProc) -> Result<(), StepError> {
    // Before Linux 6.8 there is one such number for all networks.
    host.write("sys/net/core/optmem_max", SOCKET_EXTRAS)
        .or_else(missing_is_fine)?;
    host.write("sys/net/ipv4/tcp_rmem", CONNECTION_BUFFER)?;
    host.write("sys/net/ipv4/igmp_max_memberships", SOCKET_GROUPS)
}
