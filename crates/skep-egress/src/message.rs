//! Messages between the server and the process of a sandbox.

use serde::{Deserialize, Serialize};

/// Longest texts of a request that are kept.
pub(crate) const LONGEST_HOST: usize = 253;
pub(crate) const LONGEST_METHOD: usize = 32;
pub(crate) const LONGEST_PATH: usize = 1024;

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

impl Ended {
    /// The same with texts of bounded length, which a sandbox chooses: a message that is too large is
    /// not sent, and nobody would hear of the request. One character more than is kept shows that
    /// something is missing.
    pub(crate) fn shortened(mut self) -> Self {
        let texts = [
            (&mut self.host, LONGEST_HOST),
            (&mut self.method, LONGEST_METHOD),
            (&mut self.path, LONGEST_PATH),
        ];
        for (text, longest) in texts {
            if let Some(text) = text
                && let Some((end, _)) = text.char_indices().nth(longest + 1)
            {
                text.truncate(end);
            }
        }
        self
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_a_bounded_size_whatever_a_sandbox_asks_for() {
        let ended = Ended {
            host: Some("h".repeat(9000)),
            method: Some("M".repeat(9000)),
            path: Some(format!("/{}", "\"".repeat(9000))),
            ..Ended::default()
        };
        let message = serde_json::to_vec(&FromProxy::Ended(ended.shortened())).unwrap();
        assert!(message.len() < 4096, "{}", message.len());
        let short = Ended {
            path: Some("/é".into()),
            ..Ended::default()
        };
        assert_eq!(short.shortened().path.as_deref(), Some("/é"));
    }
}
