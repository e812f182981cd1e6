//! Telling protocols apart by the first bytes that a client says.

use crate::client_hello;

/// Methods of requests that are read. Others are for nobody here to read: tunnels are not passed on,
/// and what only looks like a request may be one of another protocol.
const METHODS: [&[u8]; 8] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"TRACE ",
];
/// Bytes that tell them apart.
pub(super) const ENOUGH: usize = 8;

/// A protocol, as far as anybody looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Tls,
    Requests,
    Other,
}

impl Protocol {
    /// The protocol that begins with these bytes, or with what is only their beginning.
    pub(super) fn of(said: &[u8]) -> Self {
        match said {
            [client_hello::HANDSHAKE, ..] => Self::Tls,
            [] => Self::Other,
            _ if METHODS.iter().any(|method| begin_alike(method, said)) => Self::Requests,
            _ => Self::Other,
        }
    }
}

fn begin_alike(one: &[u8], other: &[u8]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_told_apart_by_what_a_client_says_first() {
        for (said, protocol) in [
            (&b"\x16\x03\x01"[..], Protocol::Tls),
            (b"GET / HT", Protocol::Requests),
            (b"P", Protocol::Requests),
            (b"OPTIONS ", Protocol::Requests),
            (b"PING\r\n", Protocol::Other),
            (b"PRI * HT", Protocol::Other),
            (b"CONNECT ", Protocol::Other),
            (b"SSH-2.0-", Protocol::Other),
            (b"get / ht", Protocol::Other),
            (b"\0\0\0\x08", Protocol::Other),
            (b"", Protocol::Other),
        ] {
            assert_eq!(Protocol::of(said), protocol, "{said:?}");
        }
    }
}
