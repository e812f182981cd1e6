//! `skep sandbox create`

use std::time::Duration;

use clap::Args;
use serde_json::json;
use skep_client::{IdentityRequest, IdentityToken, NewSandbox};

use super::moment;
use super::network::EgressArgs;
use crate::code::{TEMPLATES, USUAL_TEMPLATE, no_sandbox};
use crate::run::duration;
use crate::variables::variables;
use crate::{
    CliError, DefaultServer, OutputArgs, ServerArgs, Suggested, print_json, print_line, print_note,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep sandbox create                          of the template that `skep run` uses
  skep sandbox create base --timeout 10m --env MODE=test
  skep sandbox create --no-internet --allow 203.0.113.7
  id=$(skep sandbox create) && skep sandbox exec $id -- uname -a";

/// Arguments of `skep sandbox create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Name or ID of the template
    #[arg(default_value = USUAL_TEMPLATE, value_parser = Suggested(TEMPLATES), hide_possible_values = true)]
    template: String,
    /// Time after which it ends, such as 30, 90s, 5m or 1h 30m
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1h")]
    timeout: Duration,
    /// Set an environment variable; without a value it is copied from this shell
    #[arg(long, short = 'e', value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Attach a value under this name, which `info` shows
    #[arg(long, short = 'm', value_name = "NAME=VALUE")]
    metadata: Vec<String>,
    /// Destinations that it may reach
    #[command(flatten)]
    egress: EgressArgs,
    /// Identity token for `${e2b.identity.tokens.NAME}` in headers, and whoever it is for; may be given more than once
    #[arg(long, value_name = "NAME=AUDIENCE")]
    identity: Vec<String>,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl CreateArgs {
    fn iam(&self) -> Result<Option<IdentityRequest>, CliError> {
        let audiences = variables(&self.identity, |_| None)?;
        let token = |(name, audience)| {
            let token = IdentityToken {
                audience: Some(audience),
                token_type: Some("JWT-SVID".to_owned()),
            };
            (name, token)
        };
        let tokens = audiences.into_iter().map(token).collect();
        Ok((!self.identity.is_empty()).then_some(IdentityRequest {
            tokens: Some(tokens),
        }))
    }

    pub(super) async fn run(
        self,
        default: &DefaultServer,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<u8, CliError> {
        let env = variables(&self.env, environment)?;
        // Values that are attached come from nowhere else.
        let metadata = variables(&self.metadata, |_| None)?;
        let body = NewSandbox {
            template_id: self.template.clone(),
            timeout: i64::try_from(self.timeout.as_secs().max(1)).ok(),
            secure: Some(true),
            env_vars: Some(env).filter(|env| !env.is_empty()),
            metadata: Some(metadata).filter(|metadata| !metadata.is_empty()),
            allow_internet_access: self.egress.internet(),
            network: self.egress.network()?,
            iam: self.iam()?,
            ..NewSandbox::default()
        };
        let client = self.server.client(default)?;
        let sandbox = client
            .sandboxes()
            .create(&body)
            .await
            .map_err(|error| no_sandbox(error, &self.template))?;
        let end = sandbox.info().await?.listed.end_at;
        if self.output.json {
            print_json(&json!({
                "sandboxID": sandbox.id(),
                "template": self.template,
                "endAt": end,
            }))?;
        } else {
            print_line(sandbox.id())?;
            print_note(&format!("it ends {} UTC", moment(end)));
        }
        Ok(0)
    }
}
