//! One sandbox.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use skep_wire::agent::AGENT_PORT;
use skep_wire::interpreter::INTERPRETER_PORT;
use skep_wire::rest::{
    LogEntry, LogLevel, LogsV2, Metric, NetworkUpdate, Refresh, SandboxDetail, SandboxRequest,
    SetTimeout,
};
use tokio::sync::OnceCell;

use crate::client::Client;
use crate::commands::Commands;
use crate::error::ClientError;
use crate::files::Files;
use crate::interpreter::{ContextRef, Contexts, Executions, Interpreter};
use crate::port::Port;
use crate::terminals::Terminals;

/// Longest time that a call gives a sandbox whose deadline may be later already.
pub const LONGEST_EXTENSION: Duration = Duration::from_hours(1);

/// One sandbox, through which it is used and managed. Cheap to clone.
///
/// Dropping it leaves the sandbox running until its timeout; [`Sandbox::kill`] ends it.
#[derive(Clone)]
pub struct Sandbox {
    pub(crate) client: Client,
    pub(crate) id: String,
    /// Read from the server on first use, unless it is known from the creation. Shared by clones.
    access_token: Arc<OnceCell<Option<String>>>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token does not belong into a log.
        formatter
            .debug_struct("Sandbox")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Selection of log entries.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogQuery<'a> {
    /// Entries of at least this level.
    pub level: Option<LogLevel>,
    /// Entries that contain this text.
    pub search: Option<&'a str>,
    /// Entries since this moment, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Maximum number of entries; the server has one too.
    pub limit: Option<usize>,
}

impl Sandbox {
    pub(crate) fn named(client: &Client, id: &str) -> Self {
        Self {
            client: client.clone(),
            id: id.to_owned(),
            access_token: Arc::default(),
        }
    }

    /// The same sandbox with this access token, which is otherwise read from the server on first
    /// use. `None` uses none.
    #[must_use]
    pub fn with_access_token(mut self, token: Option<&str>) -> Self {
        self.access_token = Arc::new(OnceCell::new_with(Some(token.map(str::to_owned))));
        self
    }

    /// The same sandbox, reached by another client.
    #[must_use]
    pub fn through(&self, client: &Client) -> Self {
        Self {
            client: client.clone(),
            ..self.clone()
        }
    }

    /// ID of the sandbox.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Access token of the sandbox: what its agent asks for. `None` if it asks for none.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if it is not known yet, and cannot be read.
    pub async fn access_token(&self) -> Result<Option<&str>, ClientError> {
        let token = self
            .access_token
            .get_or_try_init(async || Ok(self.info().await?.envd_access_token))
            .await?;
        Ok(token.as_deref())
    }

    /// State, template, resources and deadline of the sandbox.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it does not run.
    pub async fn info(&self) -> Result<SandboxDetail, ClientError> {
        let request = self.client.request(Method::GET, self.url(&[]));
        self.client
            .call(&format!("get sandbox `{}`", self.id), request)
            .await
    }

    /// Ends the sandbox, and everything in it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it does not run.
    pub async fn kill(&self) -> Result<(), ClientError> {
        let request = self.client.request(Method::DELETE, self.url(&[]));
        self.client
            .send(&format!("kill sandbox `{}`", self.id), request)
            .await
            .map(drop)
    }

    /// Sets the time after which the sandbox ends, from now on.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it does not run.
    pub async fn set_timeout(&self, timeout: Duration) -> Result<(), ClientError> {
        let body = SetTimeout {
            timeout: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        };
        let url = self.url(&["timeout"]);
        let request = self.client.request(Method::POST, url).json(&body);
        let operation = format!("set the timeout of sandbox `{}`", self.id);
        self.client.send(&operation, request).await.map(drop)
    }

    /// Lets the sandbox live at least so much longer, up to an hour. Never shortens its life.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it does not run.
    pub async fn extend(&self, least: Duration) -> Result<(), ClientError> {
        let body = Refresh {
            duration: i64::try_from(least.min(LONGEST_EXTENSION).as_secs()).ok(),
        };
        let url = self.url(&["refreshes"]);
        let request = self.client.request(Method::POST, url).json(&body);
        let operation = format!("prolong the life of sandbox `{}`", self.id);
        self.client.send(&operation, request).await.map(drop)
    }

