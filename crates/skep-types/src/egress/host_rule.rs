//! Hosts that are reached by name, at some of their ports.

use std::fmt;
use std::str::FromStr;

use super::host_pattern::HostPatternError;
use super::{HostName, HostPattern};

/// Ports at which a host is reached if its rule names none.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// A rule that allows hosts at the ports of the web, or at one port (`example.com:8443`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostRule {
    pattern: HostPattern,
    port: Option<u16>,
}

impl HostRule {
    /// Returns true if it allows a host at a port.
    pub fn allows(&self, host: &HostName, port: u16) -> bool {
        self.ports().contains(&port) && self.names(host.as_str())
    }

    /// Returns true if it is about hosts of this name, at whatever port.
    pub fn names(&self, name: &str) -> bool {
        self.pattern.matches(name)
    }

    /// Ports at which it allows them.
    pub fn ports(&self) -> &[u16] {
        match &self.port {
            Some(port) => std::slice::from_ref(port),
            None => &USUAL_PORTS,
        }
    }
}

impl FromStr for HostRule {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, HostPatternError> {
        let (pattern, port) = match text.rsplit_once(':') {
            Some((pattern, port)) => (pattern, Some(port)),
            None => (text, None),
        };
        let port = port.map(|port| {
            // Another way to write it would be another text for the same rule.
            let is_plain = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
            let port = port.parse().ok().filter(|_| is_plain);
            port.ok_or(HostPatternError)
        });
        let (pattern, port) = (pattern.parse()?, port.transpose()?);
        Ok(Self { pattern, port })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pattern.fmt(formatter)?;
        self.port
            .map_or(Ok(()), |port| write!(formatter, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_reached_at_the_ports_of_the_web_or_at_the_one_that_is_named() {
        let host: HostName = "a.test".parse().unwrap();
        for (rule, ports) in [
            ("a.test", &[80, 443][..]),
            ("A.test:8443", &[8443]),
            ("*:443", &[443]),
            ("*.test:1", &[1]),
            ("b.test", &[]),
        ] {
            let parsed: HostRule = rule.parse().unwrap();
            assert_eq!(parsed.to_string(), rule.to_ascii_lowercase());
            let allowed: Vec<_> = [1, 80, 443, 8443]
                .into_iter()
                .filter(|port| parsed.allows(&host, *port))
                .collect();
            assert_eq!(allowed, ports, "{rule}");
        }
    }

    #[test]
    fn a_port_is_a_plain_number() {
        for text in [
            "a.test:",
            "a.test:0",
            "a.test:080",
            "a.test:+80",
            "a.test:65536",
            "a.test:x",
            ":80",
            "1.2.3.4:80",
            "a.test:80:80",
            "[::1]:80",
            "http://x",
        ] {
            assert_eq!(text.parse::<HostRule>(), Err(HostPatternError), "{text}");
        }
    }
}
