//! The interpreter beside the agent, or its absence in sandboxes whose template has no kernels.

mod forked;
mod group_meter;
mod kernel_folders;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use axum::Router;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, WaitStatus};
use skep_agent::{Child, Companion, Household, Listen, Program};
use skep_interpreter::Door;
use skep_kernels::{
    Command, Contexts, Exit, Inherited, Installed, Launcher, Meter, Processes, Started,
    Surroundings,
};
use skep_telemetry::Chain;
use skep_types::Secrets;
use skep_wire::interpreter::INTERPRETER_PORT;

use group_meter::GroupMeter;
use kernel_folders::kernel_folders;

/// Where code runs if the sandbox does not say.
const FALLBACK_DIRECTORY: &str = "/home/user";

/// The contexts that are listed from the start: by contract, where there are kernels for them.
const DEFAULTS: [&str; 2] = ["python", "javascript"];

/// The interpreter, if this sandbox's template has kernels where one can look before the
/// sandbox's variables are known.
///
/// The port is the agent's in every template, before any other program runs.
pub(crate) fn companion() -> Companion {
    let folders = kernel_folders(&BTreeMap::new(), Path::new(FALLBACK_DIRECTORY));
    let has_kernels = folders.iter().any(|folder| folder.is_dir());
    Companion {
        listen: Listen::At((Ipv4Addr::UNSPECIFIED, INTERPRETER_PORT).into()),
        routes: if has_kernels {
            Box::new(routes)
        } else {
            Box::new(|_household| skep_interpreter::absent())
        },
    }
}

fn routes(household: Household) -> Router {
    let sandbox = Arc::new(Sandbox {
        household,
        meters: Arc::default(),
    });
    let around = Arc::clone(&sandbox);
    let folders = move || kernel_folders(&around.environment(), Path::new(&around.directory()));
    let installed = Installed::new(folders, Arc::clone(&sandbox) as _);
    let languages = installed.languages();
    let is_installed = |name: &&str| languages.iter().any(|installed| installed == name);
    let defaults: Vec<&str> = DEFAULTS.into_iter().filter(is_installed).collect();
    let contexts = Contexts::new(Arc::new(installed), Arc::clone(&sandbox) as _, &defaults);
    skep_interpreter::routes(contexts, sandbox)
}

/// The agent, as the interpreter and its kernels see it.
struct Sandbox {
    household: Household,
    meters: Arc<Mutex<HashMap<u32, Arc<GroupMeter>>>>,
}

impl Sandbox {
    /// Measures a new process until its end, and has that told.
    fn watch(&self, child: Child) -> Started {
        let pid = child.pid.as_raw_nonzero().get().unsigned_abs();
        if let Some(group) = child.group {
            lock(&self.meters).insert(pid, Arc::new(GroupMeter(group)));
        }
        let meters = Arc::clone(&self.meters);
        let (sender, exit) = tokio::sync::oneshot::channel();
        skep_telemetry::spawn("kernel exit", async move {
            let ended = child.exit.await.map_or(Exit::Unknown, exit_of);
            // Whoever still needs it has it.
            drop(lock(&meters).remove(&pid));
            if sender.send(ended).is_err() {
                tracing::debug!("nobody asks how a kernel ended");
            }
        });
        Started { pid, exit }
    }
}

impl Door for Sandbox {
    fn admits(&self, token: Option<&[u8]>) -> bool {
        self.household.admits(token)
    }

    fn admits_traffic(&self, token: Option<&[u8]>) -> bool {
        self.household.admits_traffic(token)
    }
}

impl Surroundings for Sandbox {
    fn secrets(&self) -> Secrets {
        Secrets::new(self.household.secrets()).unwrap_or_else(|error| {
            // The server has checked them before it accepted them.
            tracing::error!(error = %Chain(&error), "the sandbox's secrets are not masked");
            Secrets::default()
        })
    }

    fn environment(&self) -> BTreeMap<String, String> {
        self.household.environment()
    }

    fn directory(&self) -> String {
        self.household.default_directory().unwrap_or_else(|error| {
            tracing::debug!(error = %Chain(&error), "the sandbox has no user");
            FALLBACK_DIRECTORY.to_owned()
        })
    }
}

fn lock(
    meters: &Mutex<HashMap<u32, Arc<GroupMeter>>>,
) -> MutexGuard<'_, HashMap<u32, Arc<GroupMeter>>> {
    meters.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Processes for Sandbox {
    fn start(
        &self,
        command: Command,
        standard: [OwnedFd; 3],
    ) -> BoxFuture<'_, io::Result<Started>> {
        let household = self.household.clone();
        async move {
            let child = household.start(program(command), standard).await;
            Ok(self.watch(child.map_err(io::Error::other)?))
        }
        .boxed()
    }

    fn fork(&self, command: Command, standard: [OwnedFd; 3]) -> BoxFuture<'_, Option<Started>> {
        let household = self.household.clone();
        async move {
            let program = program(command);
            let fork = move || forked::fork(&household, &program, standard);
            let child = tokio::task::spawn_blocking(fork).await;
            child.ok().flatten().map(|child| self.watch(child))
        }
        .boxed()
    }

    fn signal(&self, pid: u32, signal: Signal) -> io::Result<()> {
        let leader = i32::try_from(pid).ok().and_then(Pid::from_raw);
        match leader {
            Some(leader) => self.household.signal_group(leader, signal),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn make_folder(&self) -> io::Result<PathBuf> {
        self.household.make_folder()
    }

    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.household.write_file(path, content)
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        self.household.remove_folder(folder)
    }

    fn read_file(&self, path: &Path, longest: u64) -> io::Result<Vec<u8>> {
        self.household.read_file(path, longest)
    }

    fn names_in(&self, folder: &Path, most: usize) -> io::Result<Vec<String>> {
        self.household.names_in(folder, most)
    }

    fn is_file(&self, path: &Path) -> bool {
        self.household.is_file(path)
    }

    fn modified(&self, path: &Path) -> Option<SystemTime> {
        self.household.modified(path)
    }

    fn null_device(&self) -> io::Result<OwnedFd> {
        self.household.null_device()
    }

    fn out_of_memory_kills(&self) -> Option<u64> {
        self.household.out_of_memory_kills()
    }

    fn is_short_of_memory(&self) -> BoxFuture<'static, bool> {
        let household = self.household.clone();
        async move {
            let looked = tokio::task::spawn_blocking(move || household.is_short_of_memory());
            looked.await.unwrap_or(true)
        }
        .boxed()
    }

    fn inherited(&self) -> Inherited {
        Inherited {
            environment: self.environment(),
            directory: self.directory(),
        }
    }

    fn meter(&self, pid: u32) -> Arc<dyn Meter> {
        match lock(&self.meters).get(&pid) {
            Some(meter) => Arc::clone(meter) as _,
            None => Arc::new(skep_kernels::ProcessMeter::new(pid)),
        }
    }
}

fn program(command: Command) -> Program {
    Program {
        arguments: command.arguments,
        environment: command.environment,
        directory: None,
    }
}

fn exit_of(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}
