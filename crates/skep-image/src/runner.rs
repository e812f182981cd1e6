//! Running a step through the launcher.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Signal, pidfd_send_signal};
use skep_launch::{
    Bind, Descriptors, Ended, LaunchPlan, Launcher, Lifetime, Network, Privileges, Process,
    Program, Root, Top, Users,
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
        let mut descriptors = Descriptors::default();
        let output = descriptors.add(writer);
        let plan = plan(launch, output);
        let mut started = self
            .launcher
            .launch(&plan, descriptors, LAUNCHER_TIMEOUT)
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

fn plan(launch: &StepLaunch, output: skep_launch::Descriptor) -> LaunchPlan {
    LaunchPlan {
        cgroups: Vec::new(),
        home_cgroups: Vec::new(),
        users: Users::Host,
        parent: None,
        network: Network::Host,
        root: Root {
            staging: launch.staging.clone(),
            layers: launch.layers.clone(),
            top: Top::Directories {
                upper: launch.upper.clone(),
                work: launch.work.clone(),
            },
        },
        binds: launch
            .mounts
            .iter()
            .map(|mount| Bind {
                source: mount.source.clone(),
                target: mount.target.clone(),
                writable: mount.writable,
            })
            .collect(),
        shared_memory_bytes: 64 << 20,
        run_bytes: Some(64 << 20),
        files: Vec::new(),
        // A name that resolves in any template.
        hostname: "localhost".to_owned(),
        process: Process {
            program: Program::Path(launch.command[0].clone()),
            arguments: launch.command.clone(),
            environment: launch.env.clone(),
            working_directory: launch.workdir.clone(),
            user: 0,
            group: 0,
            groups: Vec::new(),
            stdin: None,
            stdout: Some(output),
            stderr: Some(output),
            pass: Vec::new(),
            open_files: (1024, 1 << 20),
            oom_score_adjust: 0,
        },
        privileges: Privileges::Build,
        lifetime: Lifetime::Tied,
        fail_at: None,
        without: Vec::new(),
    }
}

/// The host's own resolver settings, which a step needs to find registries.
pub(crate) fn resolver() -> PathBuf {
    PathBuf::from("/etc/resolv.conf")
}
