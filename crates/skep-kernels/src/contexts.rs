//! The contexts of one sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use skep_jupyter::{Answer, Question};
use skep_telemetry::Tasks;
use skep_types::{Secrets, SecretsError};

use crate::checkpoints::{CheckpointInfo, CheckpointPermits, CopyError};
use crate::context::{AskError, Context, FirstKernel, InputError};
use crate::execution::{ExecuteRequest, Execution};
use crate::history::{Budget, HistoryView};
use crate::kernel::{Launcher, StartError};
use crate::registry::{ExecutionInfo, ExecutionRegistry};

/// Settings of the sandbox that contexts read anew each time, because they can change (on a resume,
/// for example).
pub trait SandboxSettings: Send + Sync + 'static {
    /// The variables of the whole sandbox, as of now.
    fn environment(&self) -> BTreeMap<String, String>;

    /// Working directory of a context whose caller named none.
    fn directory(&self) -> String;

    /// Values to mask in the output of every context.
    fn secrets(&self) -> Secrets;
}

/// A context, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextInfo {
    /// Unique id of the context.
    pub id: String,
    /// The language of its kernel.
    pub language: String,
    /// Initial working directory, as the caller wrote it.
    pub directory: String,
}

/// Errors of looking up, creating or using a context.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// There is no such context, or not any more.
    #[error("context {id} not found")]
    NotFound {
        /// Id that the caller asked for.
        id: String,
    },
    /// Its kernel could not be started.
    #[error("cannot start a kernel")]
    Start(#[source] StartError),
    /// Too many executions wait for it already.
    #[error("too many executions wait for context {id}")]
    Full {
        /// Id of the context whose queue is full.
        id: String,
    },
    /// There are too many secrets already.
    #[error("the secrets are not accepted")]
    Secrets(#[source] SecretsError),
    /// There are too many contexts already.
    #[error("there are {limit} contexts already")]
    TooMany {
        /// Largest number of contexts a sandbox may have.
        limit: usize,
    },
}

/// Working directory of code in a sandbox that has no user with a home.
pub const FALLBACK_DIRECTORY: &str = "/home/user";

/// Largest number of contexts, which is more than a sandbox has processes for.
const MAX_CONTEXTS: usize = 256;

/// The contexts of one sandbox, and the default one of each language.
#[derive(Clone)]
pub struct Contexts {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) settings: Arc<dyn SandboxSettings>,
    pub(crate) tasks: Tasks,
    pub(crate) registry: ExecutionRegistry,
    pub(crate) budget: Budget,
    pub(crate) checkpoints: CheckpointPermits,
    /// All contexts, in the order of their creation.
    all: Mutex<Vec<Entry>>,
}

struct Entry {
    context: Context,
    is_default: bool,
}

impl std::fmt::Debug for Contexts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Contexts")
            .field("contexts", &self.list())
            .finish_non_exhaustive()
    }
}

impl Contexts {
    /// Begins with a default context for each of `languages`. The kernel of the first starts now,
    /// those of the others when they are needed. Must be called within the runtime.
    pub fn new(
        launcher: Arc<dyn Launcher>,
        settings: Arc<dyn SandboxSettings>,
        languages: &[&str],
    ) -> Self {
        let contexts = Self {
            shared: Arc::new(Shared {
                launcher,
                settings,
                tasks: Tasks::default(),
                registry: ExecutionRegistry::default(),
                budget: Budget::default(),
                checkpoints: CheckpointPermits::default(),
                all: Mutex::default(),
            }),
        };
        for (place, language) in languages.iter().enumerate() {
            let first_kernel = match place {
                0 => FirstKernel::AtOnce,
                1.. => FirstKernel::WhenNeeded,
            };
            let context = Context::open(&contexts.shared, language, None, first_kernel);
            contexts.shared.all.lock().push(Entry {
                context,
                is_default: true,
            });
        }
        contexts
    }

    /// All contexts, the newest last.
    pub fn list(&self) -> Vec<ContextInfo> {
        let all = self.shared.all.lock();
        all.iter().map(|entry| entry.context.info()).collect()
    }

