//! Reaching a host through the proxy of a sandbox's owner.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use skep_types::{EgressProxy, HostName, ProxyHost, ValueRequest};
use tokio::net::TcpStream;

use super::super::live::{Asked, End, Live, Permit};
use super::super::socks::{self, Fault, Login, Target};
use super::super::{Gate, Lookup};
use super::{connect, reached_addresses};
use crate::message::Refusal;

/// Time limit for a proxy to agree and to reach a host.
const AGREE_TIMEOUT: Duration = Duration::from_secs(15);

/// Connects to a host through a proxy.
///
/// The host is named to the proxy where its name is what allows it, or its owner denies no address:
/// the proxy looks it up. Elsewhere the address was judged, and a name that leads to another for the
/// proxy would be a way around that; so the address is what it is told.
pub(super) async fn dial(
    live: &Live,
    asked: &Asked,
    permit: &Permit,
    has_rule: bool,
    proxy: EgressProxy,
) -> Result<(TcpStream, End), Refusal> {
    let gate = live.gate();
    let addresses = match (&asked.host, permit) {
        (Some(host), Permit::Name(_)) => return named(gate, proxy, host, asked.port).await,
        (Some(host), Permit::Address) if gate.denies_nothing() => {
            return named(gate, proxy, host, asked.port).await;
        }
        // Its name says which rule it has, so what the sandbox believes to be its address does not
        // count.
        (Some(host), Permit::Address) if has_rule => match reached_addresses(live, host).await? {
            Lookup::Found(addresses) => addresses,
            Lookup::Here(_) | Lookup::Failed => Vec::new(),
        },
        (Some(_) | None, Permit::Name(_) | Permit::Address) => vec![asked.address],
    };
    let mut last = Refusal::NoAddress;
    for address in addresses {
        match through(gate, &proxy, Target::Address(address), asked.port).await {
            Ok(stream) => {
                let end = End {
                    address: Some(address),
                    through: Some(proxy),
                };
                return Ok((stream, end));
            }
            // Only then another one may do better.
            Err(Refusal::ProxyNoAnswer) => last = Refusal::ProxyNoAnswer,
            Err(refusal) => return Err(refusal),
        }
    }
    Err(last)
}

async fn named(
    gate: &dyn Gate,
    proxy: EgressProxy,
    host: &HostName,
    port: u16,
) -> Result<(TcpStream, End), Refusal> {
    if is_local(host) {
        return Err(Refusal::NoAddress);
    }
    let stream = through(gate, &proxy, Target::Name(host), port).await?;
    let end = End {
        address: None,
        through: Some(proxy),
    };
    Ok((stream, end))
}

/// Returns true for names of whoever looks them up, which would be the proxy.
fn is_local(host: &HostName) -> bool {
    let name = host.as_str();
    name == "localhost" || name.ends_with(".localhost")
}

/// Connects to the proxy, and has it connect to the target.
async fn through(
    gate: &dyn Gate,
    proxy: &EgressProxy,
    target: Target<'_>,
    port: u16,
) -> Result<TcpStream, Refusal> {
    let mut stream = reach(gate, proxy).await?;
    let password = match proxy.username() {
        Some(_) => Some(gate.fill(ValueRequest::ProxyPassword(proxy)).await),
        None => None,
    };
    let password = password.transpose().map_err(|_| Refusal::ProxyLogin)?;
    let words = proxy.username().zip(password.as_ref());
    let login = words.map(|(username, password)| Login {
        username,
        password: password.reveal(),
    });
    let agreeing = socks::connect(&mut stream, login, target, port);
    let agreed = tokio::time::timeout(AGREE_TIMEOUT, agreeing).await;
    agreed
        .map_err(|_| Refusal::ProxySilent)?
        .map_err(|fault| match fault {
            Fault::BrokenOff => Refusal::ProxySilent,
            Fault::NotUnderstood => Refusal::ProxyNotUnderstood,
            Fault::Login => Refusal::ProxyLogin,
            Fault::NotAllowed => Refusal::ProxyNotAllowed,
            Fault::NotReached => Refusal::ProxyNoAnswer,
        })?;
    Ok(stream)
}

/// Connects to the proxy, at an address that was looked up and judged here.
async fn reach(gate: &dyn Gate, proxy: &EgressProxy) -> Result<TcpStream, Refusal> {
    let address = proxy.address();
    let mut addresses: Vec<Ipv4Addr> = match address.host() {
        ProxyHost::Address(address) => vec![*address],
        ProxyHost::Name(name) => match gate.look_up(name).await {
            Lookup::Found(addresses) => addresses,
            Lookup::Here(_) | Lookup::Failed => Vec::new(),
        },
    };
    addresses.retain(|address| gate.may_connect(*address));
    if addresses.is_empty() {
        return Err(Refusal::ProxyNoAddress);
    }
    for each in addresses {
        if let Some(stream) = connect(SocketAddr::from((each, address.port()))).await {
            return Ok(stream);
        }
    }
    Err(Refusal::ProxySilent)
}
