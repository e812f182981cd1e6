//! The task that owns a kernel: one request after another.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Asked, Kernel};
use crate::activity::State;
use crate::message::{failed, ok};

/// Fate of the requests that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// They are answered.
    GoOn,
    /// Code among them is not run: code before it has failed.
    Abort,
    /// Nobody answers them: the kernel has ended.
    End,
}

/// Content of a `comm_open`.
#[derive(Default, Deserialize)]
struct Opened {
    comm_id: Option<String>,
}

/// Ends a kernel whose requests nobody answers any more, even if a panic was the reason.
struct EndOnDrop<'a>(&'a Kernel);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.ended.cancel();
    }
}

/// Answers requests until the kernel ends.
pub(super) async fn own(kernel: Arc<Kernel>, mut asked: mpsc::Receiver<Asked>) {
    let _guard = EndOnDrop(&kernel);
    let answering = async {
        let mut aborting = VecDeque::new();
        loop {
            let next = match aborting.pop_front() {
                Some(request) => Some((request, Next::Abort)),
                None => asked.recv().await.map(|request| (request, Next::GoOn)),
            };
            let Some((request, fate)) = next else {
                return;
            };
            match kernel.answer(request, fate).await {
                Next::GoOn => {}
                // What is asked from now on is asked by somebody who can know.
                Next::Abort => {
                    while let Ok(waiting) = asked.try_recv() {
                        aborting.push_back(waiting);
                    }
                }
                Next::End => return kernel.end().await,
            }
        }
    };
    tokio::select! {
        () = kernel.ended() => {}
        () = answering => {}
    }
}

impl Kernel {
    async fn answer(&self, asked: Asked, fate: Next) -> Next {
        let parent = &asked.request.header;
        *self.last_user.lock() = asked.from.api.clone();
        self.set_state(State::Busy);
        self.publish_state(parent, State::Busy).await;
        let is_late = asked.restarts != *self.restarts.borrow();
        let (content, next) = if asked.request.kind == "execute_request" {
            if is_late || fate == Next::Abort {
                (Some(json!({"status": "aborted"})), Next::GoOn)
            } else {
                let (content, next) = self.execute(&asked).await;
                (Some(content), next)
            }
        } else {
            (self.answer_question(&asked).await, Next::GoOn)
        };
        if let Some(content) = content {
            self.reply(&asked.from, &asked.request, content).await;
        }
        self.set_state(State::Idle);
        self.publish_state(parent, State::Idle).await;
        next
    }

    /// Answers a request that runs no code; `None` if it wants no reply.
    async fn answer_question(&self, asked: &Asked) -> Option<Value> {
        let request = &asked.request;
        let sandbox = self.sandbox.through(&asked.from.api);
        Some(match asked.request.kind.as_str() {
            "kernel_info_request" => self.info(&sandbox).await,
            "complete_request" => self.complete(&sandbox, request).await,
            "inspect_request" => self.inspect(&sandbox, request).await,
            "is_complete_request" => self.is_complete(&sandbox, request).await,
            // Neither is kept: no kernel of ours has widgets, and front ends have a history.
            "history_request" => ok(json!({"history": []})),
            "comm_info_request" => ok(json!({"comms": {}})),
            "comm_open" => {
                // Its opener would wait for the other side otherwise.
                let opened: Opened = request.read().unwrap_or_default();
                let closed = json!({"comm_id": opened.comm_id, "data": {}});
                self.publish("comm_close", &request.header, &closed).await;
                return None;
            }
            kind => {
                request.reply_kind()?;
                let message = format!("kernels of this gateway do not answer `{kind}`");
                failed("NotSupported", &message)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    #[tokio::test]
    async fn a_kernel_ends_with_the_task_that_answers() {
        let kernel = Kernel::at("http://127.0.0.1:1");
        let (_sender, asked) = mpsc::channel(1);
        {
            let mut owning = pin!(own(Arc::clone(&kernel), asked));
            let mut context = std::task::Context::from_waker(Waker::noop());
            assert!(owning.as_mut().poll(&mut context).is_pending());
            assert!(!kernel.has_ended());
        }
        assert!(kernel.has_ended(), "dropped, as by a panic");
    }
}
