//! The kernels that a template brings.
//!
//! Each has a folder named after its language with a `kernel.json`, as Jupyter's own kernels
//! have: `{"argv": ["python", "-m", "skep_kernel"], "env": {…}}`. The socket to speak over is
//! the kernel's standard input, and it is told so with two more arguments.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;

use crate::kernel::{Kernel, Launcher, StartError};
use crate::process::{Command, Processes};
use crate::socket_kernel::SocketKernel;

/// What is read of a `kernel.json`.
#[derive(Debug, Clone, Deserialize)]
struct Specification {
    argv: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// Starts the kernels of a folder.
pub struct Installed {
    folder: PathBuf,
    processes: Arc<dyn Processes>,
}

impl std::fmt::Debug for Installed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Installed")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// The language that callers mean when they name none.
const DEFAULT_LANGUAGE: &str = "python";

impl Installed {
    /// The kernels in `folder`.
    pub fn new(folder: PathBuf, processes: Arc<dyn Processes>) -> Self {
        Self { folder, processes }
    }

    fn command(&self, language: &str) -> Result<Command, StartError> {
        let missing = || StartError::NotInstalled {
            language: language.to_owned(),
        };
        // The language comes from a caller and becomes part of a path.
        let is_name = !language.is_empty()
            && language
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-+".contains(&byte));
        if !is_name {
            return Err(missing());
        }
        let file = self.folder.join(language).join("kernel.json");
        let text = match std::fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
            Err(error) => return Err(StartError::Process(error)),
        };
        let specification: Specification = serde_json::from_slice(&text)
            .map_err(|error| StartError::Process(io::Error::other(error)))?;
        let mut arguments = specification.argv;
        arguments.extend(["--socket-fd".to_owned(), "0".to_owned()]);
        Ok(Command {
            arguments,
            environment: specification.env,
        })
    }
}

impl Launcher for Installed {
    fn languages(&self) -> Vec<String> {
        let mut languages = names(&self.folder);
        languages.sort_by_key(|name| (name != DEFAULT_LANGUAGE, name.clone()));
        languages
    }

    fn start<'a>(
        &'a self,
        language: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn Kernel>, StartError>> {
        async move {
            let command = self.command(language)?;
            let kernel = SocketKernel::start(Arc::clone(&self.processes), command).await?;
            Ok(Box::new(kernel) as Box<dyn Kernel>)
        }
        .boxed()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| folder.join(name).join("kernel.json").is_file())
        .collect()
}
