//! Questions about code: what may follow it, what a name in it is, whether it is whole.
//!
//! Code of the user's may run to answer one (a property, `__dir__`), so a question has a deadline,
//! and what it says of secrets is masked like output.

use std::sync::Arc;
use std::time::Duration;

use skep_jupyter::{Answer, Bundle, Envelope, JsonText, Message, Question, Reply};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::Control;
use super::input::{self, InputError};
use super::owner::{Owner, recorded};
use crate::contexts::ContextError;
use crate::execution::Loss;
use crate::kernel::{Event, Exit};
use crate::secrets::Patterns;

/// Time limit for an answer; then the kernel is interrupted. A person waits for it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for an interrupted kernel to answer; then it is ended.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(4);

/// Reasons for which a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is no such context, or it has no kernel.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// It runs code, and is not asked before that has ended.
    #[error("the kernel runs code; ask again when that has ended")]
    Busy,
    /// The kernel refused the question, or code of the user's failed that ran to answer it.
    #[error("{name}: {value}")]
    Refused {
        /// Class of the error, in the language of the kernel.
        name: String,
        /// Text of the error.
        value: String,
    },
    /// There was no answer in time.
    #[error("the kernel did not answer in time")]
    Silent,
    /// The kernel ended, or was restarted, before it answered.
    #[error("the kernel ended before it answered")]
    Ended,
}

/// Course of a question that the kernel has.
enum Asked {
    Answered(Result<Answer, AskError>),
    Died(Exit),
    /// It does not answer, and does not hear an interrupt either.
    Stuck,
    /// Another request comes first.
    Overtaken,
}

pub(super) fn refuse(answer: oneshot::Sender<Result<Answer, AskError>>, error: AskError) {
    if answer.send(Err(error)).is_err() {
        tracing::debug!("nobody waits for the answer any more");
    }
}

impl Owner {
    /// Puts a question to the kernel, and tells its answer.
    pub(super) async fn answer(
        &mut self,
        question: &Question,
        mut answer: oneshot::Sender<Result<Answer, AskError>>,
    ) {
        if let Err(error) = self.ensure_kernel().await {
            return refuse(answer, ContextError::Start(error).into());
        }
        let patterns = self.patterns();
        self.requests += 1;
        let id = format!("q{}", self.requests);
        let running = self.kernel.as_mut().expect("it was just ensured");
        running.kernel.ask(&id, question);
        let told = match self.hear_answer(&id, &mut answer).await {
            Asked::Answered(told) => told
                .map(|told| masked(told, patterns.as_ref()))
                .map_err(|error| masked_error(error, patterns.as_ref())),
            Asked::Died(exit) => {
                self.lose(Loss::Died(exit));
                Err(AskError::Ended)
            }
            Asked::Stuck => {
                self.lose(Loss::Stuck);
                Err(AskError::Silent)
            }
            Asked::Overtaken => Err(AskError::Ended),
        };
        if answer.send(told).is_err() {
            tracing::debug!("nobody waits for the answer any more");
        }
    }

    /// Listens to the kernel until it has answered. A caller that has left is as good as a deadline
    /// that has passed: the kernel must be free for the next.
    async fn hear_answer(
        &mut self,
        id: &str,
        answer: &mut oneshot::Sender<Result<Answer, AskError>>,
    ) -> Asked {
        let running = self.kernel.as_mut().expect("a question has a kernel");
        let mut deadline = Instant::now() + ANSWER_TIMEOUT;
        let (mut is_interrupted, mut has_left) = (false, false);
        loop {
            tokio::select! {
                biased;
                control = self.controls.recv() => match control {
                    Some(Control::Ready(waiting)) => {
                        if waiting.send(Ok(())).is_err() {
                            tracing::debug!("nobody waits for the kernel any more");
                        }
                    }
                    Some(Control::Ask(_, other)) => refuse(other, AskError::Busy),
                    Some(Control::Copy(request)) => request.while_busy(&mut self.checkpoints),
                    Some(Control::Input(_, other)) => input::tell(other, Err(InputError::NotAsked)),
                    Some(Control::Attach(id, waiting)) => {
                        if waiting.send(recorded(&mut self.records, &id)).is_err() {
                            tracing::debug!("nobody waits for the record any more");
                        }
                    }
                    Some(control @ (Control::Restart(_) | Control::Close(_))) => {
                        self.postponed.push_back(control);
                        return Asked::Overtaken;
                    }
                    None => return Asked::Overtaken,
                },
                // Before what the kernel says: one that never stops would never be late.
                () = answer.closed(), if !has_left => {
                    has_left = true;
                    deadline = deadline.min(Instant::now());
                }
                () = sleep_until(deadline) => {
                    if is_interrupted || running.kernel.interrupt().is_err() {
                        return Asked::Stuck;
                    }
                    is_interrupted = true;
                    deadline = Instant::now() + INTERRUPT_TIMEOUT;
                }
                event = running.kernel.receive() => match event {
                    Event::Message(envelope) => {
                        if let Some(told) = told(id, envelope) {
                            let told = if is_interrupted { Err(AskError::Silent) } else { told };
                            return Asked::Answered(told);
                        }
                    }
                    Event::Ended(exit) => return Asked::Died(exit),
                },
            }
        }
    }
}

/// The answer to the question of this id, if this is it. What is printed meanwhile belongs to
/// nobody.
fn told(id: &str, envelope: Envelope) -> Option<Result<Answer, AskError>> {
    if envelope.parent.as_deref() != Some(id) {
        return None;
    }
    match envelope.message {
        Message::Answer(answer) => Some(Ok(answer)),
        Message::Reply(Reply::Failed { name, value, .. }) => {
            Some(Err(AskError::Refused { name, value }))
        }
        Message::Reply(Reply::Done { .. } | Reply::Aborted) => Some(Err(AskError::Silent)),
        Message::Hello { .. }
        | Message::Busy
        | Message::Idle
        | Message::Restarting
        | Message::Input { .. }
        | Message::InputRequest(_)
        | Message::Text { .. }
        | Message::Display(_)
        | Message::Update(_)
        | Message::Clear { .. }
        | Message::Value(_)
        | Message::Error { .. }
        | Message::Unused
        | Message::TooLarge { .. } => None,
    }
}

/// The same refusal without secrets: code of the user's may have failed with one in its words.
fn masked_error(error: AskError, patterns: Option<&Arc<Patterns>>) -> AskError {
    match (error, patterns) {
        (AskError::Refused { name, value }, Some(patterns)) => AskError::Refused {
            name: patterns.mask(&name),
            value: patterns.mask(&value),
        },
        (error, _) => error,
    }
}

/// The same answer without secrets. A kernel may complete the keys of a dictionary, and shows the
/// value of a name.
fn masked(answer: Answer, patterns: Option<&Arc<Patterns>>) -> Answer {
    let Some(patterns) = patterns else {
        return answer;
    };
    match answer {
        Answer::Completions {
            matches,
            start,
            end,
        } => Answer::Completions {
            matches: matches.iter().map(|text| patterns.mask(text)).collect(),
            start,
            end,
        },
        Answer::Inspection(Some(bundle)) => {
            let entry = |(mime, value): &(String, JsonText)| {
                (patterns.mask(mime), patterns.mask_json(value))
            };
            let entries: Vec<_> = bundle.entries.iter().map(entry).collect();
            Answer::Inspection(Some(Bundle::from(entries)))
        }
        answer @ (Answer::Inspection(None) | Answer::Completeness { .. } | Answer::Info(_)) => {
            answer
        }
    }
}
