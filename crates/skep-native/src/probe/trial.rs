//! A launch up to the last step, which shows what no setting tells.

use std::time::Duration;

use skep_host::{IDS, TrialLease};
use skep_launch::{
    Descriptors, LaunchPlan, Link, Network, Process, Program, Root, SpawnError, Step, Top, Users,
};
use skep_telemetry::Chain;
use skep_types::Check;

use crate::config::NativeConfig;

/// Time limit for the launcher. It takes milliseconds, unless the host is overloaded.
const LAUNCHER_TIMEOUT: Duration = Duration::from_secs(20);

/// Carries out every step of a launch except the execution itself.
pub(super) fn launch(config: &NativeConfig) -> Check {
    let name = "a launch";
    match try_launch(config) {
        Ok(()) => Check::good(
            name,
            "every step works: namespaces, id-mapped layers, overlay, disk image, link, filter",
        ),
        Err(Trial::Launch(SpawnError::Step {
            step,
            source,
            thing,
        })) => {
            let thing = thing.map(|thing| format!(" `{thing}`")).unwrap_or_default();
            Check::missing(
                name,
                format!("fails while {step}{thing}: {source}"),
                cure(step),
            )
        }
        Err(Trial::Launch(error)) => Check::missing(
            name,
            Chain(&error).to_string(),
            "run the doctor of the executable that is installed",
        ),
        Err(Trial::Prepare(error)) => Check::missing(
            name,
            format!("cannot be prepared: {}", Chain(error.as_ref())),
            "make the data directory writable, on a disk with space",
        ),
    }
}

enum Trial {
    Prepare(Box<dyn std::error::Error + Send + Sync>),
    Launch(SpawnError),
}

fn try_launch(config: &NativeConfig) -> Result<(), Trial> {
    let lease = TrialLease::acquire(&config.host.data_dir).map_err(Trial::Prepare)?;
    match config.launcher.launch(plan(&lease), LAUNCHER_TIMEOUT) {
        // It was told to go no further.
        Err(SpawnError::Step {
            step: Step::Execute,
            source,
            ..
        }) if source.raw_os_error() == Some(rustix::io::Errno::CANCELED.raw_os_error()) => Ok(()),
        Err(error) => Err(Trial::Launch(error)),
        Ok(_) => Ok(()),
    }
}

fn plan(lease: &TrialLease) -> LaunchPlan {
    let root = Root {
        staging: lease.staging(),
        layers: vec![lease.layer()],
        below: Vec::new(),
        top: Top::Image(lease.image()),
    };
    let process = Process::new(Program::Path("/nothing".into()), []);
    let users = Users::Range {
        first: lease.first_id(),
        count: IDS,
    };
    let mut plan = LaunchPlan::new(Descriptors::default(), users, root, process);
    let link = lease.link();
    plan.network = Network::Link(Link {
        host_name: link.interface,
        host_group: link.group,
        address: lease.address(),
        gateway: lease.gateway(),
        // Nobody has it where no server runs.
        host_address: None,
    });
    plan.fail_at = Some(Step::Execute);
    plan
}

/// The usual cure for the failure of a step.
fn cure(step: Step) -> &'static str {
    match step {
        Step::LeaveNamespaces | Step::CloneProcess | Step::OwnMounts => {
            "run on the host itself, or in a container that may make namespaces"
        }
        Step::MapUsers | Step::BecomeRoot | Step::LimitNamespaces => {
            "use a kernel with CONFIG_USER_NS, and sysctl user.max_user_namespaces above 0"
        }
        Step::MakeLink | Step::ConfigureNetwork => "use a kernel with veth; modprobe veth",
        Step::MountImage => "use a kernel with ext4 and loop devices; modprobe loop",
        Step::MapLayers => {
            "put the data directory on ext4, XFS or btrfs, whose mounts can be id-mapped"
        }
        Step::MountOverlay => "use Linux 5.19 or newer with overlayfs; modprobe overlay",
        Step::InstallFilter => "use a kernel with CONFIG_SECCOMP_FILTER",
        Step::ReadPlan
        | Step::JoinCgroups
        | Step::SettleCgroups
        | Step::SetLimits
        | Step::MakeDevices
        | Step::MountSystem
        | Step::BindFiles
        | Step::PivotRoot
        | Step::MountProc
        | Step::ShowVolumes
        | Step::WriteFiles
        | Step::SetUpProcess
        | Step::DropCapabilities
        | Step::BecomeUser
        | Step::Execute
        | Step::HandOver
        | Step::FillMemory
        | Step::RestoreProcesses
        | Step::DumpProcesses => "run as root, outside of containers that forbid it",
    }
}
