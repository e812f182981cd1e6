//! A sandbox as an SDK sees it: over the wire, with the requests that the SDKs make.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use skep_client::{
    AnswerLine, Cause, Client, ClientError, CommandEvent, CommandStream, ContextOptions,
    ContextRef, Files, NewSandbox, RunOptions,
};
use skep_wire::rest::{ForkedSandbox, NetworkUpdate};
use tokio::time::timeout;

use crate::error::BenchError;

/// Lifetime of a sandbox that the bench could not end, because it was killed.
const LIFETIME_SECONDS: i64 = 1800;
/// Time limit of a start or a short answer: a rival may boot a virtual machine first.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit of a command, a cell or a file. Longer is not a measurement but a fault.
pub(crate) const LONGEST: Duration = Duration::from_secs(900);
/// Working directory of new contexts, as the SDKs name it.
const HOME: &str = "/home/user";

/// One sandbox that is measured.
pub(crate) struct Sandbox {
    pub(crate) id: String,
    inner: skep_client::Sandbox,
}

/// Amount of text that code printed.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    pub(crate) lines: usize,
    pub(crate) bytes: usize,
}

impl Sandbox {
    /// Creates a sandbox, as `Sandbox.create(template)` does.
    pub(crate) async fn create(client: &Client, template: &str) -> Result<Self, BenchError> {
        let new = NewSandbox {
            template_id: template.to_owned(),
            timeout: Some(LIFETIME_SECONDS),
            secure: Some(true),
            ..NewSandbox::default()
        };
        let inner = client.sandboxes().create(&new).await?;
        Ok(Self {
            id: inner.id().to_owned(),
            inner,
        })
    }

    /// The same sandbox, reached by another client.
    pub(crate) fn at(&self, client: &Client) -> Self {
        Self {
            id: self.id.clone(),
            inner: self.inner.through(client),
        }
    }

    /// Succeeds if the agent answers, as `sandbox.is_running()` does.
    pub(crate) async fn ready(&self) -> Result<(), BenchError> {
        Ok(self.inner.health().await?)
    }

    /// Replaces the rules for what leaves it.
    pub(crate) async fn set_network(&self, rules: &NetworkUpdate) -> Result<(), BenchError> {
        Ok(self.inner.set_network(rules).await?)
    }

    /// Returns true if there is an interpreter, which a template may lack.
    pub(crate) async fn has_interpreter(&self) -> bool {
        let interpreter = self.inner.interpreter(ContextRef::Default);
        interpreter.health().await.is_ok()
    }

    /// Runs a command as `sandbox.commands.run(line)` does, and returns what it printed.
    pub(crate) async fn command(&self, line: &str) -> Result<Bytes, BenchError> {
        let mut stream = self.start(line).await?;
        let mut output = BytesMut::new();
        while let Some(bytes) = next_output(&mut stream, line).await? {
            output.extend_from_slice(&bytes);
        }
        Ok(output.freeze())
    }

    /// Starts a command, to be read with [`next_output`].
    pub(crate) async fn start(&self, line: &str) -> Result<CommandStream, BenchError> {
        in_time(
            "the start of a command",
            CALL_TIMEOUT,
            self.inner.commands().start(line),
        )
        .await
    }

    /// Runs `1` in the default context or in `context`, as `sandbox.run_code("1")` does.
    pub(crate) async fn run_one(&self, context: Option<&str>) -> Result<(), BenchError> {
        self.show_one("1", context.map_or(ContextRef::Default, ContextRef::Id))
            .await
    }

