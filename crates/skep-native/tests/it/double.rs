//! A zygote without Python: forks the probe into sandboxes, honestly or not.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::{DumpableBehavior, Gid, Pid, Uid, WaitId, WaitIdOptions};
use rustix::thread::{
    CapabilitySet, CapabilitySets, LinkNameSpaceType, UnshareFlags, move_into_link_name_space,
};
use serde::Deserialize;
use skep_linux::packet::{self, Packet};
use skep_linux::{Cloned, Instruction};

const A_LONG_TIME: Duration = Duration::from_secs(3600);

/// What the kernel of a sandbox answers, by the name of a variable.
pub(crate) const QUESTION: &str = "QUESTION";

/// What it leaves out or adds.
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
            "never-ready" => Self::NeverReady,
            "never-answers" => Self::NeverAnswers,
            "dies" => Self::Dies,
            _ => panic!("no such cheat: {name}"),
        }
    }
}

#[derive(Deserialize)]
struct Plan {
    first_doors: usize,
    capabilities: u64,
    filters: Vec<String>,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    environment: BTreeMap<String, String>,
    directory: String,
}

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let cheat = Cheat::named(&arguments[0]);
    let control = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    if cheat != Cheat::NeverReady {
        packet::send(&control, b"r", &[]).unwrap();
    }
    let mut unanswered = Vec::new();
    loop {
        let question = packet::receive(&control, 1, Instant::now() + A_LONG_TIME).unwrap();
        let Some(question) = question else {
            return ExitCode::SUCCESS;
        };
        if cheat == Cheat::Dies {
            return ExitCode::FAILURE;
        }
        if cheat == Cheat::NeverAnswers {
            // With its descriptors open: whoever asked sees no end.
            unanswered.push(question);
            continue;
        }
        let pid = question.descriptors[2].as_fd();
        move_into_link_name_space(pid, Some(LinkNameSpaceType::ProcessID)).unwrap();
        match skep_linux::clone_process(UnshareFlags::empty()).unwrap() {
            Cloned::Child => match skep_linux::clone_process(UnshareFlags::empty()).unwrap() {
                Cloned::Child => {
                    drop(control);
                    become_kernel(question, cheat);
                    skep_linux::exit_now(7)
                }
                Cloned::Parent(_) => skep_linux::exit_now(0),
            },
            Cloned::Parent(between) => {
                let between = WaitId::PidFd(between.pidfd.as_fd());
                rustix::process::waitid(between, WaitIdOptions::EXITED).unwrap();
            }
        }
    }
}

/// As the Python zygote does it, but for the cheat.
fn become_kernel(question: Packet, cheat: Cheat) {
    rustix::process::setsid().unwrap();
    while rustix::process::getppid() != Pid::from_raw(1) {
        std::thread::yield_now();
    }
    let file = std::fs::File::from(question.descriptors[0].try_clone().unwrap());
    let plan: Plan = serde_json::from_reader(file).unwrap();
    let doors = &question.descriptors[12..];
    if cheat != Cheat::StaysInCgroup {
        join(&doors[..plan.first_doors]);
    }
    enter(&question.descriptors[3..9], cheat);
    rustix::thread::set_thread_groups(&[]).unwrap();
    become_user(0, 0);
    join(&doors[plan.first_doors..]);
    let reply = arrange(question);
    // The first free number is three again.
    let extra = (cheat == Cheat::KeepsDescriptor).then(|| reply.try_clone().unwrap());
    if cheat != Cheat::NoBounds {
        cut_bounding_set(plan.capabilities);
    }
    if cheat != Cheat::NoFilter {
        plan.filters.iter().for_each(|filter| install(filter));
    }
    if cheat == Cheat::KeepsCapabilities {
        rustix::thread::set_keep_capabilities(true).unwrap();
    }
    let other = (cheat == Cheat::OtherGroup).then_some(27);
    let groups = plan.groups.iter().copied().chain(other);
    let groups: Vec<Gid> = groups.map(Gid::from_raw).collect();
    rustix::thread::set_thread_groups(&groups).unwrap();
    if cheat != Cheat::StaysRoot {
        become_user(plan.uid, plan.gid);
    }
    if cheat != Cheat::KeepsCapabilities {
        let nothing = CapabilitySet::empty();
        let sets = CapabilitySets {
            effective: nothing,
            permitted: nothing,
            inheritable: nothing,
        };
        rustix::thread::set_capabilities(None, sets).unwrap();
    }
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
    rustix::process::chdir(plan.directory.as_str()).unwrap();
    packet::send(&reply, b"r", &[]).unwrap();
    let go = packet::receive(&reply, 1, Instant::now() + A_LONG_TIME);
    if !matches!(go, Ok(Some(_))) {
        skep_linux::exit_now(75);
    }
    drop((reply, extra));
    let answer = crate::probe::answer(&plan.environment[QUESTION]);
    let mut output = std::io::stdout().lock();
    output.write_all(answer.as_bytes()).unwrap();
    output.flush().unwrap();
}

fn join(doors: &[OwnedFd]) {
    for door in doors {
        rustix::io::write(door, b"0").unwrap();
    }
}

fn enter(namespaces: &[OwnedFd], cheat: Cheat) {
    let kinds = [
        LinkNameSpaceType::Network,
        LinkNameSpaceType::User,
        LinkNameSpaceType::Mount,
        LinkNameSpaceType::InterProcessCommunication,
        LinkNameSpaceType::HostNameAndNISDomainName,
        LinkNameSpaceType::ControlGroup,
    ];
    for (namespace, kind) in namespaces.iter().zip(kinds) {
        if cheat == Cheat::StaysInNetwork && matches!(kind, LinkNameSpaceType::Network) {
            continue;
        }
        move_into_link_name_space(namespace.as_fd(), Some(kind)).unwrap();
    }
}

fn become_user(user: u32, group: u32) {
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    rustix::thread::set_thread_res_gid(group, group, group).unwrap();
    rustix::thread::set_thread_res_uid(user, user, user).unwrap();
}

/// Leaves only the standard descriptors open, and the reply, which gets number three.
fn arrange(question: Packet) -> OwnedFd {
    rustix::stdio::dup2_stdin(&question.descriptors[9]).unwrap();
    rustix::stdio::dup2_stdout(&question.descriptors[10]).unwrap();
    rustix::stdio::dup2_stderr(&question.descriptors[11]).unwrap();
    let mut descriptors = question.descriptors.into_iter();
    drop(descriptors.next());
    let reply = descriptors.next().unwrap();
    drop(descriptors);
    reply.try_clone().unwrap()
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
