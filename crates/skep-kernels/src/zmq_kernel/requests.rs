//! The queue of requests to a kernel, of which one at a time is under way.
//!
//! The next request is sent when the last one has ended: some kernels throw away what waits
//! behind a request that fails, and our own requests must not be lost with it. A request ends
//! when its reply and the end of its output have come, on two sockets, in any order.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use skep_jupyter::{Envelope, Message, Nature, Reply};
use tokio::time::Instant;

/// Time limit for the reply to a request after the end of its output, and for the end of the output
/// after the reply of a request that the kernel threw away.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of attempts at a request that must succeed: an interrupt that comes late may end it
/// half-way.
const MOST_TRIES: u32 = 3;

/// A request that has not ended.
#[derive(Debug)]
pub(super) struct Asked {
    id: String,
    frames: Vec<Bytes>,
    purpose: Purpose,
    tries: u32,
}

impl Asked {
    pub(super) fn new(id: String, frames: Vec<Bytes>, purpose: Purpose) -> Self {
        Self {
            id,
            frames,
            purpose,
            tries: 0,
        }
    }
}

/// Role of a request, which decides what its failure means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The user's code.
    Cell,
    /// A question about code; its answer is told.
    Question,
    /// Preparation for the user's code behind it: if it fails, that code is not run.
    Before,
    /// Clean-up that must succeed: it is tried again if it fails.
    Must,
    /// Housekeeping whose failure does not matter.
    May,
}

/// All requests of a kernel.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: VecDeque<Asked>,
    current: Option<Current>,
}

/// The request that is with the kernel.
#[derive(Debug)]
struct Current {
    asked: Asked,
    /// The kernel has said something about it.
    is_begun: bool,
    idle: Option<Envelope>,
    reply: Option<Envelope>,
    /// Time after which the missing half, reply or end of output, is not expected any more.
    until: Option<Instant>,
}

impl Current {
    fn new(asked: Asked) -> Self {
        Self {
            asked,
            is_begun: false,
            idle: None,
            reply: None,
            until: None,
        }
    }

    fn failure(&self) -> Option<&Reply> {
        let Message::Reply(reply) = &self.reply.as_ref()?.message else {
            return None;
        };
        (!matches!(reply, Reply::Done { .. })).then_some(reply)
    }
}

impl Requests {
    pub(super) fn push(&mut self, asked: Asked) {
        self.waiting.push_back(asked);
    }

    /// Takes the next request to send, unless one is still under way.
    pub(super) fn next(&mut self) -> Option<&[Bytes]> {
        if self.current.is_some() {
            return None;
        }
        let mut asked = self.waiting.pop_front()?;
        asked.tries += 1;
        let current = self.current.insert(Current::new(asked));
        Some(&current.asked.frames)
    }

    /// Takes what was published. What is not the end of the current request is handed back.
    pub(super) fn published(&mut self, envelope: Envelope, now: Instant) -> Option<Envelope> {
        let Some(current) = self.current_of(&envelope) else {
            return Some(envelope);
        };
        current.is_begun = true;
        current.until = None;
        if envelope.message != Message::Idle {
            return Some(envelope);
        }
        current.idle = Some(envelope);
        current.until = Some(now + REPLY_TIMEOUT);
        None
    }

    /// Takes a reply. Those to older requests say nothing any more.
    pub(super) fn replied(&mut self, reply: Envelope, now: Instant) {
        let Some(current) = self.current_of(&reply) else {
            return;
        };
        // What was thrown away has no output, and some kernels do not say its end.
        let is_thrown_away = reply.message == Message::Reply(Reply::Aborted) && !current.is_begun;
        if is_thrown_away {
            current.until = Some(now + REPLY_TIMEOUT);
        }
        current.reply = Some(reply);
    }

