//! Doing one step: the two kinds of work, each behind a trait, and how they fail.

use std::io;
use std::path::{Path, PathBuf};

use crate::cancel::Cancel;
use crate::child::Stopped;
use crate::recipe::DebianOrigin;
use skep_launch::Bind;
use skep_packages::PackageSettings;

/// Failure of a step.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// Somebody asked the build to stop. Building again goes on with this step.
    #[error("the build was stopped")]
    Cancelled,
    /// The command of the step took too long and was killed.
    #[error("the step took longer than an hour")]
    TooLate,
    /// The command of the step failed; its output says why.
    #[error("the step ended with {0}")]
    Failed(String),
    /// A program that the step needs is not on this host.
    #[error("`{program}` is not installed")]
    ProgramMissing {
        /// Name of the missing program.
        program: &'static str,
        /// Instruction for installing it.
        hint: &'static str,
    },
    /// The step could not be started, or its surroundings could not be made.
    #[error("cannot {action}")]
    System {
        /// The action that was tried.
        action: String,
        /// The error of the action.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StepError {
    pub(crate) fn system<E>(action: impl Into<String>) -> impl FnOnce(E) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let action = action.into();
        move |source| Self::System {
            action,
            source: Box::new(source),
        }
    }

    pub(crate) fn stopped(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Cancelled => Self::Cancelled,
            Stopped::TooLate => Self::TooLate,
        }
    }
}

/// Connection of a running step to its build: takes its output, and tells it to stop.
pub struct Surroundings<'a> {
    /// Looked at while the step runs.
    pub cancel: &'a Cancel,
    /// Takes each line of output.
    pub output: &'a mut dyn FnMut(&str),
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Surroundings")
            .field("cancel", &self.cancel)
            .finish_non_exhaustive()
    }
}

/// Makes the first layer out of a distribution's packages.
pub trait Bootstrap {
    /// Changes whenever the same request would give another result.
    fn version(&self) -> &'static str;

    /// Fills the empty directory `root` with a system. `scratch` is another directory, for
    /// things that must not stay.
    ///
    /// # Errors
    ///
    /// [`StepError`]; the caller removes both directories.
    fn bootstrap(
        &self,
        origin: &DebianOrigin,
        host: &PackageSettings,
        root: &Path,
        scratch: &Path,
        surroundings: Surroundings<'_>,
    ) -> Result<(), StepError>;
}

/// A command to run inside the template that the steps before it made.
#[derive(Debug, Clone)]
pub struct StepLaunch {
    /// The layers below, the lowest first.
    pub layers: Vec<PathBuf>,
    /// Directory that takes the changes.
    pub upper: PathBuf,
    /// The overlay's own directory, on the same filesystem.
    pub work: PathBuf,
    /// An empty directory to put mounts together on.
    pub staging: PathBuf,
    /// Files and directories of the host that appear inside.
    pub mounts: Vec<Bind>,
    /// The program, as a path inside, and its arguments.
    pub command: Vec<String>,
    /// The whole environment of the command.
    pub env: Vec<(String, String)>,
    /// Working directory of the command.
    pub workdir: String,
}

/// Runs a step as root, in namespaces of its own apart from the network, which is the host's:
/// packages come from there.
pub trait StepRunner {
    /// Runs it to its end.
    ///
    /// # Errors
    ///
    /// [`StepError`]; nothing of the step runs any more.
    fn run(&self, launch: &StepLaunch, surroundings: Surroundings<'_>) -> Result<(), StepError>;
}

/// Writes a file for a step to find.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Result<(), StepError> {
    let write = || -> io::Result<()> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(path, content)
    };
    write().map_err(StepError::system(format!("write `{}`", path.display())))
}
