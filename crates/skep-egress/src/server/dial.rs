//! Reaching a host by its name.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use skep_types::HostName;
use tokio::net::TcpStream;

use super::Lookup;
use super::live::Live;
use crate::message::{Connection, Refusal};

/// Time limit for a host to be reached, at any of its addresses, and at one of several.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to a host that a sandbox asks for, if it may. The socket is among the living connections
/// then, and the rule is told that allows it.
pub(super) async fn reach(
    live: &Live,
    asked: (u64, Connection),
    host: &str,
    port: u16,
) -> Result<(OwnedFd, String), Refusal> {
    // The process may say anything.
    let host: HostName = host.parse().map_err(|_| Refusal::NoName)?;
    // Before anybody is asked for the name: a question carries out what is written into it.
    live.rule_for(&host, port).ok_or(Refusal::NotAllowed)?;
    if live.is_full() {
        return Err(Refusal::TooMany);
    }
    let reached = tokio::time::timeout(DIAL_TIMEOUT, dial(live, &host, port)).await;
    let (stream, address) = reached.map_err(|_| Refusal::NoAnswer)??;
    let socket = stream.into_std().map_err(|_| Refusal::NoAnswer)?;
    // The policy may have changed meanwhile.
    let rule = live.add(asked, host, (address, port), &socket)?;
    Ok((socket.into(), rule))
}

async fn dial(live: &Live, host: &HostName, port: u16) -> Result<(TcpStream, Ipv4Addr), Refusal> {
    let addresses = match live.look_up(host).await {
        Lookup::Found(addresses) if addresses.is_empty() => return Err(Refusal::NoAddress),
        Lookup::Found(addresses) => addresses,
        Lookup::Failed => return Err(Refusal::NoAddress),
    };
    for address in addresses {
        let connecting = TcpStream::connect(SocketAddr::from((address, port)));
        match tokio::time::timeout(ADDRESS_TIMEOUT, connecting).await {
            Ok(Ok(stream)) => {
                // Hosts that are gone are noticed, also by connections on which nobody speaks.
                if let Err(error) = rustix::net::sockopt::set_socket_keepalive(&stream, true) {
                    tracing::debug!(%error, "a connection is not kept alive");
                }
                return Ok((stream, address));
            }
            Ok(Err(error)) => tracing::debug!(%error, "a host is not reached"),
            Err(_) => tracing::debug!("a host does not answer"),
        }
    }
    Err(Refusal::NoAnswer)
}
