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

use crate::kernel::{Kernel, Launcher, StartError};
use crate::process::{Command, Processes};
use crate::socket_kernel::SocketKernel;
use crate::spares::{Likeness, Spares, Sparing};
use crate::zmq_kernel::{CONNECTION_FILE, Foreign, InterruptMode, ZmqKernel};

/// The language that callers mean when they name none.
const DEFAULT_LANGUAGE: &str = "python";

/// A `kernel.json` is not larger than this; people write them.
const LARGEST_SPECIFICATION: u64 = 64 << 10;

/// The names that a directory of kernels may hold. Each is looked at whenever somebody asks for a
/// language, and code in the sandbox writes such directories.
const MOST_NAMES: usize = 256;

/// Starts the kernels of some directories.
pub struct Installed {
    folders: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    processes: Arc<dyn Processes>,
    spares: Spares,
}

impl std::fmt::Debug for Installed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Installed")
            .field("folders", &(self.folders)())
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
    spare: Option<Sparing>,
}

/// A directory with a `kernel.json`.
#[derive(Debug)]
struct Place {
    /// Name of the kernel. Names are compared without regard to case, as Jupyter does.
    name: String,
    folder: PathBuf,
}

impl Installed {
    /// The kernels in the directories that `folders` names; the first that has a name wins. They
    /// are looked at each time, because user code can install kernels.
    pub fn new(
        folders: impl Fn() -> Vec<PathBuf> + Send + Sync + 'static,
        processes: Arc<dyn Processes>,
    ) -> Self {
        Self {
            folders: Arc::new(folders),
            processes,
            spares: Spares::default(),
        }
    }

    /// All kernels, those that win first.
    fn places(&self) -> impl Iterator<Item = Place> {
        let folders = (self.folders)();
        folders
            .into_iter()
            .flat_map(|folder| kernels_in(&folder, &*self.processes))
    }

    /// A kernel by its name, or else by the language it says it is for.
    fn find(&self, asked: &str) -> Result<(Place, Specification), StartError> {
        if let Some(place) = self.places().find(|place| place.name == asked) {
            let specification = place
                .specification(&*self.processes)
                .map_err(StartError::Process)?;
            return Ok((place, specification));
        }
        let speaks = |place: Place| {
            let specification = place.specification(&*self.processes).ok()?;
            let speaks = specification.language.eq_ignore_ascii_case(asked);
            (speaks && !asked.is_empty()).then_some((place, specification))
        };
        let found = self.places().find_map(speaks);
        found.ok_or_else(|| StartError::NotInstalled {
            language: asked.to_owned(),
            installed: self.languages(),
        })
    }

    /// Returns the key that a spare must match to be used for a start now.
    fn likeness(&self, command: &Command, sparing: &Sparing) -> Likeness {
        let inherited = self.processes.inherited();
        Likeness::new(command, inherited, sparing, &*self.processes)
    }
}

impl Launcher for Installed {
    fn languages(&self) -> Vec<String> {
        let mut languages = Vec::new();
        for place in self.places() {
            if let Ok(specification) = place.specification(&*self.processes) {
                languages.push(specification.language.to_ascii_lowercase());
            }
            languages.push(place.name);
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
            let (place, specification) = self.find(language)?;
            if let Some(sparing) = &specification.spare {
                let likeness =
                    self.likeness(&place.command(&specification, &*self.processes), sparing);
                if let Some(kernel) = self.spares.take(&place.name, &likeness).await {
                    return Ok(kernel);
                }
            }
            let command = place.command(&specification, &*self.processes);
            start(Arc::clone(&self.processes), command, specification).await
        }
        .boxed()
    }

    fn anticipate(&self, language: &str) {
        let Ok((place, specification)) = self.find(language) else {
            return;
        };
        let Some(sparing) = &specification.spare else {
            return;
        };
        let mut command = place.command(&specification, &*self.processes);
        let likeness = self.likeness(&command, sparing);
        command.is_spare = true;
        let processes = Arc::clone(&self.processes);
        self.spares
            .have(&place.name, likeness, &self.processes, || {
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
    if specification.zygote.is_some() {
        let forked = SocketKernel::fork(Arc::clone(&processes), command.clone()).await;
        match forked {
            Ok(Some(kernel)) => return Ok(Box::new(kernel)),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "a forked kernel did not begin"),
        }
    }
    Ok(Box::new(SocketKernel::start(processes, command).await?))
}

impl Place {
    fn specification(&self, processes: &dyn Processes) -> io::Result<Specification> {
        let path = self.folder.join("kernel.json");
        let text = processes.read_file(&path, LARGEST_SPECIFICATION)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// The command, with what Jupyter puts into one.
    fn command(&self, specification: &Specification, processes: &dyn Processes) -> Command {
        let prefix = self.prefix();
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut arguments: Vec<String> = specification.argv.clone();
        for argument in &mut arguments {
            *argument = argument.replace("{resource_dir}", &text(&self.folder));
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
        let kernels = self.folder.parent()?;
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

fn kernels_in(folder: &Path, processes: &dyn Processes) -> Vec<Place> {
    let names = processes
        .names_in(folder, MOST_NAMES)
        .unwrap_or_else(|error| {
            tracing::debug!(%error, "a folder of kernels is not looked into");
            Vec::new()
        });
    let places = names.into_iter().map(|name| Place {
        folder: folder.join(&name),
        name: name.to_lowercase(),
    });
    let mut places: Vec<Place> = places
        .filter(|place| processes.is_file(&place.folder.join("kernel.json")))
        .collect();
    places.sort_by(|one, other| one.folder.cmp(&other.folder));
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::none::NoProcesses;

    struct World {
        folder: tempfile::TempDir,
    }

    impl World {
        fn new(specifications: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for (path, text) in specifications {
                let path = folder.path().join(path);
                std::fs::create_dir_all(&path).unwrap();
                std::fs::write(path.join("kernel.json"), text).unwrap();
            }
            Self { folder }
        }

        fn installed(&self) -> Installed {
            let folders = ["ours", "venv/share/jupyter/kernels", "missing"];
            let folders = folders.map(|name| self.folder.path().join(name)).to_vec();
            Installed::new(move || folders.clone(), Arc::new(NoProcesses::default()))
        }

        /// The command that starts when this is asked for, without the world's own path.
        fn command(&self, asked: &str) -> Option<Vec<String>> {
            let installed = self.installed();
            let (place, specification) = installed.find(asked).ok()?;
            let root = format!("{}/", self.folder.path().display());
            let arguments = place
                .command(&specification, &*installed.processes)
                .arguments;
            let arguments = arguments.iter().map(|argument| argument.replace(&root, ""));
            Some(arguments.collect())
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
    fn a_folder_of_too_many_kernels_has_none() {
        let kernels: Vec<_> = (0..MOST_NAMES)
            .map(|number| format!("ours/kernel{number}"))
            .collect();
        let kernels: Vec<_> = kernels
            .iter()
            .map(|folder| (folder.as_str(), IPYKERNEL))
            .collect();
        let world = World::new(&kernels);
        world.command("kernel7").unwrap();
        std::fs::write(world.folder.path().join("ours/one more"), "").unwrap();
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
        let bin = world.folder.path().join("venv/bin");
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
