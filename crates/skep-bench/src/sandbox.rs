//! A sandbox as an SDK sees it: over the wire, with the requests that the SDKs make.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use skep_client::{Agent, Client, ClientError, ExecEvent, ExecOptions, ExecStream, Port};
use skep_wire::agent::AGENT_PORT;
use skep_wire::interpreter::{Context, INTERPRETER_PORT};
use skep_wire::rest::{NewSandbox, Sandbox as Created};
use tokio::time::timeout;

use crate::error::{BenchError, calling};

/// How long a sandbox lives if the bench is killed and cannot end it.
const LIFETIME_SECONDS: i64 = 1800;
/// How long a start or a short answer may take: a rival may boot a virtual machine first.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a command, a cell or a file may take in all. Longer is no measurement but a fault.
pub(crate) const LONGEST: Duration = Duration::from_secs(900);

/// One sandbox.
pub(crate) struct Sandbox {
    pub(crate) id: String,
    token: Option<String>,
    client: Client,
    agent: Agent,
    files: Port,
    interpreter: Port,
}

/// A line of the interpreter's answer.
#[derive(Debug, Deserialize)]
struct Line {
    r#type: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    value: String,
}

/// Where code runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ContextRef<'a> {
    /// In the default context of the default language.
    Default,
    /// In the default context of a language.
    Language(&'a str),
    /// In the context of this id.
    Id(&'a str),
}

/// How much code printed.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    pub(crate) lines: usize,
    pub(crate) bytes: usize,
}

impl Sandbox {
    /// `Sandbox.create(template)`
    pub(crate) async fn create(client: &Client, template: &str) -> Result<Self, BenchError> {
        let body = NewSandbox {
            template_id: template.to_owned(),
            timeout: Some(LIFETIME_SECONDS),
            secure: Some(true),
            ..NewSandbox::default()
        };
        let created: Created = client
            .post(&["sandboxes"], &body)
            .await
            .map_err(calling("create a sandbox"))?;
        Ok(Self::reached_by(
            client,
            created.sandbox_id,
            created.envd_access_token,
        ))
    }

    /// The same sandbox, reached by another client.
    pub(crate) fn at(&self, client: &Client) -> Self {
        Self::reached_by(client, self.id.clone(), self.token.clone())
    }

    fn reached_by(client: &Client, id: String, token: Option<String>) -> Self {
        Self {
            agent: client.agent(&id, token.as_deref()),
            files: client.port(&id, AGENT_PORT, token.as_deref()),
            interpreter: client.port(&id, INTERPRETER_PORT, token.as_deref()),
            client: client.clone(),
            id,
            token,
        }
    }

    /// `sandbox.is_running()`: the agent answers.
    pub(crate) async fn ready(&self) -> Result<(), BenchError> {
        self.agent
            .health()
            .await
            .map_err(calling("reach the agent"))
    }

    /// Whether there is an interpreter, which a template may lack.
    pub(crate) async fn has_interpreter(&self) -> bool {
        let request = self.interpreter.request(Method::GET, "/health");
        self.interpreter
            .send(request.timeout(CALL_TIMEOUT))
            .await
            .is_ok()
    }

    /// `sandbox.commands.run(line)`: what it printed.
    pub(crate) async fn command(&self, line: &str) -> Result<Bytes, BenchError> {
        let mut stream = self.start(line).await?;
        let mut output = BytesMut::new();
        while let Some(bytes) = next_output(&mut stream, line).await? {
            output.extend_from_slice(&bytes);
        }
        Ok(output.freeze())
    }

    /// The same, as a stream: to be read with [`next_output`].
    pub(crate) async fn start(&self, line: &str) -> Result<ExecStream, BenchError> {
        // As the SDKs do it.
        let arguments = ["-l", "-c", line].map(str::to_owned);
        let options = ExecOptions::default();
        let started = self.agent.exec("/bin/bash", &arguments, &options);
        let started = timeout(CALL_TIMEOUT, started).await;
        started
            .map_err(|_| BenchError::Late {
                what: "the start of a command",
                limit: CALL_TIMEOUT,
            })?
            .map_err(calling("start a command"))
    }

    /// `sandbox.run_code("1")`, in the default context or in `context`.
    pub(crate) async fn run_one(&self, context: Option<&str>) -> Result<(), BenchError> {
        self.show_one("1", context.map_or(ContextRef::Default, ContextRef::Id))
            .await
    }

