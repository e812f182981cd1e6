//! The web console of a server: its pages, and its sockets for callers whom the API lets in.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use skep_api::{Access, LetInCaller, Tickets};
use skep_cli::CliError;
use skep_client::Client;
use skep_console::Visitor;
use skep_types::TeamId;

/// Time for which the link works that is printed at the start. Beside it is a key that always does.
const FIRST_LINK_LIFETIME: Duration = Duration::from_mins(15);

/// The sockets of the console, which ask the API at `address` as their callers would.
///
/// # Errors
///
/// If HTTP cannot be set up.
pub(crate) fn sockets(address: SocketAddr) -> Result<Router, CliError> {
    let api = Client::direct(&format!("http://{address}"), "")?;
    let introduce = move |mut request: Request, next: Next| {
        let visitor = request.extensions().get::<LetInCaller>().map(|caller| {
            let key = caller.key.as_ref().map_or("", |key| key.reveal());
            Visitor {
                client: api.clone().with_api_key(key),
                team: caller.team.to_string(),
            }
        });
        if let Some(visitor) = visitor {
            request.extensions_mut().insert(visitor);
        }
        async move {
            let answer: Response = next.run(request).await;
            answer
        }
    };
    Ok(skep_console::sockets().layer(middleware::from_fn(introduce)))
}

/// The link to the console that is printed at the start.
pub(crate) fn first_link(url: &str, access: Access, tickets: &Tickets, team: &TeamId) -> String {
    let ticket = match access {
        Access::Keys => tickets.issue(team, FIRST_LINK_LIFETIME).ok(),
        Access::Trusted => None,
    };
    let fragment = ticket.map_or_else(String::new, |ticket| format!("#ticket={ticket}"));
    format!("{url}/console/{fragment}")
}
