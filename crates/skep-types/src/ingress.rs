//! Policy of who may reach a sandbox's own ports, and how requests get there.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Rule for requests to the ports of a sandbox, chosen when it is created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ingress {
    /// True if callers must show the sandbox's traffic token.
    pub is_private: bool,
    /// The `Host` that its services see instead of the one that was asked for.
    pub host_mask: Option<HostMask>,
    /// Ports on which its services speak TLS.
    pub https_ports: HttpsPorts,
}

/// A host, with a port or without, in which `${PORT}` stands for the port that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMask(Box<str>);

/// Place of the port in a mask.
const PORT: &str = "${PORT}";

/// Longest host name of the DNS, with room for a port.
const MASK_LENGTH: usize = 260;

/// Something that is no [`HostMask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostMaskError {
    /// Services would read it differently; the ASCII form of the name is meant.
    #[error("host mask is not ASCII")]
    NotAscii,
    /// It is no host with or without a port.
    #[error("host mask is not a host with or without a port")]
    Invalid,
}

impl HostMask {
    /// The mask as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host that a service behind `port` sees.
    pub fn host_for(&self, port: u16) -> String {
        self.0.replace(PORT, &port.to_string())
    }
}

impl FromStr for HostMask {
    type Err = HostMaskError;

    /// Reads a mask. Whatever port is put into it, the outcome is a host and nothing else: no
    /// space, no line, no path and no user can follow.
    fn from_str(text: &str) -> Result<Self, HostMaskError> {
        if !text.is_ascii() {
            return Err(HostMaskError::NotAscii);
        }
        if text.len() > MASK_LENGTH || !is_authority(&text.replace(PORT, "65535")) {
            return Err(HostMaskError::Invalid);
        }
        Ok(Self(text.into()))
    }
}

fn is_authority(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix('[') {
        let Some((address, rest)) = rest.split_once(']') else {
            return false;
        };
        let port = rest.strip_prefix(':');
        return address.parse::<Ipv6Addr>().is_ok()
            && (rest.is_empty() || port.is_some_and(is_port));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    is_host(host) && port.is_none_or(is_port)
}

fn is_port(text: &str) -> bool {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits && text.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_host(text: &str) -> bool {
    if text.parse::<Ipv4Addr>().is_ok() {
        return true;
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Ports of a sandbox whose services speak TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpsPorts(BTreeSet<u16>);

/// Limit on the number of such ports.
pub const MOST_HTTPS_PORTS: usize = 128;

/// Ports that cannot be [`HttpsPorts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HttpsPortsError {
    /// There are more than [`MOST_HTTPS_PORTS`].
    #[error("too many https ports")]
    TooMany,
    /// It is no port.
    #[error("https port {0} is not between 1 and 65535")]
    OutOfRange(i64),
    /// The port is spoken to in the agent's own way.
    #[error("https port {0} is reserved")]
    Reserved(u16),
    /// The port is named twice.
    #[error("https port {0} is named twice")]
    Repeated(u16),
}

impl HttpsPorts {
    /// Reads a list of ports, of which `reserved` is none.
    ///
    /// # Errors
    ///
    /// [`HttpsPortsError`] of the first that is wrong.
    pub fn new(ports: &[i64], reserved: u16) -> Result<Self, HttpsPortsError> {
        if ports.len() > MOST_HTTPS_PORTS {
            return Err(HttpsPortsError::TooMany);
        }
        let mut known = BTreeSet::new();
        for number in ports {
            let port = u16::try_from(*number)
                .ok()
                .filter(|port| *port > 0)
                .ok_or(HttpsPortsError::OutOfRange(*number))?;
            if port == reserved {
                return Err(HttpsPortsError::Reserved(port));
            }
            if !known.insert(port) {
                return Err(HttpsPortsError::Repeated(port));
            }
        }
        Ok(Self(known))
    }

    /// Ports that were checked when they were kept.
    pub fn from_record(ports: impl IntoIterator<Item = u16>) -> Self {
        Self(ports.into_iter().collect())
    }

    /// Returns true if a port is one of them.
    pub fn contains(&self, port: u16) -> bool {
        self.0.contains(&port)
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ports, the smallest first.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_a_host_whatever_port_is_put_into_it() {
        for (mask, host) in [
            ("localhost:${PORT}", "localhost:8080"),
            ("custom-host.example.com", "custom-host.example.com"),
            ("${PORT}-app.example.com:443", "8080-app.example.com:443"),
            ("127.0.0.1:${PORT}", "127.0.0.1:8080"),
            ("[::1]:${PORT}", "[::1]:8080"),
            ("a_b.example.", "a_b.example."),
        ] {
            let parsed: HostMask = mask.parse().unwrap();
            assert_eq!(
                (parsed.host_for(8080), parsed.as_str()),
                (host.to_owned(), mask)
            );
        }
    }

    #[test]
    fn nothing_but_a_host_is_a_mask() {
        for text in [
            "",
            "a b",
            "a\r\nx-injected: 1",
            "user@host",
            "http://host",
            "host/path",
            "host?query",
            "host#part",
            "host:",
            "host:0",
            "host:65536",
            "host:+80",
            "host:80:80",
            "host:${PORT}0",
            "[::1",
            "[::1]80",
            "[nonsense]",
            "..",
            "-a.example",
            "a-.example",
            "${port}.example",
            "a,b",
            "a\0b",
        ] {
            assert_eq!(
                text.parse::<HostMask>(),
                Err(HostMaskError::Invalid),
                "{text:?}"
            );
        }
        assert_eq!("höst".parse::<HostMask>(), Err(HostMaskError::NotAscii));
        let long = format!("{}.example", "a.".repeat(130));
        assert_eq!(long.parse::<HostMask>(), Err(HostMaskError::Invalid));
    }

    #[test]
    fn https_ports_are_few_different_and_not_the_agents() {
        let read = |ports: &[i64]| HttpsPorts::new(ports, 49983);
        let ports = read(&[8443, 443]).unwrap();
        assert_eq!(ports.iter().collect::<Vec<_>>(), [443, 8443]);
        assert!(ports.contains(443) && !ports.contains(80) && !ports.is_empty());
        assert_eq!(read(&[0]), Err(HttpsPortsError::OutOfRange(0)));
        assert_eq!(read(&[65536]), Err(HttpsPortsError::OutOfRange(65536)));
        assert_eq!(read(&[-1]), Err(HttpsPortsError::OutOfRange(-1)));
        assert_eq!(read(&[49983]), Err(HttpsPortsError::Reserved(49983)));
        assert_eq!(read(&[443, 443]), Err(HttpsPortsError::Repeated(443)));
        let many: Vec<i64> = (1..=129).collect();
        assert_eq!(read(&many), Err(HttpsPortsError::TooMany));
    }
}
