//! A context: a kernel under a name, and the executions that wait for it.

mod ask;
mod copies;
mod input;
mod masks;
mod owner;
mod run;
mod running;
mod sink;

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use skep_jupyter::{Answer, Question};
use skep_types::Secrets;
use tokio::sync::{mpsc, oneshot};

use crate::checkpoints::{CheckpointInfo, CopyError};
use crate::contexts::{ContextError, ContextInfo, SandboxSettings, Shared};
use crate::execution::{ExecuteRequest, Execution, UPDATES, Update};
use crate::history::{HistoryView, SharedHistory};
use crate::kernel::StartError;
use crate::registry::{ExecutionRegistry, Registration};
pub use ask::AskError;
use copies::CopyRequest;
use input::Input;
pub use input::InputError;
use owner::{Owner, OwnerParts, Running};

/// Executions that may wait in one context. The caller of one more is told to come back.
const MAX_WAITING: usize = 1024;

/// Requests to the owner beside executions. Whoever sends one waits for its answer.
const MAX_CONTROLS: usize = 16;

/// The handle of a context. The owner task ends when the last handle is gone.
#[derive(Clone)]
pub(crate) struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    info: ContextInfo,
    jobs: mpsc::Sender<Job>,
    controls: mpsc::Sender<Control>,
    registry: ExecutionRegistry,
    settings: Arc<dyn SandboxSettings>,
    /// Values to mask in this context, beside the sandbox's own secrets.
    secrets: Arc<Mutex<Secrets>>,
    history: SharedHistory,
}

/// An execution that waits for its turn.
struct Job {
    id: String,
    request: ExecuteRequest,
    updates: mpsc::Sender<Update>,
    queued: Instant,
    registration: Registration,
}

/// Requests to the owner task other than executions.
enum Control {
    /// Say when there is a kernel.
    Ready(oneshot::Sender<Result<(), StartError>>),
    /// Replaces the kernel with a new one.
    Restart(oneshot::Sender<Result<(), StartError>>),
    /// Put a question to the kernel.
    Ask(Question, oneshot::Sender<Result<Answer, AskError>>),
    /// Give code that waits for input a line of it.
    Input(Input, oneshot::Sender<Result<(), InputError>>),
    /// Give an execution whose caller was lost to a new one.
    Attach(String, oneshot::Sender<Option<Execution>>),
    /// Copy the kernel, or go back to a copy of it.
    Copy(CopyRequest),
    /// Ends the kernel and the owner task.
    Close(oneshot::Sender<()>),
}

/// Start policy for the kernel of a new context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstKernel {
    /// Its owner begins to start one at once.
    AtOnce,
    /// The first execution starts it, since many sandboxes never use this context.
    WhenNeeded,
}

impl Context {
    /// Makes a context.
    pub(crate) fn open(
        shared: &Shared,
        language: &str,
        directory: Option<String>,
        first_kernel: FirstKernel,
    ) -> Self {
        let info = ContextInfo {
            id: uuid::Uuid::new_v4().to_string(),
            language: language.to_owned(),
            directory: directory.unwrap_or_else(|| shared.settings.directory()),
        };
        Self::with_kernel(shared, info, Secrets::default(), first_kernel, None)
    }

