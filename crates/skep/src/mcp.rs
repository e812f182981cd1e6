//! `skep mcp`, and `/mcp` of a server: sandboxes for agents.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use axum::{Extension, Router};
use clap::Args;
use clap::builder::PossibleValuesParser;
use skep_api::LetInCaller;
use skep_cli::{ChosenServerArgs, CliError};
use skep_client::Client;
use skep_mcp::{Caller, Endpoint, EndpointLimits, Settings, USUAL_TEMPLATE, Usual};
use skep_proxy::Listener;
use tokio::net::TcpListener;

use crate::args::Cli;
use crate::code::{Needs, reachable, with_server};
use crate::config::{self, Config};
use crate::front_door::FrontDoor;

/// Path of the endpoint.
const PATH: &str = "/mcp";

/// Arguments of `skep mcp`.
#[derive(Debug, Clone, Args)]
pub(crate) struct McpArgs {
    /// Template of new sandboxes
    #[arg(long, short = 't', value_name = "NAME", default_value = USUAL_TEMPLATE)]
    template: String,

    /// Use this existing sandbox, and keep it
    #[arg(long, short = 's', value_name = "ID", conflicts_with = "name")]
    sandbox: Option<String>,

    /// Use the sandbox with this name, make it if there is none, and keep it for the next session
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Time that a sandbox lives after its last use, such as 30m or 2h; no tool works longer
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = skep_cli::duration)]
    lifetime: Duration,

    /// Make sandboxes without internet
    #[arg(long)]
    no_internet: bool,

    /// Offer these tools alone, with commas between
    #[arg(long, value_name = "TOOLS", value_delimiter = ',', value_parser = PossibleValuesParser::new(skep_mcp::TOOL_NAMES))]
    tools: Vec<String>,
}

impl McpArgs {
    fn settings(self) -> Settings {
        let usual = match (self.sandbox, self.name) {
            (Some(id), _) => Usual::Given(id),
            (None, Some(name)) => Usual::Named(name),
            (None, None) => Usual::OfSession,
        };
        Settings {
            template: self.template,
            lifetime: self.lifetime,
            internet: !self.no_internet,
            tools: self.tools,
            usual,
            secure_ports: None,
        }
    }
}

/// Serves one agent on standard input and output.
///
/// # Errors
///
/// If there is no server, and none can be started, or the agent does not speak the protocol.
pub(crate) fn stdio(
    cli: &Cli,
    config: &Config,
    server: &ChosenServerArgs,
    args: McpArgs,
) -> Result<ExitCode, CliError> {
    let needs = Needs {
        templates: match args.sandbox {
            Some(_) => Vec::new(),
            None => vec![args.template.clone()],
        },
        keeps: args.name.is_some(),
    };
    let settings = args.settings();
    with_server(cli, config, server, &needs, async |client| {
        let served = skep_mcp::serve_stdio(client, settings).await;
        served.map(|()| 0).map_err(|error| {
            let hint =
                "it is started by an agent, as docs/mcp.md says; it reads JSON from standard input";
            CliError::failure(error).hint(hint)
        })
    })
}

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
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.map_err(CliError::failure)?;
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
