//! `skep sandbox requests`

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use skep_client::{Client, SandboxRequest};

use super::{Among, id, moment, runs, whole_id};
use crate::{
    CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_json_line, print_line,
    print_note,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep sandbox requests i8f6                 what it has asked for
  skep sandbox requests i8f6 --follow        and what it asks for from now on
  skep sandbox requests i8f6 --as-rules      rules that allow the hosts it has reached, and no others";

/// The range that rules with hosts deny.
const EVERYTHING: &str = "0.0.0.0/0";
/// The ports that a rule with a host alone is about.
const USUAL_PORTS: [u16; 2] = [80, 443];
/// Polling interval of a followed sandbox.
const INTERVAL: Duration = Duration::from_millis(400);

/// Arguments of `skep sandbox requests`.
#[derive(Debug, Args)]
pub struct RequestArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// ID of the sandbox
    id: String,
    /// Follow until the sandbox ends
    #[arg(long, short)]
    follow: bool,
    /// Print rules that allow the hosts it has reached, and no others: as options of `skep sandbox network`, or with --json as the body of `PUT /sandboxes/{id}/network`
    #[arg(long, conflicts_with = "follow")]
    as_rules: bool,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl RequestArgs {
    pub(super) async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let id = whole_id(&client, &self.id, Among::All).await?;
        if self.as_rules {
            return print_rules(&client, &id, self.output).await;
        }
        let mut after = 0;
        let mut shown = 0;
        loop {
            // Asked before the requests, so that the last ones of a sandbox that ends are shown.
            let runs = self.follow && runs(&client, &id).await?;
            shown += show_new(&client, &id, &mut after, self.output).await?;
            if !runs {
                break;
            }
            tokio::time::sleep(INTERVAL).await;
        }
        if shown == 0 && !self.output.json {
            // A mistyped id is told apart from a quiet sandbox.
            id::record(&client, &id).await?;
            print_note(
                "nothing was asked for by name; only rules with host names look at requests",
            );
        }
        Ok(0)
    }
}

async fn print_rules(client: &Client, id: &str, output: OutputArgs) -> Result<u8, CliError> {
    let hosts = reached(client.sandbox(id).requests(0).await?);
    if hosts.is_empty() {
        id::record(client, id).await?;
        print_note("it has reached no host by name, so there is nothing to learn from");
        return Ok(1);
    }
    if output.json {
        print_json(&json!({ "denyOut": [EVERYTHING], "allowOut": hosts }))?;
    } else {
        let allowed: String = hosts
            .iter()
            .map(|host| format!(" --allow {host}"))
            .collect();
        print_line(&format!("--deny {EVERYTHING}{allowed}"))?;
    }
    Ok(0)
}

/// The hosts that were reached, in the order of their names, with their ports where these are not
/// the usual ones. Those that were refused or do not exist are not what its owner wants to allow.
fn reached(requests: Vec<SandboxRequest>) -> BTreeSet<String> {
    let reached = requests
        .into_iter()
        .filter(|request| request.refusal.is_none());
    let rule = |request: SandboxRequest| {
        let host = request.host?;
        if host.parse::<Ipv4Addr>().is_ok() {
            // A connection that nobody read is told by its address, which is no host's name.
            return None;
        }
        if USUAL_PORTS.contains(&request.port) {
            return Some(host);
        }
        Some(format!("{host}:{}", request.port))
    };
    reached.filter_map(rule).collect()
}

async fn show_new(
    client: &Client,
    id: &str,
    after: &mut u64,
    output: OutputArgs,
) -> Result<usize, CliError> {
    let fresh = client.sandbox(id).requests(*after).await?;
    for request in &fresh {
        *after = (*after).max(request.number);
        if output.json {
            print_json_line(request)?;
        } else {
            print_line(&render(request))?;
        }
    }
    Ok(fresh.len())
}

/// A request for people. The letter behind the time is the zone.
fn render(request: &SandboxRequest) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let status = request.status.map(|status| status.to_string());
    let what = match (&request.method, &request.path) {
        (Some(method), Some(path)) => format!("{method} {path}"),
        _ => "TLS".to_owned(),
    };
    let why = match (&request.refusal, &request.rule) {
        (Some(refusal), _) => format!("refused: {refusal}"),
        (None, rule) => format!("rule {}", text(rule)),
    };
    let line = format!(
        "{}Z {} {}:{} {what} {} bytes out, {} in, {why}",
        moment(request.timestamp),
        text(&status),
        text(&request.host),
        request.port,
        request.sent_bytes,
        request.received_bytes,
    );
    crate::output::printable(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_line_and_rules_are_learned_from_what_was_reached() {
        let passed = SandboxRequest {
            number: 1,
            timestamp: jiff::Timestamp::UNIX_EPOCH,
            host: Some("a.test".into()),
            port: 80,
            method: Some("GET".into()),
            path: Some("/x\u{1b}[2J".into()),
            status: Some(200),
            sent_bytes: 70,
            received_bytes: 900,
            rule: Some("*.test".into()),
            refusal: None,
        };
        let refused = SandboxRequest {
            port: 443,
            method: None,
            path: None,
            status: None,
            rule: None,
            refusal: Some("no host is named".into()),
            ..passed.clone()
        };
        assert_eq!(
            render(&passed),
            r"1970-01-01 00:00:00Z 200 a.test:80 GET /x\u{1b}[2J 70 bytes out, 900 in, rule *.test"
        );
        assert_eq!(
            render(&refused),
            "1970-01-01 00:00:00Z - a.test:443 TLS 70 bytes out, 900 in, refused: no host is named"
        );
        let again = passed.clone();
        let at = |host: &str, port| SandboxRequest {
            host: Some(host.to_owned()),
            port,
            ..passed.clone()
        };
        let other_ports = [
            at("a.test", 8443),
            at("b.test", 8080),
            at("c.test", 443),
            at("198.51.100.7", 22),
        ];
        let other = SandboxRequest {
            host: Some("evil.test".into()),
            port: 8443,
            ..refused
        };
        let mut requests = vec![passed.clone(), other, again];
        requests.extend(other_ports);
        let learned: Vec<_> = reached(requests).into_iter().collect();
        assert_eq!(learned, ["a.test", "a.test:8443", "b.test:8080", "c.test"]);
    }
}
