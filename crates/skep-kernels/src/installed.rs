//! The kernels that a template brings.
//!
//! Each has a folder named after its language with a `kernel.json`, as Jupyter's own kernels
//! have: `{"argv": ["python", "-m", "skep_kernel"], "language": "python", "env": {…}}`. One whose
//! command names a `{connection_file}` speaks ZeroMQ. To others the socket to speak over is
//! their standard input, and they are told so with two more arguments.

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
use crate::zmq_kernel::{CONNECTION_FILE, ZmqKernel};

/// What is read of a `kernel.json`.
#[derive(Debug, Clone, Deserialize)]
struct Specification {
    argv: Vec<String>,
    #[serde(default)]
    language: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// How a process is prepared that can be forked into a kernel; the server reads that.
    #[serde(default)]
    zygote: Option<serde::de::IgnoredAny>,
}

/// Starts the kernels of a folder.
pub struct Installed {
    folders: Vec<PathBuf>,
    processes: Arc<dyn Processes>,
}

impl std::fmt::Debug for Installed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Installed")
            .field("folders", &self.folders)
            .finish_non_exhaustive()
    }
}

/// The language that callers mean when they name none.
const DEFAULT_LANGUAGE: &str = "python";

impl Installed {
    /// The kernels in these folders; the first that has a name wins.
    pub fn new(folders: Vec<PathBuf>, processes: Arc<dyn Processes>) -> Self {
        Self { folders, processes }
    }

    fn specification(&self, language: &str) -> Result<Specification, StartError> {
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
        let files = self
            .folders
            .iter()
            .map(|folder| folder.join(language).join("kernel.json"));
        let file = files.into_iter().find(|file| file.is_file());
        let text = std::fs::read(file.ok_or_else(missing)?).map_err(StartError::Process)?;
        serde_json::from_slice(&text).map_err(|error| StartError::Process(io::Error::other(error)))
    }
}

impl Launcher for Installed {
    fn languages(&self) -> Vec<String> {
        let mut languages: Vec<String> = self
            .folders
            .iter()
            .flat_map(|folder| names(folder))
            .collect();
        languages.sort_by_key(|name| (name != DEFAULT_LANGUAGE, name.clone()));
        languages.dedup();
        languages
    }

    fn start<'a>(
        &'a self,
        language: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn Kernel>, StartError>> {
        async move {
            let specification = self.specification(language)?;
            let mut command = Command {
                arguments: specification.argv,
                environment: specification.env,
                may_be_forked: specification.zygote.is_some(),
            };
            let processes = Arc::clone(&self.processes);
            let speaks_zmq = command
                .arguments
                .iter()
                .any(|argument| argument.contains(CONNECTION_FILE));
            if speaks_zmq {
                let kernel = ZmqKernel::start(processes, command, &specification.language).await?;
                return Ok(Box::new(kernel) as Box<dyn Kernel>);
            }
            let socket = ["--socket-fd".to_owned(), "0".to_owned()];
            command.arguments.extend(socket);
            if command.may_be_forked {
                let forked = SocketKernel::start(Arc::clone(&processes), command.clone()).await;
                match forked {
                    Ok(kernel) => return Ok(Box::new(kernel) as Box<dyn Kernel>),
                    Err(error) => tracing::warn!(%error, "a forked kernel did not begin"),
                }
                command.may_be_forked = false;
            }
            let kernel = SocketKernel::start(processes, command).await?;
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
