//! Accepting connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at a time; further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 1024;

/// How long to leave a listener alone that cannot accept, usually for want of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers connections until the process ends.
///
/// Idle connections are kept: clients hold theirs for minutes, and one that is closed at the
/// wrong moment makes some of them repeat a call.
pub(crate) async fn serve(listener: TcpListener, routes: Router) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut is_failing = false;
    loop {
        let place = Arc::clone(&places)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((connection, _)) => {
                is_failing = false;
                let routes = routes.clone();
                skep_telemetry::spawn("connection", async move {
                    if let Err(error) = answer(connection, routes).await {
                        tracing::debug!(error, "connection ended early");
                    }
                    drop(place);
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
