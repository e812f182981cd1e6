//! Protocols of a listener, and which of them a client begins with.

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// The first byte of every TLS connection.
const TLS_HANDSHAKE: u8 = 22;

/// Protocols below HTTP that a listener speaks.
#[derive(Clone)]
pub(crate) enum Protocols {
    /// None: HTTP in clear text.
    ClearText,
    /// TLS alone.
    Tls(TlsAcceptor),
    /// Clear text or TLS, as the client begins.
    Both(TlsAcceptor),
}

/// Beginning of a connection.
pub(crate) enum Opening {
    /// The client speaks HTTP in clear text.
    ClearText,
    /// The client speaks TLS, which this shakes hands for.
    Tls(TlsAcceptor),
    /// The client speaks something else where only TLS is spoken.
    NotTls,
    /// The client left without a word.
    Gone,
}

impl Protocols {
    /// Waits for the first byte where it decides, and leaves it in the stream. A client may stay
    /// silent for ever, so callers set a deadline.
    ///
    /// # Cancel safety
    ///
    /// Nothing is taken from the stream.
    pub(crate) async fn open(self, stream: &TcpStream) -> Opening {
        let (tls, clear_text) = match self {
            Self::ClearText => return Opening::ClearText,
            Self::Tls(tls) => (tls, Opening::NotTls),
            Self::Both(tls) => (tls, Opening::ClearText),
        };
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(0) | Err(_) => Opening::Gone,
            Ok(_) if first == [TLS_HANDSHAKE] => Opening::Tls(tls),
            Ok(_) => clear_text,
        }
    }
}
