//! `/mcp` of a server: sandboxes for agents.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use axum::{Extension, Router};
use skep_admin::code::reachable;
use skep_admin::front_door::FrontDoor;
use skep_api::LetInCaller;
use skep_cli::CliError;
use skep_client::Client;
use skep_mcp::{Caller, Endpoint, EndpointLimits, Settings};
use skep_proxy::Listener;
use tokio::net::TcpListener;

use crate::config;

/// Path of the endpoint.
const PATH: &str = "/mcp";

/// The way of `/mcp` to the API: the server's own port where that speaks clear text, and a port of
/// loopback alone where it does not.
///
/// # Errors
///
/// If there is no port left.
pub(crate) async fn own_way(
    door: &FrontDoor,
    address: SocketAddr,
) -> Result<(SocketAddr, Option<Listener>), CliError> {
    if door.speaks_clear_text() {
        return Ok((reachable(address), None));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .map_err(CliError::failure)?;
    let address = listener.local_addr().map_err(CliError::failure)?;
    Ok((address, Some(Listener::plain(listener))))
}

/// The route `/mcp`, for callers whom the API lets in. It asks the API at `address` as they would.
///
/// # Errors
///
/// If HTTP cannot be set up.
pub(crate) fn router(
    config: &config::Mcp,
    address: SocketAddr,
    is_secure: bool,
) -> Result<Router, CliError> {
    if !config.enabled {
        return Ok(Router::new());
    }
    let settings = Settings {
        template: config.template.clone(),
        lifetime: Duration::from_secs(u64::from(config.lifetime_minutes.get()) * 60),
        internet: config.internet,
        allow_out: config.allow_out.clone(),
        deny_out: config.deny_out.clone(),
        secure_ports: Some(is_secure),
        ..Settings::default()
    };
    let limits = EndpointLimits {
        sessions: config.sessions.get() as usize,
        sessions_per_team: config.sessions_per_team.get() as usize,
        calls_per_team: config.calls_per_team.get() as usize,
    };
    let endpoint = Endpoint::new(settings, limits);
    let api = Client::direct(&format!("http://{address}"), "")?;
    let answer = move |Extension(caller): Extension<LetInCaller>, request: Request| {
        let endpoint = endpoint.clone();
        let key = caller.key.as_ref().map_or("", |key| key.reveal());
        let caller = Caller {
            client: api.clone().with_api_key(key),
            team: caller.team.to_string(),
        };
        async move {
            let answer: Response = endpoint.answer(caller, request).await.map(Body::new);
            answer
        }
    };
    Ok(Router::new().route(PATH, any(answer)))
}