    /// Replaces the rules for what leaves the sandbox, all of them.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it does not run. The former rules hold.
    pub async fn set_network(&self, rules: &NetworkUpdate) -> Result<(), ClientError> {
        let url = self.url(&["network"]);
        let request = self.client.request(Method::PUT, url).json(rules);
        let operation = format!("change what sandbox `{}` may reach", self.id);
        self.client.send(&operation, request).await.map(drop)
    }

    /// Log entries of the sandbox, the oldest first. Those of an ended one are kept for a while.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn logs(&self, query: &LogQuery<'_>) -> Result<Vec<LogEntry>, ClientError> {
        let mut url = self.client.url(&["v2", "sandboxes", &self.id, "logs"]);
        {
            let mut pairs = url.query_pairs_mut();
            pairs.append_pair("direction", "forward");
            if let Some(level) = query.level {
                pairs.append_pair("level", word(level));
            }
            if let Some(text) = query.search {
                pairs.append_pair("search", text);
            }
            if let Some(since) = query.since {
                pairs.append_pair("cursor", &since.to_string());
            }
            if let Some(limit) = query.limit {
                pairs.append_pair("limit", &limit.to_string());
            }
        }
        let request = self.client.request(Method::GET, url);
        let operation = format!("read the log of sandbox `{}`", self.id);
        let page: LogsV2 = self.client.call(&operation, request).await?;
        Ok(page.logs)
    }

    /// Requests of the sandbox to hosts that it reaches by name, the oldest first, from the one that
    /// follows the number `after`. Only Skep has them.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn requests(&self, after: u64) -> Result<Vec<SandboxRequest>, ClientError> {
        let path = ["skep", "sandboxes", &self.id, "requests"];
        let mut url = self.client.url(&path);
        url.query_pairs_mut()
            .append_pair("after", &after.to_string());
        let request = self.client.request(Method::GET, url);
        let operation = format!("read the requests of sandbox `{}`", self.id);
        self.client.call(&operation, request).await
    }

    /// Resource usage of the sandbox over time, the oldest sample first.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it does not run.
    pub async fn metrics(&self) -> Result<Vec<Metric>, ClientError> {
        let request = self.client.request(Method::GET, self.url(&["metrics"]));
        let operation = format!("read the metrics of sandbox `{}`", self.id);
        self.client.call(&operation, request).await
    }

    /// Succeeds if the agent of the sandbox answers.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if it does not.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.port(AGENT_PORT)
            .call_silent("reach the agent", (Method::GET, "/health"), None)
            .await
            .map(drop)
    }

    /// Commands: run, follow and kill them.
    pub fn commands(&self) -> Commands {
        Commands::new(self.port(AGENT_PORT))
    }

    /// Interactive terminals.
    pub fn terminals(&self) -> Terminals {
        Terminals::new(self.port(AGENT_PORT))
    }

    /// Files: read and write them.
    pub fn files(&self) -> Files {
        Files::new(self.port(AGENT_PORT))
    }

    /// The interpreter, for code in `context`. Templates without kernels have none.
    pub fn interpreter<'a>(&self, context: ContextRef<'a>) -> Interpreter<'a> {
        Interpreter::new(self.port(INTERPRETER_PORT), context)
    }

    /// Contexts of the interpreter: create, list, restart and remove them.
    pub fn contexts(&self) -> Contexts {
        Contexts::new(self.port(INTERPRETER_PORT))
    }

    /// Executions that run: interrupt them, and attach to those whose connection broke.
    pub fn executions(&self) -> Executions {
        Executions::new(self.port(INTERPRETER_PORT))
    }

    /// A port of the sandbox, for services of your own.
    pub fn port(&self, number: u16) -> Port {
        Port::new(self, number)
    }

    pub(crate) fn url(&self, rest: &[&str]) -> reqwest::Url {
        let path = [&["sandboxes", self.id.as_str()], rest].concat();
        self.client.url(&path)
    }
}

fn word(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
    }
}
