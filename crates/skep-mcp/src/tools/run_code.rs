//! `run_code`

use std::time::Duration;

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skep_client::{
    AnswerLine, ContextOptions, ContextRef, Execution, Outcome, RaisedError, ResultLine,
    RunOptions, Sandbox, Usage,
};
use tokio::time::{Instant, sleep_until};

use super::Call;
use crate::answer::Answer;
use crate::captured::{Captured, Shown};
use crate::clean::plain;
use crate::failure::Failure;
use crate::progress::Progress;

/// Time limit of code that names none.
const USUAL_TIMEOUT: u64 = 120;
/// Time that an execution whose limit is over has for its end to be told.
const GRACE: Duration = Duration::from_secs(30);
/// Largest representation of a result that is part of the answer, in bytes.
const LARGEST_VALUE: usize = 24 << 10;
/// Size of all representations together, in bytes.
const LARGEST_DATA: usize = 128 << 10;
/// Number of results that are kept of one execution.
const MOST_RESULTS: usize = 32;
/// Size of all of them together, in bytes.
const LARGEST_RESULTS: usize = 32 << 20;
/// Longest line of an answer, in bytes: the largest result that is looked at.
const LONGEST_LINE: usize = 12 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// Code to run, as in a cell of a notebook.
    code: String,
    /// Language of the code: python, javascript, typescript or bash; some templates have r and
    /// java, too.
    #[serde(default = "python")]
    language: String,
    /// Fate of variables: `keep` has those of earlier calls, `fresh` forgets them first,
    /// and `isolated` runs beside them and leaves nothing behind.
    #[serde(default)]
    state: State,
    /// Seconds after which the code is interrupted.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    timeout_seconds: Option<u64>,
    /// ID or name of the sandbox; without it the usual one is used.
    #[serde(default)]
    sandbox: Option<String>,
}

fn python() -> String {
    "python".to_owned()
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
enum State {
    #[default]
    Keep,
    Fresh,
    Isolated,
}

/// Result of an execution.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// ID of the sandbox that it ran in.
    sandbox: String,
    /// Standard output of the code.
    stdout: String,
    /// Standard error of the program.
    stderr: String,
    /// Values and displays by their media types; images are in the content.
    results: Vec<Map<String, Value>>,
    /// The exception that ended it, if one did.
    error: Option<RaisedOutput>,
    /// Number of executions of the context, this one included.
    execution_count: Option<u64>,
    /// Milliseconds that it took.
    duration_ms: u64,
    /// File in the sandbox that has all of a long output.
    full_output: Option<String>,
}

/// An exception.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct RaisedOutput {
    /// Class of the exception.
    name: String,
    /// Its text.
    value: String,
    /// Traceback of the error.
    traceback: String,
    /// Kind of the end in every language, such as `exception`, `timeout` or `out_of_memory`.
    kind: Option<String>,
}

/// Everything that came of an execution.
#[derive(Debug, Default)]
struct Ran {
    stdout: Captured,
    stderr: Captured,
    results: Vec<ResultLine>,
    results_size: usize,
    more_results: usize,
    error: Option<RaisedError>,
    usage: Usage,
    count: Option<u64>,
    restarted: Option<String>,
}

pub(crate) async fn run(call: &Call<'_>, arguments: Arguments) -> Result<CallToolResult, Failure> {
    let found = call
        .session
        .sandbox(call.client, arguments.sandbox.as_deref())
        .await?;
    let sandbox = found.sandbox;
    let limit = call.timeout(arguments.timeout_seconds, USUAL_TIMEOUT);
    let language = arguments.language.trim().to_lowercase();
    let ran = match arguments.state {
        State::Keep | State::Fresh => {
            if arguments.state == State::Fresh {
                forget(&sandbox, &language).await?;
            }
            execute(
                call,
                &sandbox,
                &arguments.code,
                ContextRef::Language(&language),
                limit,
            )
            .await?
        }
        State::Isolated => {
            let contexts = sandbox.contexts();
            let options = ContextOptions::default();
            let context = contexts
                .create(&language, None, &options)
                .await
                .map_err(explained)?;
            let ran = execute(
                call,
                &sandbox,
                &arguments.code,
                ContextRef::Id(&context.id),
                limit,
            )
            .await;
            let removed = contexts.remove(&context.id).await;
            let ran = ran?;
            removed?;
            ran
        }
    };
    Ok(answer(&sandbox, ran, found.note).await)
}

/// Restarts the usual context of a language, if there is one.
async fn forget(sandbox: &Sandbox, language: &str) -> Result<(), Failure> {
    let contexts = sandbox.contexts();
    let mut all = contexts.list().await?.into_iter();
    if let Some(context) = all.find(|context| context.language == language) {
        contexts.restart(&context.id).await?;
    }
    Ok(())
}

