//! Messages between the server and the processes of a sandbox.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// Longest texts of a request that are kept.
pub(crate) const LONGEST_HOST: usize = 253;
pub(crate) const LONGEST_METHOD: usize = 32;
pub(crate) const LONGEST_PATH: usize = 1024;

/// Number of a connection to a host, which the process has chosen.
pub(crate) type Connection = u64;

/// A message of the process that reads what the sandbox sends. The server trusts none of it: a sandbox
/// may have taken the process over.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromProxy {
    /// The sandbox asks for a host.
    Dial(Wanted),
    /// The connection is over.
    Done { connection: Connection },
    /// A request has ended.
    Ended(Ended),
}

/// A host that the sandbox asks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) connection: Connection,
    /// Its name, if one was read.
    pub(crate) host: Option<String>,
    /// The address that the sandbox has connected to.
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) way: Way,
}

/// Use of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    /// TLS, or something else whose content nobody reads.
    Opaque,
    /// Requests of plain HTTP.
    Plain,
    /// Requests that the server sends itself, by the other process of the sandbox.
    Inside {
        /// Over TLS.
        secure: bool,
        /// In HTTP/2, if the host speaks that.
        h2: bool,
    },
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
#[derive(Serialize, Deserialize)]
pub(crate) enum ToProxy {
    /// The host is reached over the socket that comes with this.
    Connected {
        connection: Connection,
        /// Rule that allows it; none if its address is allowed.
        rule: Option<String>,
        /// True if it is a pipe to the other process of the sandbox.
        is_pipe: bool,
    },
    /// A rule looks into requests to it: they are to be read, and each is to be passed on inside.
    Inspect {
        connection: Connection,
        /// Certificate that the sandbox is shown, where it speaks TLS.
        leaf: Option<Leaf>,
    },
    /// It is not reached.
    Refused {
        connection: Connection,
        refusal: Refusal,
    },
}

/// A certificate for one host, and its key.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Leaf {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// A message of the process that speaks with hosts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromSender {
    /// May this request be sent?
    Judge {
        route: Connection,
        request: u64,
        method: String,
        path: String,
    },
    /// The route is over.
    Done { route: Connection },
    /// Bytes have gone to the hosts of a rule, or come from there.
    Spent { rule: String, bytes: u64 },
    /// A request has ended.
    Ended(Ended),
}

/// A message of the server to that process.
#[derive(Serialize, Deserialize)]
pub(crate) enum ToSender {
    /// Requests for a host come over the first socket that comes with this, and go to the second.
    Route(Route),
    /// The request is to be sent with these headers.
    Go {
        request: u64,
        headers: Vec<(String, String)>,
        pace: Option<Pace>,
    },
    /// It is not to be sent.
    Stop { request: u64, refusal: Refusal },
}

/// A way to a host.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Route {
    pub(crate) route: Connection,
    /// Name of the host, or its address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Rule that allows it.
    pub(crate) rule: Option<String>,
    pub(crate) speech: Speech,
}

/// Kind of what is said on a route.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Speech {
    /// Bytes that mean nothing here.
    Opaque { pace: Option<Pace> },
    /// Requests that rules look into: inside TLS if `secure`, over HTTP/2 if `h2`.
    Requests { secure: bool, h2: bool },
}

/// Limits on the bytes of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pace {
    pub(crate) rule: String,
    /// Bytes so far, as the server knows.
    pub(crate) spent: u64,
    pub(crate) bytes: Option<u64>,
    pub(crate) bytes_per_second: Option<u64>,
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
    /// TLS with the client has failed.
    NotTrusted,
    /// The request is for another host than the connection.
    OtherHost,
    /// The host's certificate is not valid.
    Unverified,
    /// No pattern of the rule has the request.
    RequestNotAllowed,
    /// There were too many requests in the last minute.
    TooFast,
    /// The bytes of the rule are used up.
    Spent,
    /// The rule names a secret that there is not.
    UnknownSecret,
    /// The rule names an identity token that there is not.
    UnknownToken,
    /// A value of the rule is not to be had now, or no header can have it.
    NoValue,
    /// Nobody knows an address of the owner's proxy that a sandbox may reach.
    ProxyNoAddress,
    /// The owner's proxy does not answer.
    ProxySilent,
    /// It does not speak SOCKS5.
    ProxyNotUnderstood,
    /// It does not let the user in.
    ProxyLogin,
    /// It does not want to reach the host.
    ProxyNotAllowed,
    /// It does not get to the host.
    ProxyNoAnswer,
}

impl Refusal {
    /// The status by which a client of HTTP hears of it.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::NotAllowed
            | Self::NoName
            | Self::EncryptedName
            | Self::Tunnel
            | Self::NotTrusted
            | Self::RequestNotAllowed
            | Self::Spent => 403,
            Self::NotUnderstood | Self::TwoNames => 400,
            Self::OtherHost => 421,
            Self::TooFast => 429,
            Self::NoAddress
            | Self::NoAnswer
            | Self::BrokenOff
            | Self::Unverified
            | Self::UnknownSecret
            | Self::UnknownToken
            | Self::NoValue
            | Self::ProxyNoAddress
            | Self::ProxySilent
            | Self::ProxyNotUnderstood
            | Self::ProxyLogin
            | Self::ProxyNotAllowed
            | Self::ProxyNoAnswer => 502,
            Self::TooMany => 503,
        }
    }

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
            Self::NotTrusted => {
                "TLS with the program has failed; it has to trust the authority of the network rules"
            }
            Self::OtherHost => "the request is for another host than its connection",
            Self::Unverified => "the host's certificate cannot be verified",
            Self::RequestNotAllowed => {
                "the sandbox's network rules do not allow this method and path"
            }
            Self::TooFast => "the network rule's requests of this minute are used up",
            Self::Spent => "the network rule's bytes are used up",
            Self::UnknownSecret => "the network rule names a secret that does not exist",
            Self::UnknownToken => "the network rule names an identity token that does not exist",
            Self::NoValue => "a header of the network rule has no value now",
            Self::ProxyNoAddress => "the egress proxy has no address that a sandbox may reach",
            Self::ProxySilent => "the egress proxy does not answer",
            Self::ProxyNotUnderstood => "the egress proxy does not speak SOCKS5",
            Self::ProxyLogin => "the egress proxy does not accept its user and password",
            Self::ProxyNotAllowed => "the egress proxy does not allow this host",
            Self::ProxyNoAnswer => "the egress proxy does not reach the host",
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
