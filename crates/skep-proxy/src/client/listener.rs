//! Addresses that the proxy listens on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Pause after a failed accept: the process is out of descriptors or memory, and asking again at
/// once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An address the proxy listens on.
pub struct Listener {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Listener {
    /// Speaks HTTP/1.1 and clear-text HTTP/2.
    pub fn plain(tcp: TcpListener) -> Self {
        Self { tcp, tls: None }
    }

    /// Speaks HTTP/1.1 and HTTP/2 over TLS, also with clients that name neither.
    pub fn tls(tcp: TcpListener, config: Arc<rustls::ServerConfig>) -> Self {
        let tls = Some(TlsAcceptor::from(config));
        Self { tcp, tls }
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

    pub(crate) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.tls.clone()
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Listener")
            .field("tcp", &self.tcp)
            .field("tls", &self.tls.is_some())
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
