//! The identity of a client of which only the address is known.

use std::net::{IpAddr, Ipv6Addr};

/// Length of the network prefix of an IPv6 address. One network is one client: it can take a new
/// address of its own for every connection.
const NETWORK_BITS: u32 = 64;

/// A client by its address, or its network where that is what a client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ClientAddress(IpAddr);

impl ClientAddress {
    pub(super) fn of(peer: IpAddr) -> Self {
        Self(match peer.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                let network = u128::MAX << (u128::BITS - NETWORK_BITS);
                Ipv6Addr::from_bits(address.to_bits() & network).into()
            }
            address @ (IpAddr::V4(_) | IpAddr::V6(_)) => address,
        })
    }

    /// Returns true if it is on this host: a local user, or a reverse proxy for everybody.
    pub(super) fn is_loopback(self) -> bool {
        self.0.is_loopback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> ClientAddress {
        ClientAddress::of(text.parse().unwrap())
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    }

    #[test]
    fn an_ipv4_address_is_one_client_however_it_is_written() {
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn this_machine_is_known_by_all_its_addresses() {
        for local in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(of(local).is_loopback(), "{local}");
        }
        assert!(!of("::2").is_loopback());
    }
}
