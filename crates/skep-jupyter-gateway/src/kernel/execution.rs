//! Running code for an `execute_request`.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use skep_client::{
    AnswerLine, ClientError, ContextRef, ExecuteOptions, Execution, OutputForm, RunOptions, Sandbox,
};
use skep_telemetry::Chain;
use tokio::sync::{oneshot, watch};

use super::owner::Next;
use super::{Asked, Kernel};
use crate::clients::{Encoded, LARGEST};
use crate::failure::name_of;
use crate::message::{Channel, Message, failed};

/// Length of a text in one message. A longer one is sent in several.
const TEXT: usize = 1 << 20;
/// Representations of ours, which say again what is in others.
const OURS: [&str; 2] = ["e2b/data", "e2b/chart"];

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
    error: Option<Value>,
    /// The answer that it waits for.
    answer: Option<oneshot::Receiver<String>>,
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
        let wanted = match Wanted::deserialize(&asked.request.content) {
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
            let raised = json!({
                "ename": name_of(&error),
                "evalue": message,
                "traceback": [message],
            });
            self.publish("error", &asked.request.header, raised.clone())
                .await;
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
    ) -> Result<(), ClientError> {
        let options = RunOptions {
            skep: ExecuteOptions {
                outputs: OutputForm::Jupyter,
                allow_stdin: run.wanted.allow_stdin,
                ..ExecuteOptions::default()
            },
            ..RunOptions::default()
        };
        let interpreter = run.sandbox.interpreter(ContextRef::Id(&self.context.id));
        let mut execution = interpreter.execute(&run.wanted.code, &options).await?;
        let id = execution.id.clone().unwrap_or_default();
        loop {
            match self.next_event(run, &mut execution, &mut interrupts).await {
                Event::Line(line) => match line? {
                    Some(line) => self.show(run, line).await,
                    None => return Ok(()),
                },
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
                    self.publish("execute_input", parent, content).await;
                }
            }
            AnswerLine::Output {
                output: Value::Object(output),
                ..
            } => self.show_output(run, output).await,
            AnswerLine::InputRequest { prompt, password } => {
                let (sender, answer) = oneshot::channel();
                *self.input.lock() = Some((run.asked.from.clone(), sender));
                run.answer = Some(answer);
                let content = json!({"prompt": prompt, "password": password});
                let message = Message::new(
                    &self.session,
                    Channel::Stdin,
                    "input_request",
                    parent,
                    content,
                );
                run.asked.from.send(&mut Encoded::new(&message)).await;
            }
            AnswerLine::ContextRestarted { reason } => {
                let text = format!("the kernel was restarted ({reason}); its variables are gone\n");
                self.note(run, &text).await;
            }
            AnswerLine::OutputLost { bytes } => {
                self.note(run, &format!("{bytes} bytes of output were lost\n"))
                    .await;
            }
            // The first three are for clients that ask for the contract's own lines.
            AnswerLine::Stdout { .. }
            | AnswerLine::Stderr { .. }
            | AnswerLine::Result(_)
            | AnswerLine::Error(_)
            | AnswerLine::Output { .. }
            | AnswerLine::Receipt { .. }
            | AnswerLine::Keepalive
            | AnswerLine::EndOfExecution
            | AnswerLine::Unknown => {}
        }
    }

    async fn show_output(&self, run: &mut Run<'_>, mut output: Map<String, Value>) {
        let Some(Value::String(kind)) = output.remove("output_type") else {
            return;
        };
        match kind.as_str() {
            "stream" => {
                let name = output["name"].as_str().unwrap_or("stdout");
                let text = output["text"].as_str().unwrap_or_default();
                for piece in pieces(text) {
                    let content = json!({"name": name, "text": piece});
                    self.publish("stream", &run.asked.request.header, content)
                        .await;
                }
                return;
            }
            "error" => run.error = Some(Value::Object(output.clone())),
            "execute_result" => {
                if run.wanted.silent {
                    return;
                }
                output.insert("execution_count".to_owned(), Value::from(run.count));
                complete_bundle(&mut output);
            }
            "display_data" | "update_display_data" => complete_bundle(&mut output),
            _ => {}
        }
        self.publish_large(run, &kind, Value::Object(output)).await;
    }

    /// Tells all clients, unless it is more than they take.
    async fn publish_large(&self, run: &Run<'_>, kind: &str, content: Value) {
        let parent = &run.asked.request.header;
        let message = Message::new(&self.session, Channel::Iopub, kind, parent, content);
        let mut encoded = Encoded::new(&message);
        let size = encoded.size();
        if size > LARGEST {
            let text = format!("an output of {size} bytes is too large and was left out\n");
            self.note(run, &text).await;
        } else {
            self.publish_encoded(&mut encoded).await;
        }
    }

    /// Tells what is not the code's own output.
    async fn note(&self, run: &Run<'_>, text: &str) {
        let content = json!({"name": "stderr", "text": text});
        self.publish("stream", &run.asked.request.header, content)
            .await;
    }
}

impl Run<'_> {
    /// Content of the `execute_reply`.
    fn reply(self) -> Value {
        let mut reply = Map::new();
        let mut set = |key: &str, value: Value| reply.insert(key.to_owned(), value);
        set("execution_count", Value::from(self.count));
        set("user_expressions", json!({}));
        set("payload", json!([]));
        match self.error {
            None => {
                set("status", Value::from("ok"));
            }
            Some(error) => {
                set("status", Value::from("error"));
                for key in ["ename", "evalue", "traceback"] {
                    set(key, error[key].clone());
                }
            }
        }
        Value::Object(reply)
    }
}

/// Adds what the protocol demands of a bundle, and takes away what only our own clients read.
fn complete_bundle(output: &mut Map<String, Value>) {
    for key in ["metadata", "transient"] {
        output.entry(key).or_insert_with(|| json!({}));
    }
    if let Some(Value::Object(data)) = output.get_mut("data") {
        for kind in OURS {
            data.remove(kind);
        }
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

/// Code that has ended meanwhile needs neither an interrupt nor an answer.
fn ignore_ended(done: Result<(), ClientError>, what: &'static str) {
    if let Err(error) = done {
        tracing::debug!(error = %Chain(&error), what, "code of a kernel");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "ü".repeat(TEXT);
        let found: Vec<_> = pieces(&text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found.concat(), text);
        assert_eq!(pieces("").count(), 0);
    }

    #[test]
    fn a_bundle_has_what_the_protocol_demands() {
        let mut output = Map::new();
        output.insert(
            "data".to_owned(),
            json!({"text/plain": "1", "e2b/chart": {"type": "line"}}),
        );
        complete_bundle(&mut output);
        assert_eq!(
            Value::Object(output),
            json!({"data": {"text/plain": "1"}, "metadata": {}, "transient": {}})
        );
    }
}