    /// Returns the time at which to call [`Self::give_up`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.current.as_ref()?.until
    }

    /// The end of the current request, if it is complete: what its owner has to hear.
    pub(super) fn end(&mut self) -> Option<Vec<Envelope>> {
        self.end_if(|current| current.idle.is_some() && current.reply.is_some())
    }

    /// The end of the current request with what has come of it, when no more will.
    pub(super) fn give_up(&mut self) -> Option<Vec<Envelope>> {
        self.end_if(|current| current.idle.is_some() || current.reply.is_some())
    }

    fn end_if(&mut self, is_end: impl FnOnce(&Current) -> bool) -> Option<Vec<Envelope>> {
        let current = self.current.take_if(|current| is_end(current))?;
        let Some(failure) = current.failure().cloned() else {
            return Some(told(current));
        };
        Some(match current.asked.purpose {
            Purpose::Cell | Purpose::Question => told(current),
            Purpose::Before => self.skip_cell(&failure),
            Purpose::Must if current.asked.tries < MOST_TRIES => {
                self.waiting.push_front(current.asked);
                Vec::new()
            }
            Purpose::Must | Purpose::May => Vec::new(),
        })
    }

    /// Ends the cell that waits without running it.
    fn skip_cell(&mut self, failure: &Reply) -> Vec<Envelope> {
        let next = self.waiting.pop_front();
        let Some(cell) = next.filter(|asked| asked.purpose == Purpose::Cell) else {
            return Vec::new();
        };
        let error = match failure {
            Reply::Failed { name, value, .. } => Some(Message::Error {
                name: name.clone(),
                value: value.clone(),
                traceback: Vec::new(),
                nature: Nature::Runtime,
            }),
            Reply::Aborted | Reply::Done { .. } => None,
        };
        let end = [Message::Reply(Reply::Aborted), Message::Idle];
        let envelope = |message| Envelope {
            parent: Some(cell.id.clone()),
            time: None,
            message,
        };
        error.into_iter().chain(end).map(envelope).collect()
    }

    fn current_of(&mut self, envelope: &Envelope) -> Option<&mut Current> {
        let current = self.current.as_mut()?;
        (envelope.parent.as_ref() == Some(&current.asked.id)).then_some(current)
    }
}

/// Returns the envelopes with which the end of a request is reported. Our own requests are nobody's
/// business.
fn told(current: Current) -> Vec<Envelope> {
    match current.asked.purpose {
        Purpose::Cell => {}
        Purpose::Question => return vec![answer_of(current)],
        Purpose::Before | Purpose::Must | Purpose::May => return Vec::new(),
    }
    let idle = current.idle.unwrap_or_else(|| Envelope {
        parent: Some(current.asked.id),
        time: None,
        message: Message::Idle,
    });
    current.reply.into_iter().chain([idle]).collect()
}

