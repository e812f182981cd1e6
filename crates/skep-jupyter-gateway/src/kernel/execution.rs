//! Running code for an `execute_request`.

use std::pin::pin;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use skep_client::{
    AnswerLine, Cause, ClientError, ContextRef, ExecuteOptions, Execution, Outcome, OutputForm,
    RawJson, RunOptions, Sandbox,
};
use skep_telemetry::Chain;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::output::{Kind, Output, Raised};
use super::owner::Next;
use super::{Asked, Kernel};
use crate::failure::name_of;
use crate::message::{Channel, Message, failed};

/// Length of a text in one message. A longer one is sent in several.
const TEXT: usize = 1 << 20;
/// Longest line of an answer: a bit more than the largest output that clients take.
const LONGEST_LINE: usize = 12 << 20;

/// Time limit for a sandbox to say that it runs code, before it says what the code does. One that
/// was asleep wakes up within it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The same for code that was interrupted meanwhile.
const INTERRUPTED_TIMEOUT: Duration = Duration::from_secs(5);
/// Note in place of an output.
const UNREADABLE: &str = "an output could not be read and was left out\n";

/// Content of an `execute_request`.
#[derive(Deserialize)]
struct Wanted {
    code: String,
    #[serde(default)]
    silent: bool,
    #[serde(default = "yes")]
    stop_on_error: bool,
    #[serde(default)]
    allow_stdin: bool,
}

/// Code that runs.
struct Run<'a> {
    asked: &'a Asked,
    wanted: &'a Wanted,
    sandbox: &'a Sandbox,
    count: u64,
    /// The error that ended it.
    error: Option<Raised>,
    /// The answer that it waits for.
    answer: Option<oneshot::Receiver<String>>,
}

/// Reason for which code was not run to its end.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Failed(#[from] ClientError),
    /// The sandbox did not say that it runs the code.
    #[error("the sandbox did not answer within {} s", HEAD_TIMEOUT.as_secs())]
    Silent,
    /// It was interrupted before the sandbox said so.
    #[error("the code was interrupted before it ran")]
    Interrupted,
}

/// An event of code that runs.
enum Event {
    Line(Result<Option<AnswerLine>, ClientError>),
    Interrupt,
    Answer(Option<String>),
}

fn yes() -> bool {
    true
}

impl Kernel {
    /// Runs the code of a request; the content of the reply, and what becomes of those that wait.
    pub(super) async fn execute(&self, asked: &Asked) -> (Value, Next) {
        // From here on: an interrupt that comes before the code runs is for this code.
        let interrupts = self.interrupts.subscribe();
        let wanted = match asked.request.read::<Wanted>() {
            Ok(wanted) => wanted,
            Err(error) => {
                let content = failed("BadRequest", &error.to_string());
                return (content, Next::GoOn);
            }
        };
        let sandbox = self.sandbox.through(&asked.from.api);
        let mut run = Run {
            asked,
            wanted: &wanted,
            sandbox: &sandbox,
            count: 0,
            error: None,
            answer: None,
        };
        let mut has_ended = false;
        if let Err(error) = self.run(&mut run, interrupts).await {
            has_ended = !self.is_there().await;
            tracing::debug!(error = %Chain(&error), "code of a kernel was not run to its end");
            let message = Chain(&error).to_string();
            let name = match &error {
                Stopped::Failed(error) => name_of(error),
                Stopped::Silent => "KernelUnreachable",
                Stopped::Interrupted => "KeyboardInterrupt",
            };
            let raised = Raised::by_gateway(name, &message);
            self.publish("error", &asked.request.header, &raised).await;
            run.error = Some(raised);
        }
        self.input.lock().take();
        let next = match &run.error {
            Some(_) if has_ended => Next::End,
            Some(_) if wanted.stop_on_error => Next::Abort,
            Some(_) | None => Next::GoOn,
        };
        (run.reply(), next)
    }

