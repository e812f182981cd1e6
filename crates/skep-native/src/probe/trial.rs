//! A launch up to the last step, which shows what no setting tells.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use skep_launch::{
    Descriptors, LaunchPlan, Lifetime, Link, Network, Privileges, Process, Program, Root,
    SpawnError, Step, Top, Users,
};
use skep_telemetry::Chain;

use super::Check;
use crate::config::NativeConfig;
use crate::disk::Disks;
use crate::instance;

const DEADLINE: Duration = Duration::from_secs(20);
const DISK_MIB: u32 = 16;
/// The last addresses of the sandboxes' range, which no server gives to a sandbox.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 253);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 254);

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
    let prepare = |error: io::Error| Trial::Prepare(error.into());
    std::fs::create_dir_all(&config.data_dir).map_err(prepare)?;
    let directory = Scratch::new(
        config
            .data_dir
            .join(format!("probe-{}", std::process::id())),
    );
    for part in ["", "layer", "staging"] {
        std::fs::create_dir(directory.0.join(part)).map_err(prepare)?;
    }
    let image = directory.0.join("disk.img");
    Disks::new(directory.0.join("disks"), 0)
        .map_err(prepare)?
        .make(&image, DISK_MIB)
        .map_err(|error| Trial::Prepare(error.into()))?;
    let plan = plan(&directory.0, image);
    let launched = config
        .launcher
        .launch(&plan, Descriptors::default(), DEADLINE);
    match launched {
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

fn plan(directory: &std::path::Path, image: std::path::PathBuf) -> LaunchPlan {
    LaunchPlan {
        cgroups: Vec::new(),
        home_cgroups: Vec::new(),
        users: Users::Range {
            first: *instance::all_ids().start(),
            count: instance::IDS,
        },
        parent: None,
        network: Network::Link(Link {
            host_name: format!("skepprobe{}", std::process::id() % 100_000),
            host_group: 0,
            address: ADDRESS,
            gateway: GATEWAY,
        }),
        root: Root {
            staging: directory.join("staging"),
            layers: vec![directory.join("layer")],
            top: Top::Image(image),
        },
        binds: Vec::new(),
        shared_memory_bytes: 1 << 20,
        run_bytes: Some(1 << 20),
        files: Vec::new(),
        hostname: "probe".into(),
        process: Process {
            program: Program::Path("/nothing".into()),
            arguments: Vec::new(),
            environment: Vec::new(),
            working_directory: "/".into(),
            user: 0,
            group: 0,
            groups: Vec::new(),
            stdin: None,
            stdout: None,
            stderr: None,
            pass: Vec::new(),
            open_files: (256, 256),
            oom_score_adjust: 0,
        },
        privileges: Privileges::Sandbox,
        lifetime: Lifetime::Tied,
        fail_at: Some(Step::Execute),
        without: Vec::new(),
    }
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
        | Step::SetLimits
        | Step::MakeDevices
        | Step::MountSystem
        | Step::BindFiles
        | Step::PivotRoot
        | Step::MountProc
        | Step::WriteFiles
        | Step::SetUpProcess
        | Step::DropCapabilities
        | Step::BecomeUser
        | Step::Execute
        | Step::HandOver => "run as root, outside of containers that forbid it",
    }
}

/// A directory that is gone when the trial is over.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(path: std::path::PathBuf) -> Self {
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, directory = %self.0.display(), "a directory of the probe is left");
        }
    }
}
