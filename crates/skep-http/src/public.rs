//! Addresses that strangers may name.
//!
//! Callers choose registries and receivers of webhooks, and the server connects to them from the host.
//! So names that lead to the host itself or into its network are refused, unless the operator has
//! named them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::HostNames;

/// A resolver that gives out public addresses only. A client connects to what it gave out and to
/// nothing else, so a name cannot mean one thing when it is checked and another when it is used.
#[derive(Debug, Clone, Copy)]
pub struct PublicNames;

/// A name leads to no public address.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` leads to a private address")]
pub struct PrivateName(String);

impl Resolve for PublicNames {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = HostNames.lookup(name.as_str()).await?;
            let public: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| is_public(*address))
                .map(|address| SocketAddr::new(address, 0))
                .collect();
            if public.is_empty() {
                return Err(PrivateName(name.as_str().to_owned()).into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// Returns true if `host`, of a URL, is an address that is not public. A client connects to such
/// without asking a resolver.
pub fn is_private_literal(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>()
        .is_ok_and(|address| !is_public(address))
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// The service of a cloud that its machines ask about themselves, at an address that looks public.
const PLATFORM_OF_AZURE: [u8; 4] = [168, 63, 129, 16];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || first == 0
        || first >= 240
        || (first == 100 && second & 0xc0 == 64)
        || (first == 198 && second & 0xfe == 18)
        || (first == 192 && second == 0 && third == 0)
        || address.octets() == PLATFORM_OF_AZURE)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // Written in one of these ways, an IPv6 address is an IPv4 address.
    let embedded = match segments {
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        [0x2002, high, low, ..] => Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))),
        _ => None,
    };
    match embedded {
        Some(address) => is_public_v4(address),
        // Nothing else has been given out to the public, and Teredo leads to IPv4 addresses.
        None => segments[0] & 0xe000 == 0x2000 && segments[..2] != [0x2001, 0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_into_the_host_or_its_network_is_private() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "[::1]",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "168.63.129.16",
            "64:ff9b:1::a00:1",
            "::ffff:0:10.0.0.1",
            "2001::1",
            "fec0::1",
            "200::1",
        ] {
            assert!(is_private_literal(private), "{private}");
        }
        for other in [
            "1.1.1.1",
            "8.8.8.8",
            "[2606:4700::1111]",
            "registry.test",
            "64:ff9b::808:808",
        ] {
            assert!(!is_private_literal(other), "{other}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_to_this_host_is_refused_when_it_is_looked_up() {
        let name: Name = "a.localhost".parse().unwrap();
        let error = PublicNames.resolve(name).await.err().unwrap();
        assert!(error.is::<PrivateName>(), "{error}");
        // The control: the resolver of the operator's own names gives it out.
        let name: Name = "a.localhost".parse().unwrap();
        assert!(HostNames.resolve(name).await.unwrap().count() > 0);
    }
}
