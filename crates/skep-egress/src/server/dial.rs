//! Reaching a host by its name, or an address.

mod proxied;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use skep_types::{HostName, RequestRule};
use tokio::net::TcpStream;

use super::judge::Treatment;
use super::live::{Asked, End, Live, Permit};
use super::{Lookup, SandboxState};
use crate::message::{Leaf, Refusal, Route, Speech, Wanted, Way};

/// Time limit for a host to be reached, at any of its addresses, and at one of several.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// Way in which a host is reached.
pub(super) enum Reached {
    /// Over this socket, by this rule; none if its address is allowed.
    Socket(OwnedFd, Option<String>),
    /// Over a pipe to the process that has the socket.
    Pipe(OwnedFd, Option<String>),
    /// Not before what is said has been read.
    Inspect(Option<Leaf>),
}

/// Connects to a host that a sandbox asks for, if it may. The socket is among the living connections
/// then.
pub(super) async fn reach(
    room: &Arc<SandboxState>,
    process: u64,
    wanted: Wanted,
) -> Result<Reached, Refusal> {
    // The process may say anything.
    let host: Option<HostName> = match &wanted.host {
        Some(host) => Some(host.parse().map_err(|_| Refusal::NoName)?),
        None => None,
    };
    let live = &room.live;
    let gate = live.gate();
    let rule = host.as_ref().and_then(|host| gate.request_rule(host));
    let treatment = Treatment::of(rule.as_ref().map(|(_, rule)| rule), wanted.way);
    let asked = Asked {
        process,
        connection: wanted.connection,
        host,
        address: wanted.address,
        port: wanted.port,
        way: wanted.way,
        treatment,
    };
    // Before anybody is asked for the name: a question carries out what is written into it.
    let permit = live.permit(&asked)?;
    if treatment == Treatment::Inspect {
        return inspect(room, &asked);
    }
    if live.is_full() {
        return Err(Refusal::TooMany);
    }
    let has_rule = rule.is_some();
    let dialing = async {
        match gate.proxy() {
            Some(proxy) => proxied::dial(live, &asked, &permit, has_rule, proxy).await,
            None => dial(live, &asked, &permit, has_rule).await,
        }
    };
    let dialed = tokio::time::timeout(DIAL_TIMEOUT, dialing).await;
    let (stream, end) = dialed.map_err(|_| Refusal::NoAnswer)??;
    let socket = stream.into_std().map_err(|_| Refusal::NoAnswer)?;
    // The policy may have changed meanwhile.
    let allowed_by = live.add(&asked, end, &socket)?;
    if treatment == Treatment::Direct {
        return Ok(Reached::Socket(socket.into(), allowed_by));
    }
    let host = match &asked.host {
        Some(host) => host.to_string(),
        None => asked.address.to_string(),
    };
    let route = Route {
        route: asked.connection,
        host,
        port: asked.port,
        rule: allowed_by.clone(),
        speech: speech(room, asked.way, rule.as_ref()),
    };
    match super::sender::lead(room, route, socket.into()).await {
        Ok(pipe) => Ok(Reached::Pipe(pipe, allowed_by)),
        Err(refusal) => {
            live.remove(asked.connection);
            Err(refusal)
        }
    }
}

fn speech(room: &SandboxState, way: Way, rule: Option<&(String, RequestRule)>) -> Speech {
    match way {
        Way::Inside { secure, h2 } => Speech::Requests { secure, h2 },
        Way::Opaque | Way::Plain => Speech::Opaque {
            pace: rule.and_then(|(name, rule)| room.ledger.pace(name, rule.limits())),
        },
    }
}

fn inspect(room: &SandboxState, asked: &Asked) -> Result<Reached, Refusal> {
    let Some(inspection) = room.inspection.get() else {
        tracing::error!("a rule looks into requests, and nothing here can");
        return Err(Refusal::NoAnswer);
    };
    let host = asked.host.as_ref().filter(|_| asked.way == Way::Opaque);
    let leaf = host.map(|host| room.leaves.get(&inspection.authority, host));
    Ok(Reached::Inspect(leaf.transpose()?))
}

/// Connects to a host.
async fn dial(
    live: &Live,
    asked: &Asked,
    permit: &Permit,
    has_rule: bool,
) -> Result<(TcpStream, End), Refusal> {
    let addresses = match (&asked.host, permit) {
        (Some(host), Permit::Name(_)) => live.gate().look_up(host).await,
        // Its name says which rule it has, so what the sandbox believes to be its address does not
        // count.
        (Some(host), Permit::Address) if has_rule => reached_addresses(live, host).await?,
        (Some(_) | None, Permit::Name(_) | Permit::Address) => Lookup::Found(vec![asked.address]),
    };
    let direct = |address| End {
        address: Some(address),
        through: None,
    };
    let addresses = match addresses {
        Lookup::Found(addresses) if addresses.is_empty() => return Err(Refusal::NoAddress),
        Lookup::Found(addresses) => addresses,
        // What is inside must be for the name that was judged: the edge serves others, too.
        Lookup::Here(edge) if matches!(asked.way, Way::Inside { secure: true, .. }) => {
            let stream = connect(edge).await.ok_or(Refusal::NoAnswer)?;
            return Ok((stream, direct(asked.address)));
        }
        Lookup::Here(_) | Lookup::Failed => return Err(Refusal::NoAddress),
    };
    for address in addresses {
        if let Some(stream) = connect(SocketAddr::from((address, asked.port))).await {
            return Ok((stream, direct(address)));
        }
    }
    Err(Refusal::NoAnswer)
}

/// Addresses of a host that are reached whatever host is there.
async fn reached_addresses(live: &Live, host: &HostName) -> Result<Lookup, Refusal> {
    let gate = live.gate();
    match gate.look_up(host).await {
        Lookup::Found(mut addresses) if !addresses.is_empty() => {
            addresses.retain(|address| gate.reaches(*address));
            if addresses.is_empty() {
                return Err(Refusal::NotAllowed);
            }
            Ok(Lookup::Found(addresses))
        }
        other @ (Lookup::Found(_) | Lookup::Here(_) | Lookup::Failed) => Ok(other),
    }
}

/// Connects to one address.
async fn connect(address: SocketAddr) -> Option<TcpStream> {
    match tokio::time::timeout(ADDRESS_TIMEOUT, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => {
            // Hosts that are gone are noticed, also by connections on which nobody speaks. And what is
            // said in pieces is not held back; the processes cannot choose that themselves.
            let chosen = rustix::net::sockopt::set_socket_keepalive(&stream, true)
                .and_then(|()| rustix::net::sockopt::set_tcp_nodelay(&stream, true));
            if let Err(error) = chosen {
                tracing::debug!(%error, "a connection is not kept alive");
            }
            return Some(stream);
        }
        Ok(Err(error)) => tracing::debug!(%error, "a host is not reached"),
        Err(_) => tracing::debug!("a host does not answer"),
    }
    None
}