async fn execute(
    call: &Call<'_>,
    sandbox: &Sandbox,
    code: &str,
    context: ContextRef<'_>,
    limit: Duration,
) -> Result<Ran, Failure> {
    let mut options = RunOptions {
        longest_line: Some(LONGEST_LINE),
        ..RunOptions::default()
    };
    options.skep.limits.time_seconds = Some(limit.as_secs_f64());
    // Tools ask for colours where they think that a notebook shows them.
    options.env.insert("NO_COLOR".to_owned(), "1".to_owned());
    let mut execution = sandbox
        .interpreter(context)
        .execute(code, &options)
        .await
        .map_err(explained)?;
    let deadline = Instant::now() + limit + GRACE;
    let mut ran = Ran::default();
    let mut progress = Progress::of(call.context);
    let mut beat = Progress::heartbeat();
    loop {
        tokio::select! {
            line = execution.next() => match line? {
                Some(line) => ran.take(line),
                None => return Ok(ran),
            },
            _ = beat.tick() => {}
            // The execution is dropped, which interrupts the code.
            () = call.context.ct.cancelled() => return Err(cancelled()),
            () = sleep_until(deadline) => return Err(hangs(&execution, limit)),
        }
        progress.tell(ran.last_line()).await;
    }
}

pub(super) fn cancelled() -> Failure {
    Failure::new(
        "the call was cancelled, and what it ran was interrupted",
        "",
    )
}

fn hangs(execution: &Execution, limit: Duration) -> Failure {
    let id = execution.id.as_deref().unwrap_or("unknown");
    Failure::new(
        format!(
            "execution `{id}` did not end within its {} s",
            limit.as_secs()
        ),
        "Call run_code with `state` `fresh`, which restarts the interpreter.",
    )
}

/// Explains the usual failures before code runs.
fn explained(error: skep_client::ClientError) -> Failure {
    Failure::from(error).advise(
        "The template of the sandbox may lack the language: `code-interpreter-languages` has r \
         and java, and run_command works everywhere.",
    )
}

impl Ran {
    fn take(&mut self, line: AnswerLine) {
        match line {
            AnswerLine::Stdout { text, .. } => self.stdout.push(&text),
            AnswerLine::Stderr { text, .. } => self.stderr.push(&text),
            AnswerLine::Result(result) => {
                let size = self.results_size.saturating_add(result.size());
                if self.results.len() < MOST_RESULTS && size <= LARGEST_RESULTS {
                    self.results_size = size;
                    self.results.push(*result);
                } else {
                    self.more_results += 1;
                }
            }
            AnswerLine::Error(error) => self.error = Some(error),
            AnswerLine::Receipt { usage, outcome } => {
                self.usage = usage;
                if outcome != Outcome::Ok && self.error.is_none() {
                    self.error = Some(untold(outcome));
                }
            }
            AnswerLine::NumberOfExecutions { execution_count } => {
                self.count = Some(execution_count)
            }
            AnswerLine::ContextRestarted { reason } => self.restarted = Some(reason),
            AnswerLine::TooLarge { bytes } => {
                let said = format!("[an output of {bytes} bytes is too large and was left out]\n");
                self.stderr.push(&said);
            }
            AnswerLine::OutputLost { .. }
            | AnswerLine::Output { .. }
            | AnswerLine::InputRequest { .. }
            | AnswerLine::Keepalive
            | AnswerLine::EndOfExecution
            | AnswerLine::Unknown => {}
        }
    }

    fn last_line(&self) -> Option<String> {
        self.stdout.last_line().or_else(|| self.stderr.last_line())
    }
}

async fn answer(sandbox: &Sandbox, ran: Ran, note: Option<String>) -> CallToolResult {
    let mut answer = Answer::default();
    if let Some(note) = note {
        answer.say(format!("[{note}]"));
    }
    if let Some(reason) = &ran.restarted {
        answer.say(format!(
            "[the interpreter was restarted ({reason}): earlier variables are gone]"
        ));
    }
    let (stdout, stderr) = (ran.stdout.shown(), ran.stderr.shown());
    let full_output = keep_long(sandbox, &[(&ran.stdout, &stdout), (&ran.stderr, &stderr)]).await;
    answer.say(stdout.text.trim_end());
    if !stderr.text.trim().is_empty() {
        answer.say(format!("[stderr]\n{}", stderr.text.trim_end()));
    }
    for result in &ran.results {
        show(&mut answer, result);
    }
    if ran.more_results > 0 {
        answer.say(format!("[{} more results are left out]", ran.more_results));
    }
    if let Some(path) = &full_output {
        answer.say(format!("[all of the output is in {path}]"));
    }
    if let Some(error) = &ran.error {
        answer.fail();
        answer.say(told(error));
    } else if ran.stdout.is_empty() && ran.stderr.is_empty() && ran.results.is_empty() {
        answer.say("[no output]");
    }
    answer.with(&Output {
        sandbox: sandbox.id().to_owned(),
        stdout: stdout.text,
        stderr: stderr.text,
        results: bundles(ran.results),
        error: ran.error.map(raised),
        execution_count: ran.count,
        duration_ms: ran.usage.wall_us / 1000,
        full_output,
    })
}

