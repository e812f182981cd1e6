//! Running a step through the launcher.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Signal, pidfd_send_signal};
use skep_launch::{
    Descriptors, Ended, LaunchPlan, Launcher, Network, Privileges, Process, Program, Root, Top,
    Users,
};

use crate::child::{Urgency, follow};
use crate::step::{StepError, StepLaunch, StepRunner, Surroundings};

/// Time limit for the launcher to get the step going, and to say how it ended when its output is
/// over.
const LAUNCHER_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs steps through the launcher: as the host's root, but in a mount, pid, ipc, uts and
/// cgroup namespace of their own and under the launcher's filter.
#[derive(Debug, Clone)]
pub struct LaunchRunner {
    launcher: Launcher,
}

impl LaunchRunner {
    /// Runs steps with this launcher.
    pub fn new(launcher: Launcher) -> Self {
        Self { launcher }
    }
}

impl StepRunner for LaunchRunner {
    fn run(&self, launch: &StepLaunch, surroundings: Surroundings<'_>) -> Result<(), StepError> {
        let (reader, writer) = io::pipe().map_err(StepError::system("make a pipe"))?;
        let mut plan = plan(launch);
        plan.output(writer);
        let mut started = self
            .launcher
            .launch(plan, LAUNCHER_TIMEOUT)
            .map_err(StepError::system("launch the step"))?;
        let pidfd = started
            .pidfd
            .try_clone()
            .map_err(StepError::system("keep the step's process"))?;
        let mut stop = |urgency| {
            // The step's first process is its init; the kernel ends everything else with it.
            // It has no handler for a gentle signal, so asking and forcing are the same.
            let (Urgency::Ask | Urgency::Force) = urgency;
            if let Err(error) = pidfd_send_signal(&pidfd, Signal::KILL) {
                tracing::debug!(%error, "the step has ended by itself");
            }
        };
        let stopped = follow(reader, surroundings.cancel, &mut stop, surroundings.output);
        if let Some(stopped) = stopped {
            return Err(StepError::stopped(stopped));
        }
        let ended = started
            .wait(Some(LAUNCHER_TIMEOUT))
            .map_err(StepError::system("learn how the step ended"))?;
        match ended {
            Some(Ended::Code(0)) => Ok(()),
            Some(Ended::Code(code)) => Err(StepError::Failed(format!("exit code {code}"))),
            Some(Ended::Signal(signal)) => Err(StepError::Failed(format!("signal {signal}"))),
            None => Err(StepError::Failed(
                "its output closed but the process still running".to_owned(),
            )),
        }
    }
}

/// The plan of a step. It leases nothing of the host: a step of our own recipes runs as the host's
/// root on the host's network, in directories of the content store.
fn plan(launch: &StepLaunch) -> LaunchPlan {
    let root = Root {
        staging: launch.staging.clone(),
        layers: launch.layers.clone(),
        below: Vec::new(),
        top: Top::Directories {
            upper: launch.upper.clone(),
            work: launch.work.clone(),
        },
    };
    let program = Program::Path(launch.command[0].clone());
    let mut process = Process::new(program, launch.command.iter().cloned());
    process.environment.clone_from(&launch.env);
    process.working_directory.clone_from(&launch.workdir);
    let mut plan = LaunchPlan::new(Descriptors::default(), Users::Host, root, process);
    plan.network = Network::Host;
    plan.binds.clone_from(&launch.mounts);
    plan.run_bytes = Some(64 << 20);
    plan.privileges = Privileges::Build;
    // The default of the host's name resolves in any template.
    plan
}

/// The host's own resolver settings, which a step needs to find registries.
pub(crate) fn resolver() -> PathBuf {
    PathBuf::from("/etc/resolv.conf")
}
