//! `skep sandbox network`

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use skep_client::{
    Network, NetworkRule, NetworkRules, NetworkTransform, NetworkUpdate, SandboxDetail,
};

use super::{Among, whole_id};
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_note, print_table};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep sandbox network i8f6                                      what it may reach
  skep sandbox network i8f6 --deny 198.51.100.0/24               everything else
  skep sandbox network i8f6 --no-internet --allow 203.0.113.7    nothing else
  skep sandbox network i8f6 --deny 0.0.0.0/0 --allow pypi.org    one host, by name
  skep sandbox network i8f6 --header api.test 'Authorization: Bearer ${e2b.secrets.key}'
                                                                 a secret that it never sees
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
    /// Put a header into requests to a host by https; `${e2b.secrets.NAME}` in it is a secret. May be given more than once
    #[arg(long, num_args = 2, value_names = ["HOST", "NAME: VALUE"], action = clap::ArgAction::Append)]
    header: Vec<String>,
    /// File with rules for requests, as `network.rules` of the API has them
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
}

impl EgressArgs {
    /// The choice of internet access, if there is one.
    pub(super) fn internet(&self) -> Option<bool> {
        self.no_internet.then_some(false)
    }

    /// The rules for a new sandbox, if there are any.
    pub(super) fn network(&self) -> Result<Option<Network>, CliError> {
        let network = Network {
            rules: self.request_rules()?,
            allow_out: listed(&self.allow),
            deny_out: listed(&self.deny),
            dns_servers: listed(&self.dns),
            ..Network::default()
        };
        Ok((network != Network::default()).then_some(network))
    }

    fn update(&self) -> Result<NetworkUpdate, CliError> {
        Ok(NetworkUpdate {
            rules: self.request_rules()?,
            allow_internet_access: self.internet(),
            allow_out: listed(&self.allow),
            deny_out: listed(&self.deny),
            dns_servers: listed(&self.dns),
            ..NetworkUpdate::default()
        })
    }

    /// Rules of the file, and headers on top of them.
    fn request_rules(&self) -> Result<Option<NetworkRules>, CliError> {
        let mut rules = match &self.rules {
            Some(path) => read_rules(path)?,
            None => NetworkRules::new(),
        };
        for pair in self.header.chunks(2) {
            let [host, header] = pair else {
                continue;
            };
            let (name, value) = header.split_once(':').ok_or_else(|| {
                CliError::input(
                    format!("`{header}` is not a header"),
                    "write it as in `Authorization: Bearer ${e2b.secrets.key}`",
                )
            })?;
            let of_host = rules
                .entry(host.clone())
                .or_default()
                .get_or_insert_default();
            if of_host.is_empty() {
                of_host.push(NetworkRule::default());
            }
            for rule in of_host {
                let transform = rule.transform.get_or_insert_with(NetworkTransform::default);
                let headers = transform.headers.get_or_insert_with(BTreeMap::new);
                headers.insert(name.trim().to_owned(), value.trim().to_owned());
            }
        }
        Ok((!rules.is_empty()).then_some(rules))
    }
}

fn read_rules(path: &PathBuf) -> Result<NetworkRules, CliError> {
    let hint = r#"it has JSON as in `{"api.test": [{"requests": [{"methods": ["GET"]}]}]}`"#;
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| CliError::input(format!("cannot read `{shown}`: {error}"), hint))?;
    serde_json::from_str(&text)
        .map_err(|error| CliError::input(format!("`{shown}` has no rules: {error}"), hint))
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
    #[arg(long, conflicts_with_all = ["allow", "deny", "dns", "no_internet", "header", "rules"])]
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
        let update = self.rules.update()?;
        if self.clear || update != NetworkUpdate::default() {
            if !self.clear && has_proxy(&sandbox.info().await?) {
                return Err(CliError::input(
                    format!("{id} has a proxy of its owner's, which these rules would take away"),
                    "set rules with `egressProxy` through an SDK, or take everything away first, by --clear",
                ));
            }
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
    for (host, of_host) in network.rules.unwrap_or_default() {
        let of_host = of_host.unwrap_or_default();
        rules.extend(
            of_host
                .into_iter()
                .flat_map(|rule| requests_of(&host, rule)),
        );
    }
    match network.dns_servers {
        Some(none) if none.is_empty() => rules.push(("names", "not answered".to_owned())),
        servers => rules.extend(list("names", servers)),
    }
    let proxy = network.egress_proxy.and_then(|proxy| proxy.address);
    rules.extend(proxy.map(|address| ("through", address)));
    rules
}

/// Lines for a rule for requests to a host. Values of headers are not shown: not everybody keeps keys
/// in the vault.
fn requests_of(host: &str, rule: NetworkRule) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let headers = rule.transform.unwrap_or_default().headers;
    for name in headers.unwrap_or_default().into_keys() {
        lines.push(("header", format!("{host} {name}")));
    }
    for pattern in rule.requests.unwrap_or_default() {
        let any = |list: Option<Vec<String>>| list.map_or("*".to_owned(), |list| list.join(","));
        let (methods, paths) = (any(pattern.methods), any(pattern.paths));
        lines.push(("requests", format!("{host} {methods} {paths}")));
    }
    let limits = rule.limits.unwrap_or_default();
    let mut limit = |limit: Option<i64>, of: &str| {
        lines.extend(limit.map(|limit| ("limit", format!("{host} {limit} {of}"))));
    };
    limit(limits.requests_per_minute, "requests a minute");
    limit(limits.bytes, "bytes");
    limit(limits.bytes_per_second, "bytes a second");
    lines
}

/// Returns true if everything the sandbox sends goes through a proxy, which no option here sets.
fn has_proxy(detail: &SandboxDetail) -> bool {
    let network = detail.network.as_ref();
    network.is_some_and(|network| network.egress_proxy.is_some())
}

fn rows(detail: &SandboxDetail) -> Vec<Vec<String>> {
    let rules = rules_of(detail).into_iter();
    rules
        .map(|(rule, destination)| vec![rule.to_owned(), destination])
        .collect()
}