    async fn run(
        &self,
        run: &mut Run<'_>,
        mut interrupts: watch::Receiver<u64>,
    ) -> Result<(), Stopped> {
        let options = RunOptions {
            skep: ExecuteOptions {
                outputs: OutputForm::Jupyter,
                allow_stdin: run.wanted.allow_stdin,
                ..ExecuteOptions::default()
            },
            longest_line: Some(LONGEST_LINE),
            ..RunOptions::default()
        };
        let interpreter = run.sandbox.interpreter(ContextRef::Id(&self.context.id));
        let executing = interpreter.execute(&run.wanted.code, &options);
        let (mut execution, is_interrupted) = started(executing, &mut interrupts).await?;
        let id = execution.id.clone().unwrap_or_default();
        if is_interrupted {
            interrupts.mark_changed();
        }
        loop {
            match self.next_event(run, &mut execution, &mut interrupts).await {
                Event::Line(Ok(Some(line))) => self.show(run, line).await,
                Event::Line(Ok(None)) => return Ok(()),
                // Those behind it may be as they should.
                Event::Line(Err(error)) if matches!(error.cause(), Cause::Answer(_)) => {
                    tracing::debug!(error = %Chain(&error), "a line of an answer is left out");
                    self.note(run, UNREADABLE).await;
                }
                Event::Line(Err(error)) => return Err(error.into()),
                Event::Interrupt => {
                    let interrupted = run.sandbox.executions().interrupt(&id).await;
                    ignore_ended(interrupted, "is not interrupted");
                }
                Event::Answer(answer) => {
                    run.answer = None;
                    let answered = run.sandbox.executions().input(&id, answer).await;
                    ignore_ended(answered, "does not take an answer");
                }
            }
        }
    }

    async fn next_event(
        &self,
        run: &mut Run<'_>,
        execution: &mut Execution,
        interrupts: &mut watch::Receiver<u64>,
    ) -> Event {
        let from = &run.asked.from;
        let answer = async {
            match &mut run.answer {
                Some(answer) => tokio::select! {
                    answer = answer => answer.ok(),
                    // Nobody else was asked, so nobody will answer.
                    () = from.closed() => None,
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            line = execution.next() => Event::Line(line),
            Ok(()) = interrupts.changed() => Event::Interrupt,
            answer = answer => Event::Answer(answer),
        }
    }

    /// Tells what code says.
    async fn show(&self, run: &mut Run<'_>, line: AnswerLine) {
        let parent = &run.asked.request.header;
        match line {
            AnswerLine::NumberOfExecutions { execution_count } => {
                run.count = execution_count;
                if !run.wanted.silent {
                    let content = json!({
                        "code": run.wanted.code,
                        "execution_count": execution_count,
                    });
                    self.publish("execute_input", parent, &content).await;
                }
            }
            AnswerLine::Output { output, .. } => self.show_output(run, &output).await,
            AnswerLine::InputRequest { prompt, password } => {
                let (sender, answer) = oneshot::channel();
                *self.input.lock() = Some((run.asked.from.clone(), sender));
                run.answer = Some(answer);
                // Without a prompt that is too long, not without the question.
                let prompt = pieces(&prompt).next().unwrap_or_default();
                let content = json!({"prompt": prompt, "password": password});
                let message = Message::new(
                    &self.session,
                    Channel::Stdin,
                    "input_request",
                    parent,
                    &content,
                );
                run.asked.from.send(&message).await;
            }
            AnswerLine::ContextRestarted { reason } => {
                let text = format!("the kernel was restarted ({reason}); its variables are gone\n");
                self.note(run, &text).await;
            }
            AnswerLine::OutputLost { bytes } => {
                self.note(run, &format!("{bytes} bytes of output were lost\n"))
                    .await;
            }
            AnswerLine::TooLarge { bytes } => {
                let text = format!("an output of {bytes} bytes is too large and was left out\n");
                self.note(run, &text).await;
            }
            AnswerLine::Receipt { outcome, .. }
                if outcome != Outcome::Ok && run.error.is_none() =>
            {
                let text = "the code failed, and its error was too large or could not be read";
                let raised = Raised::by_gateway("Error", text);
                self.publish("error", parent, &raised).await;
                run.error = Some(raised);
            }
            // The first four are for clients that ask for the contract's own lines.
            AnswerLine::Stdout { .. }
            | AnswerLine::Stderr { .. }
            | AnswerLine::Result(_)
            | AnswerLine::Error(_)
            | AnswerLine::Receipt { .. }
            | AnswerLine::Keepalive
            | AnswerLine::EndOfExecution
            | AnswerLine::Unknown => {}
        }
    }

    async fn show_output(&self, run: &mut Run<'_>, output: &RawJson) {
        let parent = &run.asked.request.header;
        let output: Output<'_> = match output.read() {
            Ok(output) => output,
            Err(error) => {
                tracing::debug!(%error, "an output is left out");
                return self.note(run, UNREADABLE).await;
            }
        };
        let kind = output.kind.name();
        match output.kind {
            Kind::Stream => {
                let name = match output.name.as_str() {
                    "stderr" => "stderr",
                    _ => "stdout",
                };
                for piece in pieces(&output.text) {
                    let content = json!({"name": name, "text": piece});
                    self.publish(kind, parent, &content).await;
                }
            }
            Kind::Error => {
                let raised = output.raised();
                self.publish(kind, parent, &raised).await;
                run.error = Some(raised);
            }
            Kind::ExecuteResult if run.wanted.silent => {}
            Kind::ExecuteResult => {
                let shown = output.shown(Some(run.count));
                self.publish(kind, parent, &shown).await;
            }
            Kind::DisplayData | Kind::UpdateDisplayData => {
                self.publish(kind, parent, &output.shown(None)).await;
            }
            Kind::ClearOutput => {
                let content = json!({"wait": output.wait});
                self.publish(kind, parent, &content).await;
            }
        }
    }

    /// Tells what is not the code's own output.
    async fn note(&self, run: &Run<'_>, text: &str) {
        let content = json!({"name": "stderr", "text": text});
        self.publish("stream", &run.asked.request.header, &content)
            .await;
    }
}

impl Run<'_> {
    /// Content of the `execute_reply`.
    fn reply(self) -> Value {
        let mut reply = match &self.error {
            None => json!({"status": "ok"}),
            Some(raised) => {
                let mut reply = json!(raised);
                reply["status"] = Value::from("error");
                reply
            }
        };
        reply["execution_count"] = Value::from(self.count);
        reply["user_expressions"] = json!({});
        reply["payload"] = json!([]);
        reply
    }
}

