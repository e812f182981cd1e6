//! Accepting and serving connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at a time; further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 2048;

/// Largest number of these that may come from inside the sandbox; further ones are closed. Without
/// this bound code in the sandbox could lock out everybody else by holding all of them.
const MAX_FROM_INSIDE: usize = 256;

/// Pause of a listener that cannot accept, usually for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers connections until the process ends.
///
/// Idle connections are kept: clients hold theirs for minutes, and one that is closed at the
/// wrong moment makes some of them repeat a call.
pub(crate) async fn serve(listener: TcpListener, routes: Router) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let inside = Arc::new(Semaphore::new(MAX_FROM_INSIDE));
    let mut is_failing = false;
    loop {
        let place = Arc::clone(&places)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((connection, peer)) => {
                is_failing = false;
                let inside = match is_inside(&connection, peer)
                    .then(|| Arc::clone(&inside).try_acquire_owned())
                {
                    None => None,
                    Some(Ok(place)) => Some(place),
                    Some(Err(_full)) => continue,
                };
                let routes = routes.clone();
                skep_telemetry::spawn("connection", async move {
                    if let Err(error) = answer(connection, routes).await {
                        tracing::debug!(error, "connection ended early");
                    }
                    drop((place, inside));
                });
            }
            Err(error) if is_of_the_caller(&error) => {}
            Err(error) => {
                // The sandbox can cause this, so it is told once and not twenty times a second.
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!(%error, "cannot accept");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Returns true if the other end is in the sandbox: on loopback, or at the address it has itself.
fn is_inside(connection: &TcpStream, peer: SocketAddr) -> bool {
    peer.ip().is_loopback()
        || connection
            .local_addr()
            .is_ok_and(|own| own.ip() == peer.ip())
}

fn is_of_the_caller(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

async fn answer(
    connection: TcpStream,
    routes: Router,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // Events are small and waited for; each goes out at once.
    connection.set_nodelay(true)?;
    let builder = Builder::new(TokioExecutor::new());
    builder
        .serve_connection_with_upgrades(TokioIo::new(connection), TowerToHyperService::new(routes))
        .await
}
