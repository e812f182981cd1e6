//! Making a connection to a port of a sandbox.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use skep_wire::agent::AGENT_PORT;
use skep_wire::headers::CONTROL_TOKEN;
use tokio::net::TcpSocket;
use tokio::time::{sleep, timeout};

use super::socket::UpstreamSocket;
use crate::buffers::bound_upstream;
use crate::reset_on_close::ResetOnClose;
use crate::routing::route::Route;

/// The protocol an agent switches to for a tunnel.
pub(crate) const TUNNEL: &str = "skep-tunnel";

/// Number of attempts to connect to a closed port. A service that was just started may need a
/// moment, and callers do not try again themselves.
const TRIES: u32 = 5;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(200);
/// Time limit for a sandbox to answer one attempt. Its addresses are on this host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Ways to reach a port of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A connection to the sandbox's address.
    Direct,
    /// A tunnel through its agent, because the service listens on the sandbox's loopback only.
    Tunnel,
}

/// A connection that speaks to a service in a sandbox.
#[derive(Debug)]
pub(super) enum Dialled {
    Direct(TokioIo<UpstreamSocket>),
    Tunnel(Upgraded),
}

/// Failure to connect to a port of a sandbox.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// No service listens there, after several attempts.
    #[error("nothing listens on the port")]
    Closed,
    /// The sandbox ended meanwhile.
    #[error("the sandbox has ended")]
    Ended,
    /// The connection broke before it could be used.
    #[error("cannot speak HTTP on the connection")]
    Handshake(#[source] hyper::Error),
    /// The service does not speak TLS, though its owner said so.
    #[error("cannot speak TLS on the connection")]
    Tls(#[source] io::Error),
}

/// Connects to a port of a sandbox, first by the way that is known to work.
pub(super) async fn dial(
    route: &Route,
    port: u16,
    known: Option<Way>,
    reset: &ResetOnClose,
) -> Result<Dialled, DialError> {
    let ways: &[Way] = match known {
        // The agent's own port is never on the loopback alone.
        _ if port == AGENT_PORT => &[Way::Direct],
        Some(Way::Tunnel) => &[Way::Tunnel, Way::Direct],
        Some(Way::Direct) | None => &[Way::Direct, Way::Tunnel],
    };
    for attempt in 0..TRIES {
        if attempt > 0 {
            tokio::select! {
                () = sleep(PAUSE) => {}
                () = route.ended.cancelled() => return Err(DialError::Ended),
            }
        }
        for way in ways {
            let dialled = match way {
                Way::Direct => direct(route, port, reset)
                    .await
                    .map(TokioIo::new)
                    .map(Dialled::Direct),
                Way::Tunnel => tunnel(route, port, reset).await.map(Dialled::Tunnel),
            };
            match dialled {
                Ok(dialled) => return Ok(dialled),
                Err(error) => {
                    tracing::debug!(sandbox = %route.id, port, ?way, %error, "sandbox port unreachable");
                }
            }
        }
    }
    Err(DialError::Closed)
}

async fn direct(route: &Route, port: u16, reset: &ResetOnClose) -> io::Result<UpstreamSocket> {
    let address = SocketAddr::new(route.address, port);
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    bound_upstream(&socket)?;
    let stream = timeout(CONNECT_TIMEOUT, socket.connect(address)).await??;
    stream.set_nodelay(true)?;
    Ok(UpstreamSocket::new(stream, reset.clone()))
}

async fn tunnel(route: &Route, port: u16, reset: &ResetOnClose) -> io::Result<Upgraded> {
    timeout(CONNECT_TIMEOUT, open_tunnel(route, port, reset)).await?
}

async fn open_tunnel(route: &Route, port: u16, reset: &ResetOnClose) -> io::Result<Upgraded> {
    let stream = direct(route, AGENT_PORT, reset).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let request = Request::get(format!("/skep/tunnel/{port}"))
        .header(HOST, "localhost")
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, TUNNEL)
        .header(CONTROL_TOKEN, route.control_token.reveal())
        .body(Empty::<Bytes>::new())
        .map_err(io::Error::other)?;
    let exchange = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = response.status().as_u16();
            return Err(io::Error::other(format!("the agent answered {status}")));
        }
        hyper::upgrade::on(response).await.map_err(io::Error::other)
    };
    // The connection hands its socket over when the switch is complete, so it is driven here
    // and needs no task of its own.
    let driven = async {
        match connection.with_upgrades().await {
            Ok(()) => std::future::pending().await,
            Err(error) => io::Error::other(error),
        }
    };
    tokio::select! {
        biased;
        result = exchange => result,
        error = driven => Err(error),
    }
}