    fn with_kernel(
        shared: &Shared,
        info: ContextInfo,
        secrets: Secrets,
        first_kernel: FirstKernel,
        kernel: Option<Running>,
    ) -> Self {
        let (jobs, waiting) = mpsc::channel(MAX_WAITING);
        let (controls, requests) = mpsc::channel(MAX_CONTROLS);
        let default = shared.settings.directory();
        let secrets = Arc::new(Mutex::new(secrets));
        let owner = Owner::new(
            shared,
            OwnerParts {
                language: info.language.clone(),
                directory: (info.directory != default).then(|| info.directory.clone()),
                secrets: Arc::clone(&secrets),
                jobs: waiting,
                controls: requests,
                first_kernel,
                kernel,
            },
        );
        let history = owner.history.clone();
        shared.tasks.spawn("context", owner.run());
        Self {
            inner: Arc::new(Inner {
                info,
                jobs,
                controls,
                registry: shared.registry.clone(),
                settings: Arc::clone(&shared.settings),
                secrets,
                history,
            }),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.inner.info.id
    }

    pub(crate) fn language(&self) -> &str {
        &self.inner.info.language
    }

    pub(crate) fn info(&self) -> ContextInfo {
        self.inner.info.clone()
    }

    /// Returns a snapshot of the context's history.
    pub(crate) fn history(&self) -> HistoryView {
        self.inner.history.view(self.language())
    }

    /// Queues an execution.
    pub(crate) fn execute(&self, request: ExecuteRequest) -> Result<Execution, ContextError> {
        self.mark(&request.secrets)?;
        let (updates, receiver) = mpsc::channel(UPDATES);
        let id = uuid::Uuid::new_v4().to_string();
        // Registered before it is queued: an owner that is idle starts it at once.
        let job = Job {
            registration: self.inner.registry.register(&id, self.id()),
            id: id.clone(),
            request,
            updates,
            queued: Instant::now(),
        };
        self.inner.jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ContextError::Full {
                id: self.id().to_owned(),
            },
            mpsc::error::TrySendError::Closed(_) => self.not_found(),
        })?;
        Ok(Execution {
            id,
            updates: receiver,
        })
    }

    /// Values that must not be shown from now on.
    pub(crate) fn mark(&self, secrets: &Secrets) -> Result<(), ContextError> {
        if secrets.is_empty() {
            return Ok(());
        }
        let mut known = self.inner.secrets.lock();
        let more = known.and(secrets).map_err(ContextError::Secrets)?;
        let sandbox = self.inner.settings.secrets();
        more.and(&sandbox).map_err(ContextError::Secrets)?;
        *known = more;
        Ok(())
    }

    /// An execution whose caller was lost.
    pub(crate) async fn attach(&self, id: &str) -> Option<Execution> {
        let id = id.to_owned();
        self.ask(|answer| Control::Attach(id, answer)).await.ok()?
    }

    /// Puts a question to the kernel.
    pub(crate) async fn ask_kernel(&self, question: Question) -> Result<Answer, AskError> {
        self.ask(|answer| Control::Ask(question, answer)).await?
    }

    /// Answers an execution that asks for input.
    pub(crate) async fn input(
        &self,
        execution: &str,
        value: Option<String>,
    ) -> Result<(), InputError> {
        let input = Input {
            execution: execution.to_owned(),
            value,
        };
        let asked = self.ask(|answer| Control::Input(input, answer)).await;
        asked.unwrap_or_else(|_closed| {
            Err(InputError::NotFound {
                id: execution.to_owned(),
            })
        })
    }

    /// Makes a context whose kernel is a copy of this one's.
    pub(crate) async fn fork(&self, shared: &Shared) -> Result<Self, CopyError> {
        let kernel = self.copy(CopyRequest::Fork).await?;
        let info = ContextInfo {
            id: uuid::Uuid::new_v4().to_string(),
            ..self.info()
        };
        // What this one must not show is in the memory of the copy as well.
        let secrets = self.inner.secrets.lock().clone();
        let first_kernel = FirstKernel::AtOnce;
        let fork = Self::with_kernel(shared, info, secrets, first_kernel, Some(kernel));
        fork.inner.history.forked(self.id());
        Ok(fork)
    }

    /// Makes a checkpoint.
    pub(crate) async fn checkpoint(&self) -> Result<CheckpointInfo, CopyError> {
        self.copy(CopyRequest::Checkpoint).await
    }

    /// Goes back to a checkpoint.
    pub(crate) async fn roll_back(&self, id: String) -> Result<(), CopyError> {
        self.copy(|told| CopyRequest::Rollback(id, told)).await
    }

    /// Returns all checkpoints.
    pub(crate) async fn checkpoints(&self) -> Result<Vec<CheckpointInfo>, ContextError> {
        self.ask(|told| Control::Copy(CopyRequest::List(told)))
            .await
    }

    /// Removes a checkpoint.
    pub(crate) async fn remove_checkpoint(&self, id: String) -> Result<(), CopyError> {
        self.copy(|told| CopyRequest::Remove(id, told)).await
    }

    async fn copy<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, CopyError>>) -> CopyRequest,
    ) -> Result<T, CopyError> {
        self.ask(|told| Control::Copy(request(told))).await?
    }

    /// Waits until there is a kernel.
    pub(crate) async fn ready(&self) -> Result<(), ContextError> {
        self.ask(Control::Ready).await?.map_err(ContextError::Start)
    }

    /// Starts the kernel anew.
    pub(crate) async fn restart(&self) -> Result<(), ContextError> {
        self.ask(Control::Restart)
            .await?
            .map_err(ContextError::Start)
    }

    /// Ends the kernel. A context that is closed already stays so.
    pub(crate) async fn close(&self) {
        if self.ask(Control::Close).await.is_err() {
            tracing::debug!("context was closed already");
        }
    }

    async fn ask<T>(
        &self,
        control: impl FnOnce(oneshot::Sender<T>) -> Control,
    ) -> Result<T, ContextError> {
        let (sender, answer) = oneshot::channel();
        let sent = self.inner.controls.send(control(sender)).await;
        if sent.is_err() {
            return Err(self.not_found());
        }
        answer.await.map_err(|_closed| self.not_found())
    }

    fn not_found(&self) -> ContextError {
        ContextError::NotFound {
            id: self.id().to_owned(),
        }
    }
}
