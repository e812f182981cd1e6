//! Addresses, ranges and hosts as their owners write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::sync::LazyLock;

use ipnet::{IpNet, Ipv4Net};

use super::HostRule;

/// A text that is no destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an address, a range or a host name")]
pub struct DestinationError;

/// An address or a range of addresses, and the text that it was given as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressRange {
    text: Box<str>,
    range: IpNet,
}

/// A destination that a policy allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// One address, or all of a range.
    Range(AddressRange),
    /// Hosts, by name.
    Host(HostRule),
}

impl AddressRange {
    /// The text that it was given as.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The addresses, if they are of IPv4. Those of IPv6 are accepted and mean nothing: sandboxes
    /// have none.
    pub fn ipv4(&self) -> Option<Ipv4Net> {
        match self.range {
            IpNet::V4(range) => Some(range),
            IpNet::V6(_) => None,
        }
    }

    /// Every address.
    pub fn everything() -> &'static Self {
        static EVERYTHING: LazyLock<AddressRange> = LazyLock::new(|| {
            let text = super::ALL_TRAFFIC;
            text.parse().expect("the range is a constant")
        });
        &EVERYTHING
    }
}

impl FromStr for AddressRange {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        let range = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => text.parse::<IpNet>().map_err(|_| DestinationError)?,
        };
        // No address at all, which some programs take for this host. A range of IPv4 may begin so.
        let is_single = range.prefix_len() == range.max_prefix_len();
        if range.addr().is_unspecified() && (is_single || range.addr().is_ipv6()) {
            return Err(DestinationError);
        }
        let text = text.into();
        let range = unmapped(range);
        Ok(Self { text, range })
    }
}

/// Another way to write addresses of IPv4 is no way around rules about them.
fn unmapped(range: IpNet) -> IpNet {
    const MAPPED: u8 = 96;
    let IpNet::V6(mapped) = range else {
        return range;
    };
    let address = mapped.addr().to_ipv4_mapped();
    let prefix = mapped.prefix_len().checked_sub(MAPPED);
    let range = address
        .zip(prefix)
        .and_then(|(address, prefix): (Ipv4Addr, u8)| Ipv4Net::new(address, prefix).ok());
    range.map_or(IpNet::V6(mapped), IpNet::V4)
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Destination {
    /// The addresses, if it names some.
    pub fn range(&self) -> Option<&AddressRange> {
        match self {
            Self::Range(range) => Some(range),
            Self::Host(_) => None,
        }
    }

    /// The hosts, if it names some.
    pub fn host(&self) -> Option<&HostRule> {
        match self {
            Self::Range(_) => None,
            Self::Host(host) => Some(host),
        }
    }
}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        let is_address = text.parse::<IpAddr>().is_ok() || text.contains('/');
        if is_address {
            return text.parse().map(Self::Range);
        }
        text.parse().map(Self::Host).map_err(|_| DestinationError)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(range) => range.fmt(formatter),
            Self::Host(host) => host.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_the_address() {
        for (text, range) in [
            ("::ffff:8.8.8.8", Some("8.8.8.8/32")),
            ("::ffff:8.8.8.0/120", Some("8.8.8.0/24")),
            ("::ffff:0:0/96", Some("0.0.0.0/0")),
            ("2001:db8::/32", None),
            ("::ffff:8.8.8.8/64", None),
        ] {
            let parsed: AddressRange = text.parse().unwrap();
            assert_eq!(
                parsed.ipv4(),
                range.map(|range| range.parse().unwrap()),
                "{text}"
            );
            assert_eq!(parsed.as_str(), text);
        }
    }

    #[test]
    fn a_range_may_be_named_by_any_address_in_it() {
        let range: AddressRange = "8.8.8.8/16".parse().unwrap();
        assert_eq!(range.ipv4().unwrap().trunc().to_string(), "8.8.0.0/16");
    }
}
