//! The kernels that a template brings.
//!
//! Each has a directory named after its language with a `kernel.json`, as Jupyter's own kernels
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

use crate::fork_policy::may_be_forked;
use crate::kernel::{Kernel, Launcher, StartError};
use crate::process::{Command, Processes};
use crate::search_path::search_path;
use crate::socket_kernel::SocketKernel;
use crate::spares::{SparePolicy, Spares, StartKey};
use crate::zmq_kernel::{CONNECTION_FILE, Foreign, InterruptMode, ZmqKernel};

/// The language that callers mean when they name none.
const DEFAULT_LANGUAGE: &str = "python";

/// A `kernel.json` is not larger than this; people write them.
const LARGEST_SPECIFICATION: u64 = 64 << 10;

/// The names that a directory of kernels may hold. Each is looked at whenever somebody asks for a
/// language, and code in the sandbox writes such directories.
const MOST_NAMES: usize = 256;

/// Starts the kernels of some directories.
pub struct KernelSpecs {
    directories: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    processes: Arc<dyn Processes>,
    spares: Spares,
}

impl std::fmt::Debug for KernelSpecs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("KernelSpecs")
            .field("directories", &(self.directories)())
            .finish_non_exhaustive()
    }
}

/// The fields of a `kernel.json` that are read here.
#[derive(Debug, Clone, Deserialize)]
struct Specification {
    argv: Vec<String>,
    #[serde(default)]
    language: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    interrupt_mode: InterruptMode,
    /// Instructions for a zygote from which such kernels can be forked; only the server reads them.
    #[serde(default)]
    zygote: Option<serde::de::IgnoredAny>,
    /// Set if one may be started before somebody asks for it.
    #[serde(default)]
    spare: Option<SparePolicy>,
}

/// A directory with a `kernel.json`.
#[derive(Debug)]
struct SpecDirectory {
    /// Name of the kernel. Names are compared without regard to case, as Jupyter does.
    name: String,
    directory: PathBuf,
}

impl KernelSpecs {
    /// The kernels of a sandbox, where Jupyter would look for them and where templates put ours.
    pub fn of_sandbox(processes: Arc<dyn Processes>) -> Self {
        let around = Arc::clone(&processes);
        let directories = move || {
            let inherited = around.inherited();
            search_path(&inherited.environment, Path::new(&inherited.directory))
        };
        Self::new(directories, processes)
    }

    /// The kernels in the directories that the function names; the first that has a name wins. They
    /// are looked at each time, because user code can install kernels.
    pub fn new(
        directories: impl Fn() -> Vec<PathBuf> + Send + Sync + 'static,
        processes: Arc<dyn Processes>,
    ) -> Self {
        Self {
            directories: Arc::new(directories),
            processes,
            spares: Spares::default(),
        }
    }

    /// All kernels, those that win first.
    fn spec_directories(&self) -> impl Iterator<Item = SpecDirectory> {
        let directories = (self.directories)();
        directories
            .into_iter()
            .flat_map(|directory| kernels_in(&directory, &*self.processes))
    }

    /// A kernel by its name, or else by the language it says it is for.
    fn find(&self, asked: &str) -> Result<(SpecDirectory, Specification), StartError> {
        if let Some(spec) = self.spec_directories().find(|spec| spec.name == asked) {
            let specification = spec
                .specification(&*self.processes)
                .map_err(StartError::Process)?;
            return Ok((spec, specification));
        }
        let speaks = |spec: SpecDirectory| {
            let specification = spec.specification(&*self.processes).ok()?;
            let speaks = specification.language.eq_ignore_ascii_case(asked);
            (speaks && !asked.is_empty()).then_some((spec, specification))
        };
        let found = self.spec_directories().find_map(speaks);
        found.ok_or_else(|| StartError::NotInstalled {
            language: asked.to_owned(),
            installed: self.languages(),
        })
    }

    /// Returns the key that a spare must match to be used for a start now.
    fn start_key(&self, command: &Command, policy: &SparePolicy) -> StartKey {
        let inherited = self.processes.inherited();
        StartKey::new(command, inherited, policy, &*self.processes)
    }
}

impl Launcher for KernelSpecs {
    fn languages(&self) -> Vec<String> {
        let mut languages = Vec::new();
        for spec in self.spec_directories() {
            if let Ok(specification) = spec.specification(&*self.processes) {
                languages.push(specification.language.to_ascii_lowercase());
            }
            languages.push(spec.name);
        }
        languages.retain(|name| !name.is_empty());
        languages.sort_by_key(|name| (name != DEFAULT_LANGUAGE, name.clone()));
        languages.dedup();
        languages
    }