    /// Makes a context and waits until its kernel listens.
    ///
    /// # Errors
    ///
    /// [`ContextError::Start`] if it never will; the context is gone again then.
    pub async fn create(
        &self,
        language: &str,
        directory: Option<String>,
    ) -> Result<ContextInfo, ContextError> {
        let context = {
            let mut all = self.shared.all.lock();
            if all.len() >= MAX_CONTEXTS {
                return Err(too_many());
            }
            let context = Context::open(&self.shared, language, directory, FirstKernel::AtOnce);
            all.push(Entry {
                context: context.clone(),
                is_default: false,
            });
            context
        };
        match context.ready().await {
            Ok(()) => {
                self.shared.launcher.anticipate(language);
                Ok(context.info())
            }
            Err(error) => {
                self.forget(&context);
                Err(error)
            }
        }
    }

    /// The id of the default context of a language, which is made if there is none.
    ///
    /// # Errors
    ///
    /// If there is no kernel for the language.
    pub fn default_of(&self, language: &str) -> Result<String, ContextError> {
        let mut all = self.shared.all.lock();
        let found = all
            .iter()
            .find(|entry| entry.is_default && entry.context.language() == language);
        if let Some(entry) = found {
            return Ok(entry.context.id().to_owned());
        }
        // Still under the lock, so that two callers of a new language get the same context.
        let installed = self.shared.launcher.languages();
        if !installed.iter().any(|known| known == language) {
            return Err(ContextError::Start(StartError::NotInstalled {
                language: language.to_owned(),
                installed,
            }));
        }
        let context = Context::open(&self.shared, language, None, FirstKernel::AtOnce);
        let id = context.id().to_owned();
        all.push(Entry {
            context,
            is_default: true,
        });
        Ok(id)
    }

    /// Marks values that the context must not show from now on.
    ///
    /// # Errors
    ///
    /// If there is no such context, or too many are marked already.
    pub fn mark(&self, id: &str, secrets: &Secrets) -> Result<(), ContextError> {
        self.find(id)?.mark(secrets)
    }

    /// Queues an execution. It waits for those before it in the same context.
    ///
    /// # Errors
    ///
    /// If there is no such context, or too many wait for it. An exception of the code, and
    /// even the death of its kernel, is no error here but an update.
    pub fn execute(&self, id: &str, request: ExecuteRequest) -> Result<Execution, ContextError> {
        self.find(id)?.execute(request)
    }

    /// Puts a question about code to the kernel of a context, which is started if there is none.
    ///
    /// # Errors
    ///
    /// [`AskError`]; a kernel that runs code is not asked.
    pub async fn ask(&self, id: &str, question: Question) -> Result<Answer, AskError> {
        self.find(id)?.ask_kernel(question).await
    }

    /// Returns a snapshot of a context's history.
    ///
    /// # Errors
    ///
    /// If there is no such context.
    pub fn history(&self, id: &str) -> Result<HistoryView, ContextError> {
        Ok(self.find(id)?.history())
    }

    /// All executions that wait or run now.
    pub fn executions(&self) -> Vec<ExecutionInfo> {
        self.shared.registry.list()
    }

    /// An execution that waits or runs now.
    pub fn execution(&self, id: &str) -> Option<ExecutionInfo> {
        self.shared.registry.find(id)
    }

    /// Interrupts an execution as Ctrl-C would; one that waits is not run at all. Its caller
    /// hears of it. Says whether there is such an execution.
    pub fn interrupt(&self, execution: &str) -> bool {
        self.shared.registry.interrupt(execution)
    }

    /// Answers an execution that asks for input: with a line, without its end, or with `None` for
    /// the end of input.
    ///
    /// # Errors
    ///
    /// [`InputError`]; code that does not ask is not answered.
    pub async fn input(&self, execution: &str, value: Option<String>) -> Result<(), InputError> {
        let unknown = || InputError::NotFound {
            id: execution.to_owned(),
        };
        let found = self.execution(execution).ok_or_else(unknown)?;
        let context = self.find(&found.context).map_err(|_gone| unknown())?;
        context.input(execution, value).await
    }

    /// Finds an execution whose caller was lost while the code ran on ([`OnLoss::Continue`]).
    /// Its updates begin with what was kept of those that could not be delivered.
    ///
    /// `None` if there is no such execution, its caller is still there, or its record is gone:
    /// a context keeps the last few that have ended.
    ///
    /// [`OnLoss::Continue`]: crate::OnLoss::Continue
    pub async fn attach(&self, execution: &str) -> Option<Execution> {
        let contexts: Vec<Context> = {
            let all = self.shared.all.lock();
            all.iter().map(|entry| entry.context.clone()).collect()
        };
        for context in contexts {
            if let Some(execution) = context.attach(execution).await {
                return Some(execution);
            }
        }
        None
    }

