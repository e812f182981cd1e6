//! The launch plan of a sandbox.

use std::os::fd::OwnedFd;

use skep_agent_protocol::{MemoryInfo, fds};
use skep_host::{IDS, Lease, Parts};
use skep_isolation::{LaunchError, LaunchRequest};
use skep_launch::{
    Descriptors, LaunchPlan, Lifetime, Link, Network, PlannedFile, Process, Program, Root, Top,
    Users,
};

use crate::config::NativeConfig;
use crate::defence::Defence;
use crate::launch::failed;
use crate::zygote::Holder;

/// The host name that programs written for E2B see.
pub(crate) const HOSTNAME: &str = "e2b.local";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const OPEN_FILES: (u64, u64) = (65_536, 1 << 20);
/// A host that is out of memory takes it from sandboxes first.
const OOM_SCORE_ADJUST: i16 = 100;

/// The agent's own descriptors, beside those of its lease.
#[derive(Debug)]
pub(crate) struct AgentFds {
    pub(crate) program: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// Its configuration.
    pub(crate) config: OwnedFd,
    /// Gets one byte when it listens.
    pub(crate) ready: OwnedFd,
    /// The socket on which it asks for kernels, and the zygote that it is below.
    pub(crate) forks: Option<OwnedFd>,
}

/// The plan of a sandbox, and the number that its agent knows its log by.
pub(crate) struct SandboxPlan {
    pub(crate) plan: LaunchPlan,
    pub(crate) log_fd: i32,
}

/// Writes the plan of a sandbox that has its lease.
pub(crate) fn plan(
    config: &NativeConfig,
    request: &LaunchRequest,
    lease: &Lease,
    parts: Parts,
    agent: AgentFds,
    holder: Option<&Holder>,
) -> Result<SandboxPlan, LaunchError> {
    let mut descriptors = Descriptors::default();
    let program = Program::Descriptor(descriptors.add(agent.program));
    let disk = descriptors.add(parts.disk);
    let root = Root {
        staging: lease.staging(),
        layers: request.layers.clone(),
        below: (parts.below.into_iter())
            .map(|disk| descriptors.add(disk))
            .collect(),
        top: if request.becomes_layer {
            Top::MountedForLayer(disk)
        } else {
            Top::Mounted(disk)
        },
    };
    let users = users(config, lease);
    let mut plan = LaunchPlan::new(descriptors, users, root, process(config, program));
    plan.network = network(config, lease);
    let memory = u64::from(request.resources.memory_mib) << 20;
    // Both are memory of the sandbox, so they are limited twice.
    plan.shared_memory_bytes = memory / 2;
    plan.run_bytes = Some(memory / 8);
    plan.files = files(lease);
    plan.hostname = HOSTNAME.into();
    plan.lifetime = Lifetime::Detached;
    plan.without = (config.without.iter())
        .filter_map(|defence| defence.of_launcher())
        .collect();
    plan.output(agent.stderr);
    plan.join(parts.join_fds.join);
    plan.join_home(parts.join_fds.home);
    if let Some(settings) = parts.join_fds.settings {
        plan.set_cgroups(settings.directory, settings.files);
    }
    show_volumes(&mut plan, config, request)?;
    if let Some(holder) = holder {
        let namespace = holder
            .namespace
            .try_clone()
            .map_err(failed("copy a descriptor"))?;
        plan.below(namespace, holder.first_id(lease.slot()));
    }
    plan.pass(fds::CONFIG, agent.config);
    plan.pass(fds::READY, agent.ready);
    let log = lease.share_log().map_err(failed("copy a descriptor"))?;
    let log_fd = plan.pass(fds::LOG, log);
    for file in parts.join_fds.work {
        plan.pass(fds::WORK_CGROUP, file);
    }
    plan.pass(fds::KILL_COUNT, parts.join_fds.kill_count);
    plan.pass(fds::MEMORY_USED, parts.join_fds.memory_used);
    plan.pass(fds::MEMORY_STATISTICS, parts.join_fds.memory_statistics);
    plan.show_memory(fds::MEMORY_INFO, MemoryInfo::unused(memory).to_text());
    for (name, file) in kernel_cgroups(config, lease)? {
        plan.pass(name, file);
    }
    if let Some(forks) = agent.forks {
        plan.pass(fds::FORKS, forks);
    }
    let table = plan.process.fd_table();
    plan.process.arguments.extend(["--fds".into(), table]);
    Ok(SandboxPlan { plan, log_fd })
}

/// Mounts the volumes of a sandbox and adds them to its plan.
pub(crate) fn show_volumes(
    plan: &mut LaunchPlan,
    config: &NativeConfig,
    request: &LaunchRequest,
) -> Result<(), LaunchError> {
    let Some(volumes) = &config.volumes else {
        return Ok(());
    };
    for mount in &request.mounts {
        let found = volumes
            .mount(mount.volume)
            .map_err(failed("mount a volume"))?;
        let target = mount.target.as_str();
        plan.show_volume(found.mount, found.directory, target, !mount.read_only);
    }
    Ok(())
}

/// The agent, without its descriptors.
pub(crate) fn process(config: &NativeConfig, program: Program) -> Process {
    let mut process = Process::new(program, config.agent_arguments.iter().cloned());
    process.environment = vec![
        ("PATH".into(), PATH.into()),
        ("HOME".into(), "/root".into()),
    ];
    process.open_files = OPEN_FILES;
    process.oom_score_adjust = OOM_SCORE_ADJUST;
    process
}

/// Files with which the agent makes a cgroup for each kernel, by the names it knows them by.
pub(crate) fn kernel_cgroups(
    config: &NativeConfig,
    lease: &Lease,
) -> Result<Vec<(String, OwnedFd)>, LaunchError> {
    // The owner is the agent, root of the sandbox's own users, if it has such.
    let owner = (config.has(Defence::OwnUsers)).then(|| lease.slot().first_id());
    let delegated = lease
        .delegate(owner)
        .map_err(failed("give the agent its cgroups"))?;
    let named = delegated.into_iter();
    Ok(named
        .map(|(name, file)| (format!("{}{name}", fds::KERNEL_CGROUP), file))
        .collect())
}

pub(crate) fn users(config: &NativeConfig, lease: &Lease) -> Users {
    if config.has(Defence::OwnUsers) {
        Users::Range {
            first: lease.slot().first_id(),
            count: IDS,
        }
    } else {
        Users::Host
    }
}

pub(crate) fn network(config: &NativeConfig, lease: &Lease) -> Network {
    if !config.has(Defence::OwnNetwork) {
        return Network::Host;
    }
    let link = lease.link();
    Network::Link(Link {
        host_name: link.interface,
        host_group: link.group,
        address: lease.slot().address(),
        gateway: lease.gateway(),
        host_address: Some(lease.gateway()),
    })
}

/// Files that every launch writes anew. No layer has them.
pub(crate) const LAUNCH_FILES: [&str; 3] = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"];

fn files(lease: &Lease) -> Vec<PlannedFile> {
    let [hostname, hosts, resolver] = LAUNCH_FILES;
    let file = |path: &str, content: String| PlannedFile {
        path: path.into(),
        content,
        mode: 0o644,
    };
    vec![
        file(hostname, format!("{HOSTNAME}\n")),
        file(
            hosts,
            format!(
                "127.0.0.1\tlocalhost\n127.0.1.1\t{HOSTNAME}\n::1\tlocalhost ip6-localhost ip6-loopback\n"
            ),
        ),
        file(resolver, format!("nameserver {}\n", lease.gateway())),
    ]
}
