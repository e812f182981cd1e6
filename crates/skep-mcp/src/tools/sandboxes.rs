//! `start_sandbox`, `stop_sandbox`, `list_sandboxes` and `expose_port`

use std::time::Duration;

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skep_client::{Command, SandboxState};

use super::Call;
use crate::answer::Answer;
use crate::failure::Failure;
use crate::session::{NAME_KEY, SandboxRequest};

/// Number of sandboxes that are listed.
const MOST_LISTED: usize = 100;
/// Succeeds if something in the sandbox listens on the port that is its argument.
const LISTENS: &str = r#"exec 3<>"/dev/tcp/127.0.0.1/$1""#;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartArguments {
    /// Name by which it is found again, also by later conversations. Without it, it ends with
    /// this one.
    #[serde(default)]
    name: Option<String>,
    /// Template, such as `base` or `code-interpreter-languages`.
    #[serde(default)]
    template: Option<String>,
    /// Seconds that it lives unless it is used.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    lifetime_seconds: Option<u64>,
    /// False for a sandbox without internet.
    #[serde(default)]
    internet: Option<bool>,
}

/// A sandbox that was started or found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StartOutput {
    /// Its ID, for `sandbox` of other tools.
    sandbox: String,
    /// Its name.
    name: Option<String>,
    /// True if it was there before, with its files and variables.
    reused: bool,
}

pub(crate) async fn start(
    call: &Call<'_>,
    arguments: StartArguments,
) -> Result<CallToolResult, Failure> {
    let longest = call.session.settings().lifetime;
    let lifetime = arguments
        .lifetime_seconds
        .map(|seconds| Duration::from_secs(seconds.max(1)));
    let order = SandboxRequest {
        name: arguments.name.clone(),
        template: arguments.template,
        lifetime: lifetime.map(|lifetime| lifetime.min(longest)),
        internet: arguments.internet,
    };
    let found = call.session.start(call.client, order).await?;
    let id = found.sandbox.id().to_owned();
    let handle = arguments.name.as_deref().unwrap_or(&id);
    let mut answer = Answer::text(format!(
        "[pass `sandbox`: \"{handle}\" to other tools to work in it]"
    ));
    let reused = found.note.is_some();
    answer.say(
        found
            .note
            .map(|note| format!("[{note}]"))
            .unwrap_or_default(),
    );
    Ok(answer.with(&StartOutput {
        sandbox: id,
        name: arguments.name,
        reused,
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopArguments {
    /// ID or name of the sandbox; without it the usual one is stopped.
    #[serde(default)]
    sandbox: Option<String>,
}

/// A sandbox that was stopped.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StopOutput {
    /// Its ID.
    sandbox: String,
}

pub(crate) async fn stop(
    call: &Call<'_>,
    arguments: StopArguments,
) -> Result<CallToolResult, Failure> {
    let sandbox = call
        .session
        .stop(call.client, arguments.sandbox.as_deref())
        .await?;
    let answer = Answer::text(format!("[sandbox {sandbox} has ended]"));
    Ok(answer.with(&StopOutput { sandbox }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArguments {}

/// The sandboxes of the key's team.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListOutput {
    /// All of them, or the first hundred.
    sandboxes: Vec<Listed>,
}

/// A sandbox.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Listed {
    /// Its ID.
    sandbox: String,
    /// Its name, if it has one.
    name: Option<String>,
    /// Its template.
    template: String,
    /// `running` or `paused`.
    state: &'static str,
    /// Time at which it ends, unless it is used.
    ends_at: String,
}

pub(crate) async fn list(call: &Call<'_>, _: ListArguments) -> Result<CallToolResult, Failure> {
    let all = call.client.sandboxes().list().await?.into_iter();
    let sandboxes: Vec<_> = all
        .take(MOST_LISTED)
        .map(|listed| Listed {
            sandbox: listed.sandbox_id,
            name: listed.metadata.get(NAME_KEY).cloned(),
            template: listed.alias.unwrap_or(listed.template_id),
            state: match listed.state {
                SandboxState::Running => "running",
                SandboxState::Paused => "paused",
            },
            ends_at: listed.end_at.to_string(),
        })
        .collect();
    let mut answer = Answer::default();
    for listed in &sandboxes {
        let name = listed.name.as_deref().unwrap_or("-");
        let Listed {
            sandbox,
            template,
            state,
            ends_at,
            ..
        } = listed;
        answer.say(format!(
            "{sandbox}\t{name}\t{template}\t{state}\tends {ends_at}"
        ));
    }
    if sandboxes.is_empty() {
        answer.say("[there are no sandboxes]");
    }
    Ok(answer.with(&ListOutput { sandboxes }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExposeArguments {
    /// Port that a server in the sandbox listens on.
    #[schemars(range(min = 1))]
    port: u16,
    /// ID or name of the sandbox; without it the usual one is used.
    #[serde(default)]
    sandbox: Option<String>,
}

/// Way to a port.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExposeOutput {
    /// ID of the sandbox.
    sandbox: String,
    /// URL of the port.
    url: String,
    /// True if something listens there now.
    listening: bool,
}

pub(crate) async fn expose(
    call: &Call<'_>,
    arguments: ExposeArguments,
) -> Result<CallToolResult, Failure> {
    let port = arguments.port;
    let found = call
        .session
        .sandbox(call.client, arguments.sandbox.as_deref())
        .await?;
    let sandbox = &found.sandbox;
    let domain = sandbox.info().await?.domain.ok_or_else(|| {
        Failure::new(
            "the server has no domain for ports",
            "Ask the user to give it one: `domain` in its configuration.",
        )
    })?;
    let is_secure = call.session.settings().secure_ports;
    let scheme = if is_secure.unwrap_or_else(|| call.client.is_secure()) {
        "https"
    } else {
        "http"
    };
    let url = format!("{scheme}://{port}-{}.{domain}", sandbox.id());
    let words = ["-c", LISTENS, "bash", &port.to_string()].map(str::to_owned);
    let tried = sandbox
        .commands()
        .run(Command::new("/bin/bash").args(words))
        .await?;
    let listening = tried.code == 0;
    let mut answer = Answer::text(&*url);
    if !listening {
        answer.say(format!(
            "[nothing listens on port {port} yet: start a server on 0.0.0.0:{port}]"
        ));
    }
    Ok(answer.with(&ExposeOutput {
        sandbox: sandbox.id().to_owned(),
        url,
        listening,
    }))
}