/// Writes an output that was cut to a file of the sandbox, if that can be.
pub(super) async fn keep_long(
    sandbox: &Sandbox,
    outputs: &[(&Captured, &Shown)],
) -> Option<String> {
    if !outputs.iter().any(|(_, shown)| shown.is_cut) {
        return None;
    }
    let path = format!("/tmp/output-{}.txt", uuid::Uuid::new_v4().simple());
    let text: String = outputs
        .iter()
        .map(|(captured, _)| captured.kept())
        .collect();
    // What was shown is the answer; a sandbox without space has no more.
    sandbox.files().write(&path, text).await.ok()?;
    Some(path)
}

/// Shows a result as a notebook does: the picture if there is one, else the best text.
fn show(answer: &mut Answer, result: &ResultLine) {
    let text = |text: &Option<String>| text.as_deref().map(|text| cut(&plain(text), LARGEST_VALUE));
    let mut is_shown = false;
    for (image, mime_type) in [(&result.png, "image/png"), (&result.jpeg, "image/jpeg")] {
        if let Some(image) = image {
            answer.show(image.trim(), mime_type);
            is_shown = true;
        }
    }
    let best = text(&result.markdown)
        .or_else(|| text(&result.text))
        .or_else(|| text(&result.latex))
        .or_else(|| {
            result
                .json
                .as_ref()
                .map(|json| cut(json.get(), LARGEST_VALUE))
        })
        .or_else(|| text(&result.html))
        .or_else(|| text(&result.svg));
    if let Some(best) = best.filter(|_| !is_shown) {
        answer.say(best);
    }
}

/// The representations of results, as far as there is room for them.
fn bundles(results: Vec<ResultLine>) -> Vec<Map<String, Value>> {
    let mut room = LARGEST_DATA;
    let mut bundle = |result: ResultLine| {
        let mut bundle = Map::new();
        for (mime_type, value) in result.into_bundle(LARGEST_DATA) {
            let size = value.as_ref().map(|value| value.to_string().len());
            let is_binary = mime_type == "application/pdf"
                || (mime_type.starts_with("image/") && mime_type != "image/svg+xml");
            let shown = match (value, size) {
                _ if is_binary => Value::String("[in the content]".to_owned()),
                (Some(value), Some(size)) if size <= room => {
                    room -= size;
                    value
                }
                _ => Value::String("[too large: write it to a file]".to_owned()),
            };
            bundle.insert(mime_type, shown);
        }
        bundle
    };
    results.into_iter().map(&mut bundle).collect()
}

/// The error of code that failed without one that could be read.
fn untold(outcome: Outcome) -> RaisedError {
    RaisedError {
        name: "Error".to_owned(),
        value: "the code failed, and its error was too large".to_owned(),
        traceback: String::new(),
        kind: Some(outcome),
        exit_status: None,
    }
}

fn told(error: &RaisedError) -> String {
    let traceback = plain(&error.traceback);
    let text = if traceback.trim().is_empty() {
        format!("{}: {}", error.name, error.value)
    } else {
        traceback
    };
    cut(text.trim_end(), LARGEST_VALUE)
}

fn raised(error: RaisedError) -> RaisedOutput {
    let kind = error.kind.and_then(|kind| serde_json::to_value(kind).ok());
    RaisedOutput {
        name: error.name,
        value: cut(&plain(&error.value), LARGEST_VALUE),
        traceback: cut(&plain(&error.traceback), LARGEST_VALUE),
        kind: kind.and_then(|kind| kind.as_str().map(str::to_owned)),
    }
}

fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{}\n[…]", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(size: usize) -> AnswerLine {
        AnswerLine::Result(Box::new(ResultLine {
            text: Some("x".repeat(size)),
            ..ResultLine::default()
        }))
    }

    #[test]
    fn results_are_kept_up_to_a_size() {
        let mut ran = Ran::default();
        ran.take(result(LARGEST_RESULTS - 1));
        ran.take(result(2));
        ran.take(result(1));
        assert_eq!((ran.results.len(), ran.more_results), (2, 1));
    }

    #[test]
    fn code_that_failed_is_no_success_even_if_its_error_was_too_large() {
        let receipt = |outcome| AnswerLine::Receipt {
            outcome,
            usage: Usage::default(),
        };
        let mut ran = Ran::default();
        ran.take(AnswerLine::TooLarge { bytes: 7 });
        ran.take(receipt(Outcome::Ok));
        assert_eq!(ran.error, None);
        assert!(ran.stderr.shown().text.contains("7 bytes"));
        ran.take(receipt(Outcome::Runtime));
        assert_eq!(ran.error, Some(untold(Outcome::Runtime)));
    }
}
