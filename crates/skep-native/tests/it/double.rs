//! A zygote without Python: forks the probe into sandboxes, honestly or not.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::{DumpableBehavior, Gid, Pid, Uid, WaitId, WaitIdOptions, WaitOptions};
use rustix::thread::{
    CapabilitySet, CapabilitySets, LinkNameSpaceType, UnshareFlags, move_into_link_name_space,
};
use serde::Deserialize;
use skep_linux::packet::{self, Packet};
use skep_linux::{Cloned, Instruction};

const A_LONG_TIME: Duration = Duration::from_secs(3600);

/// Name of the environment variable with the question that a sandbox's kernel answers.
pub(crate) const QUESTION: &str = "QUESTION";

/// A step that the double leaves out or does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cheat {
    None,
    NoFilter,
    NoBounds,
    KeepsCapabilities,
    KeepsDescriptor,
    StaysInCgroup,
    StaysInNetwork,
    StaysRoot,
    OtherGroup,
    /// Enters the pid namespace while it has rights, as the first version did.
    EntersFirst,
    /// Looks as if somebody in the sandbox had changed what its user may change.
    ChangedScore,
    /// Begins, and goes no further.
    Stalls,
    EarlierVersion,
    NeverReady,
    NeverAnswers,
    Dies,
}

impl Cheat {
    fn named(name: &str) -> Self {
        match name {
            "none" => Self::None,
            "no-filter" => Self::NoFilter,
            "no-bounds" => Self::NoBounds,
            "keeps-capabilities" => Self::KeepsCapabilities,
            "keeps-descriptor" => Self::KeepsDescriptor,
            "stays-in-cgroup" => Self::StaysInCgroup,
            "stays-in-network" => Self::StaysInNetwork,
            "stays-root" => Self::StaysRoot,
            "other-group" => Self::OtherGroup,
            "enters-first" => Self::EntersFirst,
            "changed-score" => Self::ChangedScore,
            "stalls" => Self::Stalls,
            "earlier-version" => Self::EarlierVersion,
            "never-ready" => Self::NeverReady,
            "never-answers" => Self::NeverAnswers,
            "dies" => Self::Dies,
            _ => panic!("no such cheat: {name}"),
        }
    }
}

/// The first line of a plan.
#[derive(Deserialize)]
struct Plan {
    first_doors: usize,
    capabilities: u64,
    filters: Vec<String>,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// The second one.
#[derive(Deserialize)]
struct Wanted {
    environment: BTreeMap<String, String>,
    directory: String,
}

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let cheat = Cheat::named(&arguments[0]);
    let control = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let version: &[u8] = if cheat == Cheat::EarlierVersion {
        b"r"
    } else {
        b"2"
    };
    if cheat != Cheat::NeverReady {
        packet::send(&control, version, &[]).unwrap();
    }
    let mut unanswered = Vec::new();
    loop {
        let question = packet::receive(&control, 1, Instant::now() + A_LONG_TIME).unwrap();
        let Some(question) = question else {
            return ExitCode::SUCCESS;
        };
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        if cheat == Cheat::Dies {
            return ExitCode::FAILURE;
        }
        if cheat == Cheat::NeverAnswers {
            // With its descriptors open: whoever asked sees no end.
            unanswered.push(question);
            continue;
        }
        if cheat == Cheat::EntersFirst {
            enter_processes(&question);
        }
        if let Cloned::Child = skep_linux::clone_process(UnshareFlags::empty()).unwrap() {
            drop(control);
            begin(question, cheat);
            skep_linux::exit_now(0)
        }
    }
}

fn enter_processes(question: &Packet) {
    let pid = question.descriptors[2].as_fd();
    move_into_link_name_space(pid, Some(LinkNameSpaceType::ProcessID)).unwrap();
}

/// Does what the Python zygote does, but for the cheat.
fn begin(question: Packet, cheat: Cheat) {
    let file = std::fs::File::from(question.descriptors[0].try_clone().unwrap());
    let mut lines = BufReader::new(file).lines().map(Result::unwrap);
    let plan: Plan = serde_json::from_str(&lines.next().unwrap()).unwrap();
    let wanted: Wanted = serde_json::from_str(&lines.next().unwrap()).unwrap();
    drop(lines);
    packet::send(&question.descriptors[1], b"b", &[]).unwrap();
    if cheat == Cheat::Stalls {
        loop {
            std::thread::park();
        }
    }
    let (reply, extra) = give_up_rights(question, &plan, cheat);
    match skep_linux::clone_process(UnshareFlags::empty()).unwrap() {
        Cloned::Child => {
            if let Cloned::Child = skep_linux::clone_process(UnshareFlags::empty()).unwrap() {
                become_kernel(&wanted, cheat, reply, extra);
            }
            skep_linux::exit_now(0)
        }
        // A sandbox does not end before somebody has waited for each process in it.
        Cloned::Parent(between) => {
            drop((reply, extra));
            let between = WaitId::PidFd(between.pidfd.as_fd());
            rustix::process::waitid(between, WaitIdOptions::EXITED).unwrap();
        }
    }
}