    fn start<'a>(
        &'a self,
        language: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn Kernel>, StartError>> {
        async move {
            let (spec, specification) = self.find(language)?;
            if let Some(policy) = &specification.spare {
                let start_key =
                    self.start_key(&spec.command(&specification, &*self.processes), policy);
                if let Some(kernel) = self.spares.take(&spec.name, &start_key).await {
                    return Ok(kernel);
                }
            }
            let command = spec.command(&specification, &*self.processes);
            start(Arc::clone(&self.processes), command, specification).await
        }
        .boxed()
    }

    fn anticipate(&self, language: &str) {
        let Ok((spec, specification)) = self.find(language) else {
            return;
        };
        let Some(policy) = &specification.spare else {
            return;
        };
        let mut command = spec.command(&specification, &*self.processes);
        let start_key = self.start_key(&command, policy);
        command.is_spare = true;
        let processes = Arc::clone(&self.processes);
        self.spares
            .have(&spec.name, start_key, &self.processes, || {
                start(processes, command, specification).boxed()
            });
    }
}

/// Starts a kernel, whichever way it speaks.
async fn start(
    processes: Arc<dyn Processes>,
    mut command: Command,
    specification: Specification,
) -> Result<Box<dyn Kernel>, StartError> {
    let is_foreign = specification
        .argv
        .iter()
        .any(|argument| argument.contains(CONNECTION_FILE));
    if is_foreign {
        let foreign = Foreign {
            command,
            interrupt_mode: specification.interrupt_mode,
        };
        return Ok(Box::new(ZmqKernel::start(processes, foreign).await?));
    }
    let socket = ["--socket-fd".to_owned(), "0".to_owned()];
    command.arguments.extend(socket);
    // Whatever goes wrong with a fork, the kernel is started instead, with new descriptors.
    if specification.zygote.is_some() && may_be_forked(&processes.inherited().environment) {
        let forked = SocketKernel::fork(Arc::clone(&processes), command.clone()).await;
        match forked {
            Ok(Some(kernel)) => return Ok(Box::new(kernel)),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "a forked kernel did not begin"),
        }
    }
    Ok(Box::new(SocketKernel::start(processes, command).await?))
}

