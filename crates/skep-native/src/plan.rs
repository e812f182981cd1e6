//! The launch plan of a sandbox.

use std::path::Path;

use skep_isolation::LaunchRequest;
use skep_launch::{
    Descriptor, LaunchPlan, Lifetime, Link, Network, Parent, PlannedFile, Privileges, Process,
    Program, Root, Top, Users,
};

use crate::defence::Defence;
use crate::firewall;
use crate::host::Host;
use crate::instance::{IDS, Slot};

/// Naming in the directory of a sandbox.
pub(crate) const IMAGE: &str = "disk.img";
pub(crate) const STAGING: &str = "staging";

/// The host name that programs written for E2B see.
pub(crate) const HOSTNAME: &str = "e2b.local";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const OPEN_FILES: (u64, u64) = (65_536, 1 << 20);
/// A host that is out of memory takes it from sandboxes first.
const OOM_SCORE_ADJUST: i16 = 100;
/// Numbers of the descriptors that the agent is passed: 3, 4, 5, and 6 and following.
const CONFIG_DESCRIPTOR: usize = 3;
const READY_DESCRIPTOR: usize = 4;
pub(crate) const LOG_DESCRIPTOR: usize = 5;
const FIRST_WORK_DESCRIPTOR: usize = 6;

/// Descriptors that travel with the plan.
#[derive(Debug)]
pub(crate) struct Passed {
    /// The `cgroup.procs` files of the cgroup in which the launcher makes namespaces.
    pub(crate) join: Vec<Descriptor>,
    /// The `cgroup.procs` files of the agent's cgroup, where that is another one.
    pub(crate) home: Vec<Descriptor>,
    pub(crate) agent: Descriptor,
    /// Takes what the sandbox writes to its root.
    pub(crate) disk: Descriptor,
    /// Standard error of the agent, for the operator.
    pub(crate) agent_stderr: Descriptor,
    /// Log of user code, for its owner.
    pub(crate) log: Descriptor,
    pub(crate) config: Descriptor,
    pub(crate) ready: Descriptor,
    /// The `cgroup.procs` files of the other cgroup, through which the agent sends what it starts.
    pub(crate) work: Vec<Descriptor>,
    /// File in which the agent reads how many processes were killed for want of memory.
    pub(crate) kill_count: Descriptor,
    /// Files with which the agent makes a cgroup for each kernel.
    pub(crate) kernels: Vec<(&'static str, Descriptor)>,
    /// The user namespace it is below, and the socket on which the agent asks for kernels.
    pub(crate) zygote: Option<(Parent, Descriptor)>,
}

pub(crate) fn plan(
    host: &Host,
    request: &LaunchRequest,
    slot: Slot,
    directory: &Path,
    passed: &Passed,
) -> LaunchPlan {
    let memory = u64::from(request.resources.memory_mib) << 20;
    let config = &host.config;
    LaunchPlan {
        cgroups: passed.join.clone(),
        home_cgroups: passed.home.clone(),
        users: if config.has(Defence::OwnUsers) {
            Users::Range {
                first: slot.first_id(),
                count: IDS,
            }
        } else {
            Users::Host
        },
        parent: passed.zygote.map(|(parent, _)| parent),
        network: if !config.has(Defence::OwnNetwork) {
            Network::Host
        } else {
            Network::Link(Link {
                host_name: slot.interface(),
                host_group: firewall::group(request.egress),
                address: slot.address(),
                gateway: host.naming.gateway(),
            })
        },
        root: Root {
            staging: directory.join(STAGING),
            layers: request.layers.clone(),
            top: Top::Mounted(passed.disk),
        },
        binds: Vec::new(),
        // Both are memory of the sandbox, so they are limited twice.
        shared_memory_bytes: memory / 2,
        run_bytes: Some(memory / 8),
        files: files(host),
        hostname: HOSTNAME.into(),
        process: process(host, passed),
        privileges: Privileges::Sandbox,
        lifetime: Lifetime::Detached,
        fail_at: host.fail_at(),
        without: config.without.iter().filter_map(of_launcher).collect(),
    }
}

fn process(host: &Host, passed: &Passed) -> Process {
    let work: Vec<_> = (0..passed.work.len())
        .map(|index| (FIRST_WORK_DESCRIPTOR + index).to_string())
        .collect();
    let kill_count = FIRST_WORK_DESCRIPTOR + work.len();
    let kernels: Vec<_> = (kill_count + 1..)
        .zip(&passed.kernels)
        .map(|(number, (name, _))| format!("{name}={number}"))
        .collect();
    let added = [
        "--config-fd".to_owned(),
        CONFIG_DESCRIPTOR.to_string(),
        "--ready-fd".to_owned(),
        READY_DESCRIPTOR.to_string(),
        "--log-fd".to_owned(),
        LOG_DESCRIPTOR.to_string(),
        "--work-cgroup-fds".to_owned(),
        work.join(","),
        "--kill-count-fd".to_owned(),
        kill_count.to_string(),
        "--kernel-cgroup-fds".to_owned(),
        kernels.join(","),
    ];
    let forks = kill_count + 1 + kernels.len();
    let asking = passed
        .zygote
        .map(|_| ["--fork-fd".to_owned(), forks.to_string()]);
    let arguments = host.config.agent_arguments.iter().cloned();
    Process {
        program: Program::Descriptor(passed.agent),
        arguments: arguments
            .chain(added)
            .chain(asking.into_iter().flatten())
            .collect(),
        environment: vec![
            ("PATH".into(), PATH.into()),
            ("HOME".into(), "/root".into()),
        ],
        working_directory: "/".into(),
        user: 0,
        group: 0,
        groups: Vec::new(),
        stdin: None,
        stdout: Some(passed.agent_stderr),
        stderr: Some(passed.agent_stderr),
        pass: [passed.config, passed.ready, passed.log]
            .into_iter()
            .chain(passed.work.iter().copied())
            .chain([passed.kill_count])
            .chain(passed.kernels.iter().map(|(_, directory)| *directory))
            .chain(passed.zygote.map(|(_, forks)| forks))
            .collect(),
        open_files: OPEN_FILES,
        oom_score_adjust: OOM_SCORE_ADJUST,
    }
}

fn files(host: &Host) -> Vec<PlannedFile> {
    let file = |path: &str, content: String| PlannedFile {
        path: path.into(),
        content,
        mode: 0o644,
    };
    vec![
        file("/etc/hostname", format!("{HOSTNAME}\n")),
        file(
            "/etc/hosts",
            format!(
                "127.0.0.1\tlocalhost\n127.0.1.1\t{HOSTNAME}\n::1\tlocalhost ip6-localhost ip6-loopback\n"
            ),
        ),
        file(
            "/etc/resolv.conf",
            format!("nameserver {}\n", host.naming.gateway()),
        ),
    ]
}

/// The defence, if it is the launcher that puts it up.
fn of_launcher(defence: &Defence) -> Option<skep_launch::Defence> {
    match defence {
        Defence::Launch(defence) => Some(*defence),
        Defence::OwnUsers
        | Defence::OwnNetwork
        | Defence::DeniedRanges
        | Defence::ClosedHost
        | Defence::ClosedNeighbours
        | Defence::CheckedSenders
        | Defence::CheckedNames
        | Defence::CountedSockets
        | Defence::UntrackedNames
        | Defence::ApartNetworks => None,
    }
}
