//! Comparison of a forked kernel with one that the agent would have started.
//!
//! The zygote is a program of the template, and so is the fork until it has given up every
//! right. It is looked at from outside, through the host's `/proc`, while it waits. Until it
//! is told to go on it is not dumpable and takes no signals, so what is looked at cannot be
//! changed in the sandbox, or only as far as [`may_be_of_the_sandbox`] says. What all tasks of a
//! sandbox have in common is in [`crate::task_bounds`].

use std::collections::BTreeSet;
use std::fs;
use std::io;

use super::holder::OOM_SCORE_ADJUST;
use crate::task_bounds::{Difference, Status, in_work_of_agent, read, require, same_namespaces};

/// The open file descriptors: the standard ones, and the socket on which it waits.
const DESCRIPTORS: [&str; 4] = ["0", "1", "2", "3"];

/// The properties that a started kernel would have, in ids of the host.
#[derive(Debug)]
pub(super) struct Expected<'a> {
    /// The sandbox's first process.
    pub(super) agent: i32,
    /// The name of the sandbox's cgroup.
    pub(super) sandbox: &'a str,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: BTreeSet<u32>,
    /// The bounding set; all other sets are empty.
    pub(super) capabilities: u64,
    /// Number of seccomp filters it is under: the zygote's, and the one that makes them a
    /// sandbox's.
    pub(super) filters: usize,
}

/// Returns true if code with the rights of the sandbox's user can cause this difference in a
/// dumpable process of its own: then only the process is wrong. All the rest is the zygote's
/// own work.
pub(super) fn may_be_of_the_sandbox(difference: &Difference) -> bool {
    ["TracerPid", "oom_score_adj"].contains(&difference.what)
}

/// Looks at a process and answers its number in the sandbox.
///
/// # Errors
///
/// The first [`Difference`].
pub(super) fn inspect(pid: i32, expected: &Expected<'_>) -> Result<i32, Difference> {
    let process = format!("/proc/{pid}");
    let status = read(&process, "status")?;
    let status = Status::parse(&status);
    let same_four = |id: u32| [id; 4].map(|id| id.to_string()).join("\t");
    let (agent, filters) = (expected.agent.to_string(), expected.filters.to_string());
    let bounding = format!("{:016x}", expected.capabilities);
    let nothing = "0000000000000000";
    for (what, wanted) in [
        ("Uid", same_four(expected.uid).as_str()),
        ("Gid", same_four(expected.gid).as_str()),
        // The process that forked it has ended, so the agent waits for it as for any child of its
        // own.
        ("PPid", &agent),
        ("TracerPid", "0"),
        // Capabilities and filters belong to a thread, and `status` shows those of the first alone.
        ("Threads", "1"),
        ("CapInh", nothing),
        ("CapPrm", nothing),
        ("CapEff", nothing),
        ("CapAmb", nothing),
        ("CapBnd", &bounding),
        // As everywhere in a sandbox, where `sudo` works.
        ("NoNewPrivs", "0"),
        ("Seccomp", "2"),
        ("Seccomp_filters", &filters),
    ] {
        let found = status.get(what);
        require(found == wanted, pid, what, found)?;
    }
    let groups = status.get("Groups");
    let found: BTreeSet<u32> = groups
        .split_whitespace()
        .filter_map(|group| group.parse().ok())
        .collect();
    require(found == expected.groups, pid, "Groups", groups)?;
    same_namespaces(&process, expected.agent)?;
    let agents = read(&format!("/proc/{}", expected.agent), "cgroup")?;
    in_work_of_agent(pid, &read(&process, "cgroup")?, &agents, expected.sandbox)?;
    let line = read(&process, "oom_score_adj")?;
    let score = line.trim();
    require(
        score == OOM_SCORE_ADJUST.to_string(),
        pid,
        "oom_score_adj",
        score,
    )?;
    few_descriptors(pid)?;
    // One number for each pid namespace it is in, the host's first.
    let numbers = status.get("NSpid");
    let inner = numbers
        .split_whitespace()
        .nth(1)
        .and_then(|number| number.parse().ok());
    inner.ok_or_else(|| Difference::new(pid, "NSpid", numbers))
}

/// Returns true if a process has ended or is about to: the kernel takes its attributes away piece
/// by piece, its memory first, so it is not what it was.
pub(super) fn is_ending(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    status.map_or(true, |status| !status.contains("\nVmRSS:"))
}

/// The user a process is, by the host's number.
pub(super) fn user(pid: i32) -> io::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let users = Status::parse(&status).get("Uid");
    let user = users
        .split_whitespace()
        .next()
        .and_then(|user| user.parse().ok());
    user.ok_or_else(|| io::Error::other("a process without a user"))
}

fn few_descriptors(pid: i32) -> Result<(), Difference> {
    let list = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    };
    let names = list().map_err(|error| Difference::new(pid, "descriptors", error))?;
    require(names == DESCRIPTORS, pid, "descriptors", &names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_somebody_else_is_found_out() {
        let own = std::process::id().cast_signed();
        let expected = Expected {
            agent: own,
            sandbox: "box",
            uid: 4_000_000,
            gid: 4_000_000,
            groups: BTreeSet::new(),
            capabilities: 0,
            filters: 4,
        };
        assert_eq!(inspect(own, &expected).unwrap_err().what, "Uid");
    }

    #[test]
    fn a_process_that_ends_is_told_from_one_that_lives() {
        assert!(!is_ending(std::process::id().cast_signed()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        // Nobody has waited for it, so it is still there, without anything of its own.
        skep_testkit::wait_for(std::time::Duration::from_secs(10), || {
            if is_ending(pid) {
                Ok(())
            } else {
                Err("it lives")
            }
        });
        child.wait().unwrap();
        assert!(is_ending(pid));
    }
}
