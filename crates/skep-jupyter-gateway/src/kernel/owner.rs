//! The task that owns a kernel: one request after another.

use std::collections::VecDeque;
use std::sync::Arc;

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

/// Answers requests until the kernel ends.
pub(super) async fn own(kernel: Arc<Kernel>, mut asked: mpsc::Receiver<Asked>) {
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
        let content = &asked.request.content;
        let sandbox = self.sandbox.through(&asked.from.api);
        Some(match asked.request.kind.as_str() {
            "kernel_info_request" => self.info(&sandbox).await,
            "complete_request" => self.complete(&sandbox, content).await,
            "inspect_request" => self.inspect(&sandbox, content).await,
            "is_complete_request" => self.is_complete(&sandbox, content).await,
            // Neither is kept: no kernel of ours has widgets, and front ends have a history.
            "history_request" => ok(json!({"history": []})),
            "comm_info_request" => ok(json!({"comms": {}})),
            "comm_open" => {
                // Its opener would wait for the other side otherwise.
                let closed = json!({"comm_id": content["comm_id"], "data": {}});
                self.publish("comm_close", &asked.request.header, closed)
                    .await;
                return None;
            }
            kind => {
                asked.request.reply_kind()?;
                let message = format!("kernels of this gateway do not answer `{kind}`");
                failed("NotSupported", &message)
            }
        })
    }
}
