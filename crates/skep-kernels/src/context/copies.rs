//! Copies of a context's kernel: forks, which become contexts, and checkpoints, which stand still.
//!
//! A checkpoint is a copy that is never let go on. To go back to it a copy of the copy takes the
//! kernel's place, so that it can be gone back to again.

use std::collections::BTreeMap;
use std::time::SystemTime;

use futures_util::FutureExt;
use skep_jupyter::frame::Request;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::owner::{EXIT_TIMEOUT, Owner, Running, ended};
use crate::checkpoints::{
    CheckpointInfo, CheckpointPermit, CopyError, MAX_OF_CONTEXT, MAX_OF_SANDBOX,
};
use crate::contexts::ContextError;
use crate::execution::Loss;
use crate::kernel::{Event, Exit, ForkError, Kernel};

/// Messages of a copy that stands still, above which it does not.
const MOST_WORDS: usize = 64;

/// Longest reason of a kernel that is told, in characters: its code may have written it.
const LONGEST_REASON: usize = 500;

type Reply<T> = oneshot::Sender<Result<T, CopyError>>;

/// Requests to the owner about copies of its kernel.
pub(super) enum CopyRequest {
    /// Give a copy of the kernel away.
    Fork(Reply<Running>),
    /// Make a checkpoint.
    Checkpoint(Reply<CheckpointInfo>),
    /// Go back to a checkpoint.
    Rollback(String, Reply<()>),
    /// List all checkpoints.
    List(oneshot::Sender<Vec<CheckpointInfo>>),
    /// Remove a checkpoint.
    Remove(String, Reply<()>),
}

/// The checkpoints of a context.
#[derive(Default)]
pub(super) struct Checkpoints {
    /// In the order of their creation.
    all: Vec<Checkpoint>,
    made: u64,
    /// The one that the present state descends from.
    current: Option<String>,
}

struct Checkpoint {
    id: String,
    parent: Option<String>,
    created: SystemTime,
    kernel: Box<dyn Kernel>,
    /// The sandbox's variables that it has.
    environment: BTreeMap<String, String>,
    has_state: bool,
    lost: Option<Exit>,
    _place: CheckpointPermit,
}

impl CopyRequest {
    /// Answers while the kernel runs code: what needs the kernel is refused.
    pub(super) fn while_busy(self, checkpoints: &mut Checkpoints) {
        match self {
            Self::Fork(told) => tell(told, Err(CopyError::Busy)),
            Self::Checkpoint(told) => tell(told, Err(CopyError::Busy)),
            Self::Rollback(_, told) => tell(told, Err(CopyError::Busy)),
            Self::List(told) => {
                if told.send(checkpoints.list()).is_err() {
                    tracing::debug!("nobody waits for the checkpoints any more");
                }
            }
            Self::Remove(id, told) => tell(told, checkpoints.remove(&id)),
        }
    }
}

impl Owner {
    /// Answers between executions.
    pub(super) async fn copy(&mut self, request: CopyRequest) {
        match request {
            CopyRequest::Fork(told) => {
                let copy = self.fork().await;
                tell(told, copy);
            }
            CopyRequest::Checkpoint(told) => {
                let made = self.checkpoint().await;
                tell(told, made);
            }
            CopyRequest::Rollback(id, told) => {
                let done = self.roll_back(&id).await;
                tell(told, done);
            }
            request @ (CopyRequest::List(_) | CopyRequest::Remove(..)) => {
                request.while_busy(&mut self.checkpoints);
            }
        }
    }

    /// Returns a copy of the kernel that goes on in another context.
    async fn fork(&mut self) -> Result<Running, CopyError> {
        let mut copy = self.copy_kernel().await?;
        copy.kernel.send(&Request::Continue {
            id: "continue",
            another: true,
        });
        Ok(copy)
    }

    async fn checkpoint(&mut self) -> Result<CheckpointInfo, CopyError> {
        if self.checkpoints.all.len() >= MAX_OF_CONTEXT {
            return Err(CopyError::TooMany {
                limit: MAX_OF_CONTEXT,
                place: "of this context",
            });
        }
        let place = self.places.take().ok_or(CopyError::TooMany {
            limit: MAX_OF_SANDBOX,
            place: "in this sandbox",
        })?;
        let copy = self.copy_kernel().await?;
        Ok(self.checkpoints.add(copy, place))
    }

    async fn roll_back(&mut self, id: &str) -> Result<(), CopyError> {
        let checkpoint = self.checkpoints.find(id)?;
        let copied = checkpoint.kernel.fork().await;
        let mut kernel = match copied {
            Ok(kernel) => kernel,
            Err(ForkError::Ended(exit)) => {
                checkpoint.lost = Some(exit);
                let id = id.to_owned();
                return Err(CopyError::Lost { id, exit });
            }
            Err(error) => return Err(self.refusal(error)),
        };
        kernel.send(&Request::Continue {
            id: "continue",
            another: false,
        });
        let running = Running::new(kernel, checkpoint.environment.clone(), checkpoint.has_state);
        self.checkpoints.current = Some(id.to_owned());
        // The former kernel ends here, and what was lost before it is back.
        self.kernel = Some(running);
        self.lost = None;
        self.history.rolled_back(id);
        Ok(())
    }