impl SpecDirectory {
    fn specification(&self, processes: &dyn Processes) -> io::Result<Specification> {
        let path = self.directory.join("kernel.json");
        let text = processes.read_file(&path, LARGEST_SPECIFICATION)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// The command, with what Jupyter puts into one.
    fn command(&self, specification: &Specification, processes: &dyn Processes) -> Command {
        let prefix = self.prefix();
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut arguments: Vec<String> = specification.argv.clone();
        for argument in &mut arguments {
            *argument = argument.replace("{resource_dir}", &text(&self.directory));
            if let Some(prefix) = prefix {
                *argument = argument.replace("{prefix}", &text(prefix));
            }
        }
        // A kernel that was installed into an environment means that environment's Python.
        let python = prefix.map(|prefix| prefix.join("bin/python"));
        if let Some(program) = arguments.first_mut()
            && is_python(program)
            && let Some(python) = python.filter(|python| processes.modified(python).is_some())
        {
            *program = text(&python);
        }
        Command {
            arguments,
            environment: specification.env.clone(),
            is_spare: false,
        }
    }

    /// Returns the root of the environment in which this directory is
    /// `share/jupyter/kernels/<name>`.
    fn prefix(&self) -> Option<&Path> {
        let kernels = self.directory.parent()?;
        let is_environment = kernels.ends_with("share/jupyter/kernels");
        is_environment.then(|| kernels.ancestors().nth(3)).flatten()
    }
}

/// Returns true for `python`, `python3` and the like: a name without a path, which leaves open
/// which installation is meant.
fn is_python(program: &str) -> bool {
    let rest = program.strip_prefix("python");
    rest.is_some_and(|version| {
        version
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
    })
}

fn kernels_in(directory: &Path, processes: &dyn Processes) -> Vec<SpecDirectory> {
    let names = processes
        .names_in(directory, MOST_NAMES)
        .unwrap_or_else(|error| {
            tracing::debug!(%error, "a directory of kernels is not looked into");
            Vec::new()
        });
    let mut spec_directories: Vec<SpecDirectory> = names
        .into_iter()
        .map(|name| SpecDirectory {
            directory: directory.join(&name),
            name: name.to_lowercase(),
        })
        .filter(|spec| processes.is_file(&spec.directory.join("kernel.json")))
        .collect();
    spec_directories.sort_by(|one, other| one.directory.cmp(&other.directory));
    spec_directories
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::none::NoProcesses;

    struct World {
        directory: tempfile::TempDir,
    }

    impl World {
        fn new(specifications: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            for (path, text) in specifications {
                let path = directory.path().join(path);
                std::fs::create_dir_all(&path).unwrap();
                std::fs::write(path.join("kernel.json"), text).unwrap();
            }
            Self { directory }
        }

        fn installed(&self) -> KernelSpecs {
            let directories = ["ours", "venv/share/jupyter/kernels", "missing"]
                .map(|name| self.directory.path().join(name))
                .to_vec();
            KernelSpecs::new(
                move || directories.clone(),
                Arc::new(NoProcesses::default()),
            )
        }

        /// The command that starts when this is asked for, without the world's own path.
        fn command(&self, asked: &str) -> Option<Vec<String>> {
            let installed = self.installed();
            let (spec, specification) = installed.find(asked).ok()?;
            let root = format!("{}/", self.directory.path().display());
            let command = spec.command(&specification, &*installed.processes);
            let without_root = |argument: &String| argument.replace(&root, "");
            Some(command.arguments.iter().map(without_root).collect())
        }
    }

    const IPYKERNEL: &str = r#"{"argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}"#;

    #[test]
    fn a_kernel_is_found_by_its_name_and_else_by_its_language() {
        let world = World::new(&[
            ("ours/python", r#"{"argv": ["ours"], "language": "python"}"#),
            ("venv/share/jupyter/kernels/Python3", IPYKERNEL),
            (
                "venv/share/jupyter/kernels/ir",
                r#"{"argv": ["R", "{connection_file}"], "language": "R", "interrupt_mode": "message"}"#,
            ),
            ("ours/broken", "{"),
        ]);
        assert_eq!(world.command("python"), Some(vec!["ours".to_owned()]));
        assert_eq!(world.command("python3").unwrap()[0], "python");
        assert_eq!(world.command("ir"), world.command("r"));
        assert_eq!(world.command("ir").unwrap()[0], "R");
        for unknown in [
            "",
            "..",
            ".",
            "ruby",
            "../ours/python",
            "broken",
            "python\0",
        ] {
            assert_eq!(world.command(unknown), None, "{unknown}");
        }
        let installed = world.installed();
        assert_eq!(
            installed.languages(),
            ["python", "broken", "ir", "python3", "r"]
        );
        let (_, specification) = installed.find("ir").unwrap();
        assert_eq!(specification.interrupt_mode, InterruptMode::Message);
    }

    /// Each would be read at every question for a language.
    #[test]
    fn a_directory_of_too_many_kernels_has_none() {
        let kernels: Vec<_> = (0..MOST_NAMES)
            .map(|number| format!("ours/kernel{number}"))
            .collect();
        let kernels: Vec<_> = kernels
            .iter()
            .map(|directory| (directory.as_str(), IPYKERNEL))
            .collect();
        let world = World::new(&kernels);
        world.command("kernel7").unwrap();
        std::fs::write(world.directory.path().join("ours/one more"), "").unwrap();
        assert_eq!(world.command("kernel7"), None);
        assert_eq!(world.installed().languages(), [""; 0]);
    }

    #[test]
    fn a_kernel_of_an_environment_runs_in_it() {
        let world = World::new(&[
            ("venv/share/jupyter/kernels/python3", IPYKERNEL),
            (
                "venv/share/jupyter/kernels/java",
                r#"{"argv": ["java", "-jar", "{resource_dir}/java.jar", "{prefix}/lib", "{connection_file}"]}"#,
            ),
            ("ours/plain", IPYKERNEL),
        ]);
        let bin = world.directory.path().join("venv/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("python"), "").unwrap();
        assert_eq!(world.command("python3").unwrap()[0], "venv/bin/python");
        assert_eq!(world.command("plain").unwrap()[0], "python");
        assert_eq!(
            world.command("java").unwrap()[1..4],
            [
                "-jar",
                "venv/share/jupyter/kernels/java/java.jar",
                "venv/lib"
            ]
        );
    }
}
