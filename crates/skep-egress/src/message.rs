//! Messages between the server and the process of a sandbox.

use serde::{Deserialize, Serialize};

/// Number of a connection to a host, which the process has chosen.
pub(crate) type Connection = u64;

/// A message of the process. The server trusts none of it: a sandbox may have taken the process over.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromProxy {
    /// The sandbox asks for a host.
    Dial {
        connection: Connection,
        host: String,
        port: u16,
    },
    /// The connection is over.
    Done { connection: Connection },
    /// A request has ended.
    Ended(Ended),
}

/// A request that has ended.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) host: Option<String>,
    pub(crate) port: u16,
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) rule: Option<String>,
    pub(crate) refusal: Option<Refusal>,
}

/// A message of the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToProxy {
    /// The host is reached over the socket that comes with this.
    Connected {
        connection: Connection,
        rule: String,
    },
    /// It is not reached.
    Refused {
        connection: Connection,
        refusal: Refusal,
    },
}

/// The reason for which a host is not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// No rule names it.
    NotAllowed,
    /// Nobody knows an address of it that a sandbox may reach.
    NoAddress,
    /// None of its addresses answers.
    NoAnswer,
    /// The sandbox has too many connections.
    TooMany,
    /// No host is named.
    NoName,
    /// The name is encrypted.
    EncryptedName,
    /// Something else was sent than belongs to the port.
    NotUnderstood,
    /// A tunnel was asked for.
    Tunnel,
    /// The request names two hosts.
    TwoNames,
    /// The answer was broken off, or none.
    BrokenOff,
}

impl Refusal {
    /// The reason, for a person.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::NotAllowed => "the sandbox's network rules do not allow this host",
            Self::NoAddress => "the host has no address that a sandbox may reach",
            Self::NoAnswer => "the host does not answer",
            Self::TooMany => "the sandbox has too many connections",
            Self::NoName => {
                "no host is named, and the sandbox's network rules do not allow the address"
            }
            Self::EncryptedName => {
                "the host's name is encrypted (ECH), so the sandbox's network rules cannot allow it"
            }
            Self::NotUnderstood => "what was sent is not what this port is for",
            Self::Tunnel => "tunnels (CONNECT) are not passed on",
            Self::TwoNames => "the request names two hosts",
            Self::BrokenOff => "the host did not answer to the end",
        }
    }
}