    async fn copy_kernel(&mut self) -> Result<Running, CopyError> {
        self.ensure_kernel().await.map_err(ContextError::Start)?;
        let running = self.kernel.as_mut().expect("it was just ensured");
        match running.kernel.fork().await {
            Ok(kernel) => Ok(Running::new(
                kernel,
                running.environment.clone(),
                running.has_state,
            )),
            Err(ForkError::Ended(exit)) => {
                self.lose(Loss::Died(exit));
                Err(CopyError::Ended)
            }
            Err(error) => Err(self.refusal(error)),
        }
    }

    /// Translates the error of a kernel, in words without secrets.
    fn refusal(&mut self, error: ForkError) -> CopyError {
        match error {
            ForkError::Unsupported => CopyError::Unsupported {
                language: self.language.clone(),
            },
            ForkError::Refused { reason } => {
                let reason = match self.patterns() {
                    Some(patterns) => patterns.mask(&reason),
                    None => reason,
                };
                let reason = reason.chars().take(LONGEST_REASON).collect();
                CopyError::Refused { reason }
            }
            ForkError::Silent { .. } => CopyError::Silent,
            ForkError::Ended(_) => CopyError::Ended,
            error @ ForkError::Impostor => CopyError::Process(std::io::Error::other(error)),
            ForkError::Process(error) => CopyError::Process(error),
        }
    }
}

impl Checkpoints {
    fn add(&mut self, copy: Running, place: CheckpointPermit) -> CheckpointInfo {
        self.made += 1;
        let id = self.made.to_string();
        let parent = self.current.replace(id.clone());
        self.all.push(Checkpoint {
            id,
            parent,
            created: SystemTime::now(),
            kernel: copy.kernel,
            environment: copy.environment,
            has_state: copy.has_state,
            lost: None,
            _place: place,
        });
        self.list().pop().expect("one was just added")
    }

    fn list(&mut self) -> Vec<CheckpointInfo> {
        let current = self.current.as_deref();
        let info = |checkpoint: &mut Checkpoint| CheckpointInfo {
            lost: checkpoint.look(),
            id: checkpoint.id.clone(),
            parent: checkpoint.parent.clone(),
            created: checkpoint.created,
            is_current: current == Some(&checkpoint.id),
        };
        self.all.iter_mut().map(info).collect()
    }

    /// A checkpoint that is there and lives.
    fn find(&mut self, id: &str) -> Result<&mut Checkpoint, CopyError> {
        let found = self.all.iter_mut().find(|checkpoint| checkpoint.id == id);
        let checkpoint = found.ok_or_else(|| CopyError::NotFound { id: id.to_owned() })?;
        match checkpoint.look() {
            None => Ok(checkpoint),
            Some(exit) => Err(CopyError::Lost {
                id: id.to_owned(),
                exit,
            }),
        }
    }

    /// Removes a checkpoint. What descends from it then descends from its parent.
    fn remove(&mut self, id: &str) -> Result<(), CopyError> {
        let place = self
            .all
            .iter()
            .position(|checkpoint| checkpoint.id == id)
            .ok_or_else(|| CopyError::NotFound { id: id.to_owned() })?;
        let removed = self.all.remove(place);
        let children = self.all.iter_mut().map(|checkpoint| &mut checkpoint.parent);
        for parent in children.chain([&mut self.current]) {
            if parent.as_deref() == Some(id) {
                parent.clone_from(&removed.parent);
            }
        }
        Ok(())
    }

    /// The present state descends from none of them: the kernel is a new one.
    pub(super) fn leave(&mut self) {
        self.current = None;
    }

    /// Ends all of them.
    pub(super) async fn end(&mut self) {
        for checkpoint in &mut self.all {
            checkpoint.kernel.kill();
        }
        for checkpoint in &mut self.all {
            drop(timeout(EXIT_TIMEOUT, ended(&mut checkpoint.kernel)).await);
        }
    }
}

impl Checkpoint {
    /// Looks whether its process has ended. A copy that stands still says nothing but late answers
    /// to forks: one that talks is user code in its place, and would hold whoever listens for ever.
    fn look(&mut self) -> Option<Exit> {
        if self.lost.is_some() {
            return self.lost;
        }
        for _ in 0..MOST_WORDS {
            match self.kernel.receive().now_or_never() {
                Some(Event::Ended(exit)) => {
                    self.lost = Some(exit);
                    return self.lost;
                }
                Some(Event::Message(_)) => {}
                None => return None,
            }
        }
        self.kernel.kill();
        self.lost = Some(Exit::Confused);
        self.lost
    }
}

fn tell<T>(told: Reply<T>, outcome: Result<T, CopyError>) {
    if told.send(outcome).is_err() {
        tracing::debug!("nobody waits for the copy any more");
    }
}