/// A text in pieces that are not too long for a message.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.floor_char_boundary(TEXT);
        let (piece, others) = rest.split_at(end);
        rest = others;
        Some(piece)
    })
}

/// Waits until code is said to run; with what was said comes true if it was interrupted meanwhile.
/// Giving it up interrupts the code if it does run.
async fn started<T>(
    executing: impl Future<Output = Result<T, ClientError>>,
    interrupts: &mut watch::Receiver<u64>,
) -> Result<(T, bool), Stopped> {
    let mut executing = pin!(executing);
    let mut is_interrupted = false;
    let mut deadline = Instant::now() + HEAD_TIMEOUT;
    loop {
        tokio::select! {
            execution = &mut executing => return Ok((execution?, is_interrupted)),
            Ok(()) = interrupts.changed(), if !is_interrupted => {
                is_interrupted = true;
                deadline = Instant::now() + INTERRUPTED_TIMEOUT;
            }
            () = sleep_until(deadline) => {
                return Err(if is_interrupted {
                    Stopped::Interrupted
                } else {
                    Stopped::Silent
                });
            }
        }
    }
}

/// Code that has ended meanwhile needs neither an interrupt nor an answer.
fn ignore_ended(done: Result<(), ClientError>, what: &'static str) {
    if let Err(error) = done {
        tracing::debug!(error = %Chain(&error), what, "code of a kernel");
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sandbox_that_says_nothing_is_not_waited_for() {
        let interrupts = watch::Sender::new(0_u64);
        let began = Instant::now();
        let silent = started::<()>(pending(), &mut interrupts.subscribe()).await;
        assert!(matches!(silent, Err(Stopped::Silent)), "{silent:?}");
        assert_eq!(began.elapsed().as_secs(), HEAD_TIMEOUT.as_secs());
        let mut interrupted = interrupts.subscribe();
        interrupts.send_modify(|count| *count += 1);
        let began = Instant::now();
        let silent = started::<()>(pending(), &mut interrupted).await;
        assert!(matches!(silent, Err(Stopped::Interrupted)), "{silent:?}");
        assert_eq!(began.elapsed().as_secs(), INTERRUPTED_TIMEOUT.as_secs());
        let runs = started(ready(Ok(1)), &mut interrupts.subscribe()).await;
        assert!(matches!(runs, Ok((1, false))), "{runs:?}");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "ü".repeat(TEXT);
        let found: Vec<_> = pieces(&text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found.concat(), text);
        assert_eq!(pieces("").count(), 0);
    }
}
