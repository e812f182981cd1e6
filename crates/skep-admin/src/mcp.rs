//! `skep mcp`: sandboxes for one agent, on standard input and output.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use skep_cli::{ChosenServerArgs, CliError};
use skep_mcp::{Settings, USUAL_TEMPLATE, Usual};
use skep_types::{Egress, EgressRules};

use crate::code::{Invocation, Needs, with_server};

/// Arguments of `skep mcp`.
#[derive(Debug, Clone, Args)]
pub struct McpArgs {
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

    /// Let sandboxes reach an address, a range, a host (`pypi.org`, `pypi.org:8443`) or all hosts below one (`*.pypi.org`), whatever is denied; may be given more than once
    #[arg(long, value_name = "ADDRESS|HOST")]
    allow: Vec<String>,

    /// Deny sandboxes an address or a range; may be given more than once
    #[arg(long, value_name = "ADDRESS")]
    deny: Vec<String>,

    /// Offer these tools alone, with commas between
    #[arg(long, value_name = "TOOLS", value_delimiter = ',', value_parser = PossibleValuesParser::new(skep_mcp::TOOL_NAMES))]
    tools: Vec<String>,
}

impl McpArgs {
    /// The settings, unless the rules are such that every sandbox would be refused for them.
    fn settings(self) -> Result<Settings, CliError> {
        Egress::new(EgressRules {
            internet: Some(!self.no_internet),
            allowed: self.allow.clone(),
            denied: self.deny.clone(),
            resolvers: None,
        })
        .map_err(|error| {
            let hint = "`--deny` takes addresses and ranges, and `--allow` hosts, too, if all else is denied (`--deny 0.0.0.0/0`)";
            CliError::input(error.to_string(), hint)
        })?;
        let usual = match (self.sandbox, self.name) {
            (Some(id), _) => Usual::Given(id),
            (None, Some(name)) => Usual::Named(name),
            (None, None) => Usual::OfSession,
        };
        Ok(Settings {
            template: self.template,
            lifetime: self.lifetime,
            internet: !self.no_internet,
            allow_out: self.allow,
            deny_out: self.deny,
            tools: self.tools,
            usual,
            secure_ports: None,
        })
    }
}

/// Serves one agent on standard input and output.
///
/// # Errors
///
/// If there is no server, and none can be started, or the agent does not speak the protocol.
pub fn stdio(
    invocation: Invocation<'_>,
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
    let settings = args.settings()?;
    with_server(invocation, server, &needs, async |client| {
        let served = skep_mcp::serve_stdio(client, settings).await;
        served.map(|()| 0).map_err(|error| {
            let hint =
                "it is started by an agent, as docs/mcp.md says; it reads JSON from standard input";
            CliError::failure(error).hint(hint)
        })
    })
}
