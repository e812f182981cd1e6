//! The interpreter beside the agent, or its absence in sandboxes whose template has no kernels.

mod cgroup_meter;
mod forked;
mod kernel_directories;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitStatus};
use skep_agent::{AgentHandle, Child, Listen, Program, SideService};
use skep_interpreter::Authorizer;
use skep_kernels::{
    Command, Contexts, Exit, Inherited, KernelSpecs, Launcher, Meter, Processes, SandboxSettings,
    Started,
};
use skep_telemetry::Chain;
use skep_types::Secrets;
use skep_wire::interpreter::INTERPRETER_PORT;

use cgroup_meter::CgroupMeter;
use kernel_directories::kernel_directories;

/// Working directory of code if the sandbox does not say.
const FALLBACK_DIRECTORY: &str = "/home/user";

/// The contexts that are listed from the start: by contract, where there are kernels for them.
const DEFAULTS: [&str; 2] = ["python", "javascript"];

/// The interpreter, if this sandbox's template has kernels where one can look before the
/// sandbox's variables are known.
///
/// The port is the agent's in every template, before any other program runs.
pub(crate) fn side_service() -> SideService {
    let directories = kernel_directories(&BTreeMap::new(), Path::new(FALLBACK_DIRECTORY));
    let has_kernels = directories.iter().any(|directory| directory.is_dir());
    SideService {
        listen: Listen::At((Ipv4Addr::UNSPECIFIED, INTERPRETER_PORT).into()),
        routes: if has_kernels {
            Box::new(routes)
        } else {
            Box::new(|_agent| skep_interpreter::absent())
        },
    }
}

fn routes(agent: AgentHandle) -> Router {
    let sandbox = Arc::new(Sandbox {
        agent,
        meters: Arc::default(),
    });
    let around = Arc::clone(&sandbox);
    let directories =
        move || kernel_directories(&around.environment(), Path::new(&around.directory()));
    let installed = KernelSpecs::new(directories, Arc::clone(&sandbox) as _);
    let languages = installed.languages();
    let is_installed = |name: &&str| languages.iter().any(|installed| installed == name);
    let defaults: Vec<&str> = DEFAULTS.into_iter().filter(is_installed).collect();
    let contexts = Contexts::new(Arc::new(installed), Arc::clone(&sandbox) as _, &defaults);
    skep_interpreter::routes(contexts, sandbox)
}

/// The agent, as the interpreter and its kernels see it.
struct Sandbox {
    agent: AgentHandle,
    meters: Arc<Mutex<HashMap<u32, Arc<CgroupMeter>>>>,
}

impl Sandbox {
    /// Measures a new process until its end, and has that told.
    fn watch(&self, child: Child) -> Started {
        let pid = child.pid.as_raw_nonzero().get().unsigned_abs();
        if let Some(cgroup) = child.cgroup {
            self.meters
                .lock()
                .insert(pid, Arc::new(CgroupMeter(cgroup)));
        }
        let meters = Arc::clone(&self.meters);
        let (sender, exit) = tokio::sync::oneshot::channel();
        skep_telemetry::spawn("kernel exit", async move {
            let ended = child.exit.await.map_or(Exit::Unknown, exit_of);
            // Whoever still needs it has it.
            drop(meters.lock().remove(&pid));
            if sender.send(ended).is_err() {
                tracing::debug!("nobody asks how a kernel ended");
            }
        });
        Started { pid, exit }
    }
}

impl Authorizer for Sandbox {
    fn admits(&self, token: Option<&[u8]>) -> bool {
        self.agent.admits(token)
    }

    fn admits_traffic(&self, token: Option<&[u8]>) -> bool {
        self.agent.admits_traffic(token)
    }
}

impl SandboxSettings for Sandbox {
    fn secrets(&self) -> Secrets {
        Secrets::new(self.agent.secrets()).unwrap_or_else(|error| {
            // The server has checked them before it accepted them.
            tracing::error!(error = %Chain(&error), "the sandbox's secrets are not masked");
            Secrets::default()
        })
    }

    fn environment(&self) -> BTreeMap<String, String> {
        self.agent.environment()
    }

    fn directory(&self) -> String {
        self.agent.default_directory().unwrap_or_else(|error| {
            tracing::debug!(error = %Chain(&error), "the sandbox has no user");
            FALLBACK_DIRECTORY.to_owned()
        })
    }
}

impl Processes for Sandbox {
    fn start(
        &self,
        command: Command,
        standard: [OwnedFd; 3],
    ) -> BoxFuture<'_, io::Result<Started>> {
        let agent = self.agent.clone();
        async move {
            let child = agent.start(program(command), standard).await;
            Ok(self.watch(child.map_err(io::Error::other)?))
        }
        .boxed()
    }

    fn fork(&self, command: Command, standard: [OwnedFd; 3]) -> BoxFuture<'_, Option<Started>> {
        let agent = self.agent.clone();
        async move {
            let program = program(command);
            let fork = move || forked::fork(&agent, &program, standard);
            let child = tokio::task::spawn_blocking(fork).await;
            child.ok().flatten().map(|child| self.watch(child))
        }
        .boxed()
    }

    fn signal(&self, pid: u32, signal: Signal) -> io::Result<()> {
        let leader = i32::try_from(pid).ok().and_then(Pid::from_raw);
        match leader {
            Some(leader) => self.agent.signal_group(leader, signal),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn make_directory(&self) -> io::Result<PathBuf> {
        self.agent.make_directory()
    }

    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.agent.write_file(path, content)
    }

    fn remove_directory(&self, directory: &Path) -> io::Result<()> {
        self.agent.remove_directory(directory)
    }

    fn read_file(&self, path: &Path, longest: u64) -> io::Result<Vec<u8>> {
        self.agent.read_file(path, longest)
    }

    fn names_in(&self, directory: &Path, most: usize) -> io::Result<Vec<String>> {
        self.agent.names_in(directory, most)
    }

    fn is_file(&self, path: &Path) -> bool {
        self.agent.is_file(path)
    }

    fn modified(&self, path: &Path) -> Option<SystemTime> {
        self.agent.modified(path)
    }

    fn null_device(&self) -> io::Result<OwnedFd> {
        self.agent.null_device()
    }

    fn out_of_memory_kills(&self) -> Option<u64> {
        self.agent.out_of_memory_kills()
    }

    fn is_short_of_memory(&self) -> BoxFuture<'static, bool> {
        let agent = self.agent.clone();
        async move {
            let looked = tokio::task::spawn_blocking(move || agent.is_short_of_memory());
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
        match self.meters.lock().get(&pid) {
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
