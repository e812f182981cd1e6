//! `skep sandbox network`

use clap::Args;
use serde_json::json;
use skep_client::{Network, NetworkUpdate, SandboxDetail};

use super::{Among, whole_id};
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_note, print_table};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep sandbox network i8f6                                      what it may reach
  skep sandbox network i8f6 --deny 198.51.100.0/24               everything else
  skep sandbox network i8f6 --no-internet --allow 203.0.113.7    nothing else
  skep sandbox network i8f6 --deny 0.0.0.0/0 --allow pypi.org    one host, by name
  skep sandbox network i8f6 --clear                              everything";

/// Rules for what leaves a sandbox.
#[derive(Debug, Default, Args)]
pub(super) struct EgressArgs {
    /// Allow an address, a range, a host (`pypi.org`, `pypi.org:8443`) or all hosts below one (`*.pypi.org`), whatever is denied; may be given more than once
    #[arg(long, value_name = "ADDRESS|HOST")]
    allow: Vec<String>,
    /// Deny an address or a range; may be given more than once
    #[arg(long, value_name = "ADDRESS")]
    deny: Vec<String>,
    /// Resolver that answers for names in place of the host's; may be given more than once
    #[arg(long, value_name = "ADDRESS")]
    dns: Vec<String>,
    /// Deny access to the internet, but for what is allowed
    #[arg(long)]
    no_internet: bool,
}

impl EgressArgs {
    /// The choice of internet access, if there is one.
    pub(super) fn internet(&self) -> Option<bool> {
        self.no_internet.then_some(false)
    }

    /// The rules for a new sandbox, if there are any.
    pub(super) fn network(&self) -> Option<Network> {
        let network = Network {
            allow_out: listed(&self.allow),
            deny_out: listed(&self.deny),
            dns_servers: listed(&self.dns),
            ..Network::default()
        };
        (network != Network::default()).then_some(network)
    }

    fn update(&self) -> NetworkUpdate {
        NetworkUpdate {
            allow_internet_access: self.internet(),
            allow_out: listed(&self.allow),
            deny_out: listed(&self.deny),
            dns_servers: listed(&self.dns),
            ..NetworkUpdate::default()
        }
    }
}

/// Arguments of `skep sandbox network`.
#[derive(Debug, Args)]
pub struct NetworkArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// ID of the sandbox
    id: String,
    /// The rules that replace those it has
    #[command(flatten)]
    rules: EgressArgs,
    /// Take all rules away
    #[arg(long, conflicts_with_all = ["allow", "deny", "dns", "no_internet"])]
    clear: bool,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl NetworkArgs {
    pub(super) async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let id = whole_id(&client, &self.id, Among::Living).await?;
        let sandbox = client.sandbox(&id);
        let update = self.rules.update();
        if self.clear || update != NetworkUpdate::default() {
            sandbox.set_network(&update).await?;
            print_note(&format!("{id} has other rules, from now on"));
        }
        let detail = sandbox.info().await?;
        if self.output.json {
            let network = detail.network.unwrap_or_default();
            let internet = detail.allow_internet_access;
            print_json(
                &json!({ "sandboxID": id, "allow_internet_access": internet, "network": network }),
            )?;
        } else {
            print_table(&["rule", "for"], rows(&detail))?;
        }
        Ok(0)
    }
}

fn listed(list: &[String]) -> Option<Vec<String>> {
    (!list.is_empty()).then(|| list.to_vec())
}

/// The rules in the order in which they are asked.
fn rules_of(detail: &SandboxDetail) -> Vec<(&'static str, String)> {
    let network = detail.network.clone().unwrap_or_default();
    let list = |name, list: Option<Vec<String>>| {
        let list = list.unwrap_or_default();
        list.into_iter().map(move |item| (name, item))
    };
    let is_closed = detail.allow_internet_access == Some(false);
    let denied = if is_closed {
        Some(vec!["everything else (no internet)".to_owned()])
    } else {
        network.deny_out
    };
    let is_all = |denied: &String| is_closed || denied == "0.0.0.0/0";
    let has_rest = !denied.iter().flatten().any(is_all);
    let mut rules: Vec<_> = list("allow", network.allow_out).collect();
    rules.extend(list("deny", denied));
    if has_rest {
        rules.push(("allow", "everything else that is public".to_owned()));
    }
    match network.dns_servers {
        Some(none) if none.is_empty() => rules.push(("names", "not answered".to_owned())),
        servers => rules.extend(list("names", servers)),
    }
    rules
}

fn rows(detail: &SandboxDetail) -> Vec<Vec<String>> {
    let rules = rules_of(detail).into_iter();
    rules
        .map(|(rule, destination)| vec![rule.to_owned(), destination])
        .collect()
}
