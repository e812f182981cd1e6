//! Means to look into the requests of sandboxes whose rules say so.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use skep_domain::EgressCa;
use skep_types::HostName;

use crate::HeaderValues;

/// Means to look into the requests of sandboxes whose rules say so.
#[derive(Clone)]
pub struct Inspection {
    /// Vouches for what sandboxes are shown in place of hosts.
    pub authority: Arc<EgressCa>,
    /// Certificates of the authorities by which hosts are verified, in PEM.
    pub roots: Arc<str>,
    /// Knows what is put into headers.
    pub values: Arc<dyn HeaderValues>,
    /// The platform's own edge, if sandboxes reach each other's ports over it.
    pub edge: Option<Edge>,
}

/// The edge by which users reach ports of sandboxes. Its addresses are the host's own, which no sandbox
/// reaches; its names lead there all the same, where a rule looks into the requests.
#[derive(Debug, Clone)]
pub struct Edge {
    /// The domain that sandboxes have names below.
    pub domain: HostName,
    /// Address at which it listens for TLS.
    pub address: SocketAddr,
}

impl Edge {
    /// Returns true for names of sandboxes' ports, such as `8000-i8f6.example.com`: what else is below
    /// the domain is not for sandboxes.
    pub fn serves(&self, host: &HostName) -> bool {
        let label = host
            .as_str()
            .strip_suffix(self.domain.as_str())
            .and_then(|label| label.strip_suffix('.'));
        let parts = label.and_then(|label| label.split_once('-'));
        parts.is_some_and(|(port, id)| port.parse::<u16>().is_ok() && !id.contains('.'))
    }
}

impl fmt::Debug for Inspection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Inspection")
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandboxes_reach_ports_of_sandboxes_at_the_edge_and_nothing_else() {
        let edge = Edge {
            domain: "skep.test".parse().unwrap(),
            address: "127.0.0.1:443".parse().unwrap(),
        };
        let serves = |name: &str| edge.serves(&name.parse().unwrap());
        assert!(serves("8000-i8f6.skep.test") && serves("8000-I8F6.Skep.Test."));
        for name in [
            "skep.test",
            "api.skep.test",
            "8000.skep.test",
            "8000-a.b.skep.test",
            "8000-i8f6.otherskep.test",
            "8000-i8f6skep.test",
            "99999-i8f6.skep.test",
        ] {
            assert!(!serves(name), "{name}");
        }
    }
}