/// Returns the answer to a question, or that there will be none.
fn answer_of(current: Current) -> Envelope {
    current.reply.unwrap_or_else(|| Envelope {
        parent: Some(current.asked.id),
        time: None,
        message: Message::Reply(Reply::Aborted),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: &str, purpose: Purpose) -> Asked {
        let frames = vec![Bytes::copy_from_slice(id.as_bytes())];
        Asked::new(id.to_owned(), frames, purpose)
    }

    fn said(parent: &str, message: Message) -> Envelope {
        Envelope {
            parent: Some(parent.to_owned()),
            time: None,
            message,
        }
    }

    fn done() -> Message {
        Message::Reply(Reply::Done { exiting: false })
    }

    fn aborted() -> Message {
        Message::Reply(Reply::Aborted)
    }

    /// The id of what is sent now.
    fn sent(requests: &mut Requests) -> Option<String> {
        let frames = requests.next()?;
        Some(String::from_utf8(frames[0].to_vec()).unwrap())
    }

    /// The current request ends with this reply.
    fn answer(requests: &mut Requests, id: &str, reply: Message) -> Option<Vec<Envelope>> {
        let now = Instant::now();
        requests.replied(said(id, reply), now);
        assert_eq!(requests.end(), None, "its output has not ended");
        assert_eq!(requests.published(said(id, Message::Idle), now), None);
        requests.end()
    }

    fn with_variables() -> Requests {
        let mut requests = Requests::default();
        requests.push(asked("set", Purpose::Before));
        requests.push(asked("cell", Purpose::Cell));
        requests.push(asked("restore", Purpose::Must));
        assert_eq!(sent(&mut requests).as_deref(), Some("set"));
        requests
    }

    #[tokio::test]
    async fn one_request_follows_the_other_and_only_cells_are_told() {
        let mut requests = with_variables();
        assert_eq!(sent(&mut requests), None, "one at a time");
        assert_eq!(answer(&mut requests, "set", done()), Some(Vec::new()));
        assert_eq!(sent(&mut requests).as_deref(), Some("cell"));
        let text = said("cell", Message::Unused);
        let passed = requests.published(text.clone(), Instant::now());
        assert_eq!(passed, Some(text));
        let end = vec![said("cell", done()), said("cell", Message::Idle)];
        assert_eq!(answer(&mut requests, "cell", done()), Some(end));
        assert_eq!(sent(&mut requests).as_deref(), Some("restore"));
    }

    #[tokio::test]
    async fn a_question_is_told_its_answer_or_that_there_is_none() {
        let info = Message::Answer(skep_jupyter::Answer::Inspection(None));
        let mut requests = Requests::default();
        requests.push(asked("q1", Purpose::Question));
        requests.push(asked("q2", Purpose::Question));
        requests.next();
        let told = answer(&mut requests, "q1", info.clone());
        assert_eq!(told, Some(vec![said("q1", info)]));
        requests.next();
        let now = Instant::now();
        requests.published(said("q2", Message::Idle), now);
        assert_eq!(requests.deadline(), Some(now + REPLY_TIMEOUT));
        assert_eq!(requests.give_up(), Some(vec![said("q2", aborted())]));
    }

    #[tokio::test]
    async fn a_cell_without_its_variables_is_not_run() {
        let mut requests = with_variables();
        let told = answer(&mut requests, "set", aborted());
        let end = vec![said("cell", aborted()), said("cell", Message::Idle)];
        assert_eq!(told, Some(end));
        assert_eq!(sent(&mut requests).as_deref(), Some("restore"));

        let mut requests = with_variables();
        let failed = Message::Reply(Reply::Failed {
            name: "OSError".to_owned(),
            value: "illegal".to_owned(),
            exiting: false,
        });
        let told = answer(&mut requests, "set", failed).unwrap();
        assert!(matches!(&told[0].message, Message::Error { name, .. } if name == "OSError"));
        assert_eq!(told.len(), 3);
    }

    #[tokio::test]
    async fn what_must_be_done_is_asked_for_again_and_not_for_ever() {
        let mut requests = Requests::default();
        requests.push(asked("restore", Purpose::Must));
        requests.push(asked("cell", Purpose::Cell));
        assert_eq!(sent(&mut requests).as_deref(), Some("restore"));
        for _ in 1..MOST_TRIES {
            assert_eq!(
                answer(&mut requests, "restore", aborted()),
                Some(Vec::new())
            );
            assert_eq!(sent(&mut requests).as_deref(), Some("restore"));
        }
        assert_eq!(
            answer(&mut requests, "restore", aborted()),
            Some(Vec::new())
        );
        assert_eq!(sent(&mut requests).as_deref(), Some("cell"));
    }

    #[tokio::test]
    async fn interrupted_code_ends_with_its_output_and_not_before() {
        let mut requests = Requests::default();
        requests.push(asked("cell", Purpose::Cell));
        requests.next();
        let now = Instant::now();
        requests.published(said("cell", Message::Busy), now);
        requests.replied(said("cell", aborted()), now);
        assert_eq!(requests.deadline(), None);
        assert_eq!(requests.end(), None);
        // One that was thrown away is never begun, and its end is not waited for long.
        let mut requests = Requests::default();
        requests.push(asked("cell", Purpose::Cell));
        requests.next();
        requests.replied(said("cell", aborted()), now);
        assert_eq!(requests.deadline(), Some(now + REPLY_TIMEOUT));
        let end = vec![said("cell", aborted()), said("cell", Message::Idle)];
        assert_eq!(requests.give_up(), Some(end));
    }

    #[tokio::test]
    async fn what_is_said_of_other_requests_ends_nothing() {
        let mut requests = Requests::default();
        requests.push(asked("cell", Purpose::Cell));
        requests.next();
        let now = Instant::now();
        requests.replied(said("older", done()), now);
        let idle = said("older", Message::Idle);
        assert_eq!(requests.published(idle.clone(), now), Some(idle));
        assert_eq!(requests.deadline(), None);
        assert_eq!(requests.give_up(), None);
    }
}
