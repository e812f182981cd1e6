//! The web console of a server: its pages, and its sockets for callers whom the API lets in. The
//! kernel gateway for Jupyter is beside them, for the same callers.

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
use skep_jupyter_gateway::Settings;
use skep_types::TeamId;

use crate::config;

/// Time for which the link works that is printed at the start. Beside it is a key that always does.
const FIRST_LINK_LIFETIME: Duration = Duration::from_mins(15);

/// The sockets of the console and the kernel gateway, which ask the API at `address` as their
/// callers would.
///
/// # Errors
///
/// If HTTP cannot be set up.
pub(crate) fn sockets(address: SocketAddr, jupyter: &config::Jupyter) -> Result<Router, CliError> {
    let api = Client::direct(&format!("http://{address}"), "")?;
    let introduce = move |mut request: Request, next: Next| {
        if let Some(caller) = request.extensions().get::<LetInCaller>() {
            let key = caller.key.as_ref().map_or("", |key| key.reveal());
            let (client, team) = (api.clone().with_api_key(key), caller.team.to_string());
            let visitor = Visitor {
                client: client.clone(),
                team: team.clone(),
            };
            request.extensions_mut().insert(visitor);
            let user = skep_jupyter_gateway::Visitor { client, team };
            request.extensions_mut().insert(user);
        }
        async move {
            let answer: Response = next.run(request).await;
            answer
        }
    };
    let settings = jupyter.enabled.then(|| Settings {
        template: jupyter.template.clone(),
        idle: Duration::from_mins(jupyter.idle_minutes.get().into()),
    });
    let gateway = settings.map_or_else(Router::new, skep_jupyter_gateway::routes);
    let routes = skep_console::sockets().merge(gateway);
    Ok(routes.layer(middleware::from_fn(introduce)))
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