    /// Runs code that shows one thing: a value, or a line.
    pub(crate) async fn show_one(
        &self,
        code: &str,
        context: ContextRef<'_>,
    ) -> Result<(), BenchError> {
        let mut shown = 0;
        self.run(code, context, |line| {
            let shows = matches!(line, AnswerLine::Result(_) | AnswerLine::Stdout { .. });
            shown += usize::from(shows);
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

    /// Runs code as `sandbox.run_code(code)` does, and counts what it printed.
    pub(crate) async fn run_code(&self, code: &str) -> Result<Printed, BenchError> {
        let mut printed = Printed::default();
        self.run(code, ContextRef::Default, |line| {
            if let AnswerLine::Stdout { text, .. } = line {
                printed.lines += text.matches('\n').count();
                printed.bytes += text.len();
            }
        })
        .await?;
        Ok(printed)
    }

    /// Runs code that prints a number.
    pub(crate) async fn print_number(
        &self,
        code: &str,
        context: ContextRef<'_>,
    ) -> Result<f64, BenchError> {
        let mut printed = String::new();
        self.run(code, context, |line| {
            if let AnswerLine::Stdout { text, .. } = line {
                printed.push_str(text);
            }
        })
        .await?;
        printed.trim().parse().map_err(|_| BenchError::Unexpected {
            what: "code that prints a number",
            found: printed,
        })
    }

    async fn run(
        &self,
        code: &str,
        context: ContextRef<'_>,
        mut on_line: impl FnMut(&AnswerLine),
    ) -> Result<(), BenchError> {
        let interpreter = self.inner.interpreter(context);
        let options = RunOptions::default();
        let mut execution =
            in_time("run_code", LONGEST, interpreter.execute(code, &options)).await?;
        while let Some(line) = in_time("run_code", LONGEST, execution.next()).await? {
            if let AnswerLine::Error(error) = line {
                return Err(BenchError::Code {
                    name: error.name,
                    value: error.value,
                });
            }
            on_line(&line);
        }
        Ok(())
    }

    /// Returns true if the template has a kernel of this language. There is a context of it then.
    pub(crate) async fn speaks(&self, language: &str) -> Result<bool, BenchError> {
        match self.new_context(language).await {
            Ok(_) => Ok(true),
            // As Jupyter says it, and every interpreter in sandboxes after it.
            Err(BenchError::Call(error))
                if matches!(error.cause(), Cause::Refused { message, .. }
                    if message.contains("kernel is not available")) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a context, as `sandbox.create_code_context(language=language)` does.
    pub(crate) async fn new_context(&self, language: &str) -> Result<String, BenchError> {
        let options = ContextOptions::default();
        let contexts = self.inner.contexts();
        Ok(contexts.create(language, Some(HOME), &options).await?.id)
    }

    /// Restarts a context, as `sandbox.restart_code_context(id)` does.
    pub(crate) async fn restart_context(&self, id: &str) -> Result<(), BenchError> {
        Ok(self.inner.contexts().restart(id).await?)
    }

    /// Removes a context, as `sandbox.remove_code_context(id)` does.
    pub(crate) async fn remove_context(&self, id: &str) -> Result<(), BenchError> {
        Ok(self.inner.contexts().remove(id).await?)
    }

    /// Pauses the sandbox, as `sandbox.pause()` does.
    pub(crate) async fn pause(&self) -> Result<(), BenchError> {
        Ok(self.inner.pause(true).await?)
    }

    /// Lets a paused sandbox go on, as `sandbox.connect()` does.
    pub(crate) async fn resume(&self) -> Result<(), BenchError> {
        let lifetime = Duration::from_secs(LIFETIME_SECONDS.unsigned_abs());
        self.inner.resume(Some(lifetime)).await?;
        Ok(())
    }

    /// Makes copies of the running sandbox, as `sandbox.fork(count=count)` does.
    pub(crate) async fn fork(&self, client: &Client, count: u32) -> Result<Vec<Self>, BenchError> {
        let forked = self.inner.fork(count).await?;
        let copies = forked.into_iter().map(|copy| match copy {
            ForkedSandbox::Sandbox(copy) => {
                let token = copy.envd_access_token.as_deref();
                Ok(Self {
                    inner: client.sandbox(&copy.sandbox_id).with_access_token(token),
                    id: copy.sandbox_id,
                })
            }
            ForkedSandbox::Error(error) => Err(BenchError::Unexpected {
                what: "fork",
                found: error.message,
            }),
        });
        copies.collect()
    }

    /// Keeps the sandbox as it is now, as `sandbox.create_snapshot()` does, and returns the name by
    /// which others are made of it.
    pub(crate) async fn snapshot(&self, keep_memory: bool) -> Result<String, BenchError> {
        Ok(self.inner.snapshot(None, keep_memory).await?.snapshot_id)
    }

    /// Forks a context, which only Skep has, as the three below.
    pub(crate) async fn fork_context(&self, id: &str) -> Result<String, BenchError> {
        Ok(self.inner.contexts().fork(id).await?.id)
    }

    /// Keeps the state of a context.
    pub(crate) async fn checkpoint_context(&self, id: &str) -> Result<String, BenchError> {
        Ok(self.inner.contexts().checkpoint(id).await?.id)
    }

    /// Goes back to a kept state of a context.
    pub(crate) async fn roll_back_context(
        &self,
        id: &str,
        checkpoint: &str,
    ) -> Result<(), BenchError> {
        Ok(self.inner.contexts().roll_back(id, checkpoint).await?)
    }

    /// Removes a kept state of a context.
    pub(crate) async fn remove_checkpoint(
        &self,
        id: &str,
        checkpoint: &str,
    ) -> Result<(), BenchError> {
        let contexts = self.inner.contexts();
        Ok(contexts.remove_checkpoint(id, checkpoint).await?)
    }

    /// Files of the sandbox's user.
    pub(crate) fn files(&self) -> Files {
        self.inner.files().as_user("user")
    }

    /// Ends the sandbox, as `sandbox.kill()` does.
    pub(crate) async fn kill(&self) -> Result<(), BenchError> {
        Ok(self.inner.kill().await?)
    }
}

/// Next output of a command; `None` when it has ended well.
pub(crate) async fn next_output(
    stream: &mut CommandStream,
    line: &str,
) -> Result<Option<Bytes>, BenchError> {
    loop {
        match in_time("the next output of a command", LONGEST, stream.next()).await? {
            Some(CommandEvent::Stdout(bytes)) => return Ok(Some(bytes)),
            Some(CommandEvent::Ended { code: 0, .. }) => {}
            Some(CommandEvent::Ended { status, .. }) => {
                let command = line.to_owned();
                return Err(BenchError::Command { command, status });
            }
            Some(
                CommandEvent::Started(_) | CommandEvent::Stderr(_) | CommandEvent::Terminal(_),
            ) => {}
            None => return Ok(None),
        }
    }
}

/// Waits for a call, but not for ever: streams have no time limit of their own.
pub(crate) async fn in_time<T>(
    what: &'static str,
    limit: Duration,
    call: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, BenchError> {
    let called = timeout(limit, call)
        .await
        .map_err(|_| BenchError::Late { what, limit })?;
    Ok(called?)
}
