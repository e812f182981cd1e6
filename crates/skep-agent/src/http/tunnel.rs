//! `GET /skep/tunnel/{port}`: a way to services that listen on loopback only.
//!
//! The sandbox's loopback cannot be reached from outside, and many development servers listen
//! nowhere else. The proxy asks the agent to dial; after the upgrade bytes go through as they
//! are.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use axum::extract::{Path, Request};
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::http::rest_error::RestError;

/// Protocol that the client must ask to upgrade to.
const PROTOCOL: &str = "skep-tunnel";

/// Loopback answers at once or not at all; a full queue of a stopped service does neither.
const DIAL_LIMIT: Duration = Duration::from_secs(5);

/// `GET /skep/tunnel/{port}`: upgrades the connection to a byte stream to a port on loopback.
pub(crate) async fn tunnel(
    Path(port): Path<u16>,
    mut request: Request,
) -> Result<Response, RestError> {
    let asked = request
        .headers()
        .get(UPGRADE)
        .map(|value| value.as_bytes().to_ascii_lowercase());
    if asked.as_deref() != Some(PROTOCOL.as_bytes()) {
        return Err(RestError::new(
            StatusCode::UPGRADE_REQUIRED,
            format!("upgrade to {PROTOCOL} to open a tunnel"),
        ));
    }
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return Err(RestError::bad_request("this connection cannot be upgraded"));
    };
    let service = dial(port).await.map_err(|error| {
        RestError::new(
            StatusCode::BAD_GATEWAY,
            format!("nothing listens on port {port}: {error}"),
        )
    })?;
    skep_telemetry::spawn("tunnel", async move {
        if let Err(error) = splice(upgrade, service).await {
            tracing::debug!(error, "tunnel ended early");
        }
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response
        .headers_mut()
        .insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    Ok(response)
}

async fn dial(port: u16) -> io::Result<TcpStream> {
    let mut answer = Err(io::ErrorKind::ConnectionRefused.into());
    for address in [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ] {
        let connect = TcpStream::connect(SocketAddr::new(address, port));
        answer = match tokio::time::timeout(DIAL_LIMIT, connect).await {
            Ok(answer) => answer,
            Err(_late) => Err(io::ErrorKind::TimedOut.into()),
        };
        if answer.is_ok() {
            break;
        }
    }
    answer
}

async fn splice(
    upgrade: OnUpgrade,
    mut service: TcpStream,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    service.set_nodelay(true)?;
    let mut caller = TokioIo::new(upgrade.await?);
    tokio::io::copy_bidirectional(&mut caller, &mut service).await?;
    Ok(())
}
