//! Addresses that the proxy listens on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::client::protocol::Protocols;

/// Pause after a failed accept: the process is out of descriptors or memory, and asking again at
/// once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An address the proxy listens on.
pub struct Listener {
    tcp: TcpListener,
    protocols: Protocols,
}

impl Listener {
    /// Speaks HTTP/1.1 and clear-text HTTP/2.
    pub fn plain(tcp: TcpListener) -> Self {
        let protocols = Protocols::ClearText;
        Self { tcp, protocols }
    }

    /// Speaks HTTP/1.1 and HTTP/2 over TLS, also with clients that name neither.
    pub fn tls(tcp: TcpListener, config: Arc<rustls::ServerConfig>) -> Self {
        let protocols = Protocols::Tls(TlsAcceptor::from(config));
        Self { tcp, protocols }
    }

    /// Speaks the same in clear text or over TLS, as the first byte of each connection asks.
    pub fn plain_and_tls(tcp: TcpListener, config: Arc<rustls::ServerConfig>) -> Self {
        let protocols = Protocols::Both(TlsAcceptor::from(config));
        Self { tcp, protocols }
    }

    /// The next connection, and the address it comes from.
    pub(crate) async fn accept(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.tcp.accept().await {
                Ok(accepted) => return accepted,
                Err(error) if is_fault_of_server(&error) => {
                    tracing::warn!(%error, "connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                Err(_client_left) => {}
            }
        }
    }

    pub(crate) fn protocols(&self) -> Protocols {
        self.protocols.clone()
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let protocols = match self.protocols {
            Protocols::ClearText => "clear text",
            Protocols::Tls(_) => "TLS",
            Protocols::Both(_) => "clear text and TLS",
        };
        formatter
            .debug_struct("Listener")
            .field("tcp", &self.tcp)
            .field("protocols", &protocols)
            .finish()
    }
}

/// Returns true if an accept failed for want of resources, rather than because its client left.
fn is_fault_of_server(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