    /// Makes a context with a copy of everything that is in the memory of another.
    ///
    /// # Errors
    ///
    /// [`CopyError`]; a kernel that runs code is not copied, and most kernels never are.
    pub async fn fork(&self, id: &str) -> Result<ContextInfo, CopyError> {
        let origin = self.find(id)?;
        self.check_room()?;
        let fork = origin.fork(&self.shared).await?;
        if let Err(error) = self.admit_fork(id, &fork) {
            fork.close().await;
            return Err(error.into());
        }
        Ok(fork.info())
    }

    /// Lists a fork. Others may have come meanwhile, and its origin may be gone.
    fn admit_fork(&self, origin: &str, fork: &Context) -> Result<(), ContextError> {
        let mut all = self.shared.all.lock();
        if !all.iter().any(|entry| entry.context.id() == origin) {
            let id = origin.to_owned();
            return Err(ContextError::NotFound { id });
        }
        if all.len() >= MAX_CONTEXTS {
            return Err(too_many());
        }
        all.push(Entry {
            context: fork.clone(),
            is_default: false,
        });
        Ok(())
    }

    /// Keeps the present state of a context, so that it can be gone back to.
    ///
    /// # Errors
    ///
    /// [`CopyError`], as of [`Contexts::fork`].
    pub async fn checkpoint(&self, id: &str) -> Result<CheckpointInfo, CopyError> {
        self.find(id)?.checkpoint().await
    }

    /// Returns the checkpoints of a context, the newest last.
    ///
    /// # Errors
    ///
    /// If there is no such context.
    pub async fn checkpoints(&self, id: &str) -> Result<Vec<CheckpointInfo>, ContextError> {
        self.find(id)?.checkpoints().await
    }

    /// Replaces the state of a context, if it has any, by that of a checkpoint, which stays.
    ///
    /// # Errors
    ///
    /// [`CopyError`]; the context is as it was then.
    pub async fn roll_back(&self, id: &str, checkpoint: &str) -> Result<(), CopyError> {
        self.find(id)?.roll_back(checkpoint.to_owned()).await
    }

    /// Removes a checkpoint.
    ///
    /// # Errors
    ///
    /// If there is no such context or checkpoint.
    pub async fn remove_checkpoint(&self, id: &str, checkpoint: &str) -> Result<(), CopyError> {
        let context = self.find(id)?;
        context.remove_checkpoint(checkpoint.to_owned()).await
    }

    /// Starts the kernel of a context anew, whatever it is doing, and waits until it listens.
    ///
    /// # Errors
    ///
    /// If there is no such context, or its kernel does not start any more.
    pub async fn restart(&self, id: &str) -> Result<(), ContextError> {
        let context = self.find(id)?;
        context.restart().await?;
        self.shared.launcher.anticipate(context.language());
        Ok(())
    }

    /// Removes a context and ends its kernel, whatever it is doing.
    ///
    /// # Errors
    ///
    /// If there is no such context.
    pub async fn remove(&self, id: &str) -> Result<(), ContextError> {
        let context = self.find(id)?;
        self.forget(&context);
        context.close().await;
        Ok(())
    }

    /// Waits until the first context's kernel listens.
    ///
    /// # Errors
    ///
    /// The reason for which it does not.
    pub async fn ready(&self) -> Result<(), ContextError> {
        let first = self
            .shared
            .all
            .lock()
            .first()
            .map(|entry| entry.context.clone());
        match first {
            Some(context) => context.ready().await,
            None => Ok(()),
        }
    }

    /// Ends all kernels and waits until they have ended.
    pub async fn finish(&self) {
        let entries = std::mem::take(&mut *self.shared.all.lock());
        for entry in entries {
            entry.context.close().await;
        }
        self.shared.tasks.finish().await;
    }

    fn check_room(&self) -> Result<(), ContextError> {
        if self.shared.all.lock().len() >= MAX_CONTEXTS {
            return Err(too_many());
        }
        Ok(())
    }

    fn find(&self, id: &str) -> Result<Context, ContextError> {
        let all = self.shared.all.lock();
        let found = all.iter().find(|entry| entry.context.id() == id);
        match found {
            Some(entry) => Ok(entry.context.clone()),
            None => Err(ContextError::NotFound { id: id.to_owned() }),
        }
    }

    fn forget(&self, context: &Context) {
        self.shared
            .all
            .lock()
            .retain(|entry| entry.context.id() != context.id());
    }
}

fn too_many() -> ContextError {
    ContextError::TooMany {
        limit: MAX_CONTEXTS,
    }
}