    /// `sandbox.run_code(code)` of code that shows one thing: a value, or a line.
    pub(crate) async fn show_one(
        &self,
        code: &str,
        context: ContextRef<'_>,
    ) -> Result<(), BenchError> {
        let mut shown = 0;
        self.run(code, context, |line| {
            shown += usize::from(matches!(line.r#type.as_str(), "result" | "stdout"));
        })
        .await?;
        if shown == 1 {
            return Ok(());
        }
        Err(BenchError::Unexpected {
            what: "run_code with one result",
            found: format!("{shown} results"),
        })
    }

    /// `sandbox.run_code(code)`: what it printed.
    pub(crate) async fn run_code(&self, code: &str) -> Result<Printed, BenchError> {
        let mut printed = Printed::default();
        self.run(code, ContextRef::Default, |line| {
            if let ("stdout", Some(text)) = (line.r#type.as_str(), &line.text) {
                printed.lines += text.matches('\n').count();
                printed.bytes += text.len();
            }
        })
        .await?;
        Ok(printed)
    }

    async fn run(
        &self,
        code: &str,
        context: ContextRef<'_>,
        mut on_line: impl FnMut(&Line),
    ) -> Result<(), BenchError> {
        const DOING: &str = "run code";
        let (context, language) = match context {
            ContextRef::Default => (None, None),
            ContextRef::Language(language) => (None, Some(language)),
            ContextRef::Id(context) => (Some(context), None),
        };
        let body =
            json!({"code": code, "context_id": context, "language": language, "env_vars": {}});
        let request = self
            .interpreter
            .request(Method::POST, "/execute")
            .timeout(LONGEST)
            .json(&body);
        let mut response = self
            .interpreter
            .send(request)
            .await
            .map_err(calling(DOING))?;
        let mut buffer = BytesMut::new();
        let broken = |source| BenchError::Body {
            doing: DOING,
            source,
        };
        while let Some(bytes) = response.chunk().await.map_err(broken)? {
            buffer.extend_from_slice(&bytes);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(end + 1);
                let line: Line = serde_json::from_slice(&line).map_err(unreadable)?;
                if line.r#type == "error" {
                    let Line { name, value, .. } = line;
                    return Err(BenchError::Code { name, value });
                }
                on_line(&line);
            }
        }
        Ok(())
    }

    /// Whether the template has a kernel of this language. If so, there is a context of it then.
    pub(crate) async fn speaks(&self, language: &str) -> Result<bool, BenchError> {
        match self.new_context(language).await {
            Ok(_) => Ok(true),
            // As Jupyter says it, and every interpreter in sandboxes after it.
            Err(BenchError::Call {
                source: ClientError::Refused { message, .. },
                ..
            }) if message.contains("kernel is not available") => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// `sandbox.create_code_context(language=language)`: its id.
    pub(crate) async fn new_context(&self, language: &str) -> Result<String, BenchError> {
        const DOING: &str = "make a context";
        let body = json!({"language": language, "cwd": "/home/user"});
        let request = self
            .interpreter
            .request(Method::POST, "/contexts")
            .json(&body);
        let response = self
            .interpreter
            .send(request.timeout(CALL_TIMEOUT))
            .await
            .map_err(calling(DOING))?;
        let context: Context = response.json().await.map_err(|source| BenchError::Body {
            doing: DOING,
            source,
        })?;
        Ok(context.id)
    }

    /// `sandbox.restart_code_context(id)`
    pub(crate) async fn restart_context(&self, id: &str) -> Result<(), BenchError> {
        let path = format!("/contexts/{id}/restart");
        self.context_call(Method::POST, &path, "restart a context")
            .await
    }

    /// `sandbox.remove_code_context(id)`
    pub(crate) async fn remove_context(&self, id: &str) -> Result<(), BenchError> {
        let path = format!("/contexts/{id}");
        self.context_call(Method::DELETE, &path, "remove a context")
            .await
    }

    async fn context_call(
        &self,
        method: Method,
        path: &str,
        doing: &'static str,
    ) -> Result<(), BenchError> {
        let request = self.interpreter.request(method, path).timeout(CALL_TIMEOUT);
        let response = self.interpreter.send(request).await;
        response.map(drop).map_err(calling(doing))
    }

    /// A port on which the agent serves files.
    pub(crate) fn files(&self) -> &Port {
        &self.files
    }

    /// `sandbox.kill()`
    pub(crate) async fn kill(&self) -> Result<(), BenchError> {
        let killed = self.client.delete(&["sandboxes", &self.id]).await;
        killed.map_err(calling("kill a sandbox"))
    }
}

/// What the command prints next; `None` when it has ended well.
pub(crate) async fn next_output(
    stream: &mut ExecStream,
    line: &str,
) -> Result<Option<Bytes>, BenchError> {
    loop {
        let event = timeout(LONGEST, stream.next()).await;
        let event = event.map_err(|_| BenchError::Late {
            what: "the next output of a command",
            limit: LONGEST,
        })?;
        match event.map_err(calling("follow a command"))? {
            Some(ExecEvent::Stdout(bytes)) => return Ok(Some(bytes)),
            Some(ExecEvent::Ended { code: 0, .. }) => {}
            Some(ExecEvent::Ended { status, .. }) => {
                let command = line.to_owned();
                return Err(BenchError::Command { command, status });
            }
            Some(ExecEvent::Started(_) | ExecEvent::Stderr(_) | ExecEvent::Terminal(_)) => {}
            None => return Ok(None),
        }
    }
}

fn unreadable(error: serde_json::Error) -> BenchError {
    BenchError::Unexpected {
        what: "run_code",
        found: error.to_string(),
    }
}