/// The reply is all that is left of the question, but for the cheat.
fn give_up_rights(question: Packet, plan: &Plan, cheat: Cheat) -> (OwnedFd, Option<OwnedFd>) {
    let join_fds = &question.descriptors[12..];
    if cheat != Cheat::StaysInCgroup {
        join(&join_fds[..plan.first_doors]);
    }
    enter(&question, cheat);
    rustix::thread::set_thread_groups(&[]).unwrap();
    become_user(0, 0);
    join(&join_fds[plan.first_doors..]);
    let (reply, mounts) = arrange(question);
    let extra = (cheat == Cheat::KeepsDescriptor).then(|| reply.try_clone().unwrap());
    if cheat != Cheat::NoBounds {
        cut_bounding_set(plan.capabilities);
    }
    rustix::thread::set_keep_capabilities(true).unwrap();
    let other = (cheat == Cheat::OtherGroup).then_some(27);
    let groups: Vec<Gid> = plan
        .groups
        .iter()
        .copied()
        .chain(other)
        .map(Gid::from_raw)
        .collect();
    rustix::thread::set_thread_groups(&groups).unwrap();
    if cheat != Cheat::StaysRoot {
        become_user(plan.uid, plan.gid);
    }
    rustix::thread::set_keep_capabilities(false).unwrap();
    let entering = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_CHROOT;
    have_only(entering);
    move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount)).unwrap();
    drop(mounts);
    if cheat != Cheat::NoFilter {
        plan.filters.iter().for_each(|filter| install(filter));
    }
    if cheat != Cheat::KeepsCapabilities {
        have_only(CapabilitySet::empty());
    }
    (reply, extra)
}

fn become_kernel(wanted: &Wanted, cheat: Cheat, reply: OwnedFd, extra: Option<OwnedFd>) {
    rustix::process::setsid().unwrap();
    rustix::process::chdir(wanted.directory.as_str()).unwrap();
    while rustix::process::getppid() != Pid::from_raw(1) {
        std::thread::yield_now();
    }
    if cheat == Cheat::ChangedScore {
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
        std::fs::write("/proc/self/oom_score_adj", "777").unwrap();
    }
    packet::send(&reply, b"w", &[]).unwrap();
    let go = packet::receive(&reply, 1, Instant::now() + A_LONG_TIME);
    if !matches!(go, Ok(Some(_))) {
        skep_linux::exit_now(75);
    }
    drop((reply, extra));
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
    let answer = crate::probe::answer(&wanted.environment[QUESTION]);
    let mut output = std::io::stdout().lock();
    output.write_all(answer.as_bytes()).unwrap();
    output.flush().unwrap();
}

fn join(join_fds: &[OwnedFd]) {
    for procs in join_fds {
        rustix::io::write(procs, b"0").unwrap();
    }
}

fn enter(question: &Packet, cheat: Cheat) {
    let kinds = [
        (3, LinkNameSpaceType::Network),
        (4, LinkNameSpaceType::User),
        (6, LinkNameSpaceType::InterProcessCommunication),
        (7, LinkNameSpaceType::HostNameAndNISDomainName),
        (8, LinkNameSpaceType::ControlGroup),
    ];
    for (place, kind) in kinds {
        if cheat == Cheat::StaysInNetwork && place == 3 {
            continue;
        }
        let namespace = question.descriptors[place].as_fd();
        move_into_link_name_space(namespace, Some(kind)).unwrap();
    }
    if cheat != Cheat::EntersFirst {
        enter_processes(question);
    }
}

fn have_only(capabilities: CapabilitySet) {
    let sets = CapabilitySets {
        effective: capabilities,
        permitted: capabilities,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets).unwrap();
}

fn become_user(user: u32, group: u32) {
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    rustix::thread::set_thread_res_gid(group, group, group).unwrap();
    rustix::thread::set_thread_res_uid(user, user, user).unwrap();
}

/// Leaves only the standard descriptors open, the reply, which gets number three, and the mount
/// namespace.
fn arrange(question: Packet) -> (OwnedFd, OwnedFd) {
    rustix::stdio::dup2_stdin(&question.descriptors[9]).unwrap();
    rustix::stdio::dup2_stdout(&question.descriptors[10]).unwrap();
    rustix::stdio::dup2_stderr(&question.descriptors[11]).unwrap();
    let mut descriptors = question.descriptors.into_iter();
    drop(descriptors.next());
    let reply = descriptors.next().unwrap();
    let mounts = descriptors.nth(3).unwrap();
    drop(descriptors);
    // The first free number is three.
    (reply.try_clone().unwrap(), mounts)
}

fn cut_bounding_set(kept: u64) {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if kept & capability.bits() != 0 {
            continue;
        }
        if rustix::thread::remove_capability_from_bounding_set(capability).is_err() {
            return;
        }
    }
}

fn install(filter: &str) {
    let bytes: Vec<u8> = (0..filter.len() / 2)
        .map(|index| u8::from_str_radix(&filter[2 * index..2 * index + 2], 16).unwrap())
        .collect();
    let instructions: Vec<_> = bytes
        .chunks_exact(8)
        .map(|piece| Instruction {
            code: u16::from_ne_bytes([piece[0], piece[1]]),
            jump_true: piece[2],
            jump_false: piece[3],
            operand: u32::from_ne_bytes([piece[4], piece[5], piece[6], piece[7]]),
        })
        .collect();
    skep_linux::install_filter(&instructions).unwrap();
}
