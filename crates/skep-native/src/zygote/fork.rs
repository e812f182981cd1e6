//! One kernel: what the agent asks for, what the zygote is told, and what came of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::SealFlags;
use rustix::process::{Pid, PidfdFlags};
use serde::Serialize;
use skep_launch::sealed_file;
use skep_linux::packet::{self, Packet};
use skep_wire::agent::fork::{FIRST_DOOR, ForkRequest, MAX_REQUEST};

use super::holder::{self, Holder};
use super::likeness::{self, Difference, Expected};
use super::serve::Client;
use crate::cgroup::{Child, Group};
use crate::host::Host;
use crate::instance::IDS;

/// How long a fork may take, with those that were asked for before it.
const DEADLINE: Duration = Duration::from_secs(5);

/// Most other groups a user can have here.
const MAX_GROUPS: usize = 64;

/// The namespaces that a kernel enters, in the order in which the zygote expects them.
const NAMESPACES: [&str; 7] = ["pid", "net", "user", "mnt", "ipc", "uts", "cgroup"];

/// A kernel that waits for its first word.
#[derive(Debug)]
pub(super) struct Forked {
    /// Its number in the sandbox.
    pub(super) pid: i32,
    /// Where it waits.
    pub(super) go: OwnedFd,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForkError {
    /// What the agent asks for cannot be.
    #[error("the question makes no sense: {0}")]
    Nonsense(&'static str),
    /// Something on the machine is not there any more, usually the sandbox.
    #[error("cannot prepare the fork")]
    Machine(#[source] io::Error),
    /// The zygote does not read.
    #[error("the zygote has ended or does not listen")]
    Dead(#[source] io::Error),
    /// The zygote has not begun when the time was over.
    #[error("the zygote has forked nothing within {} s", DEADLINE.as_secs())]
    Slow,
    /// The fork was there, in the sandbox's cgroups, and did not become a kernel in time.
    #[error("the fork is no kernel within {} s", DEADLINE.as_secs())]
    Stalled,
    /// The fork ended by itself: the sandbox is not what the zygote was prepared for.
    #[error("the fork declined")]
    Declined,
    /// It is not what a started kernel is. It was killed.
    #[error("the fork differs from a started kernel")]
    Different(#[source] Difference),
}

/// What the process that has rights is told.
#[derive(Serialize)]
struct Plan<'a> {
    /// How many of the doors are the server's own.
    first_doors: usize,
    /// The bounding set.
    capabilities: u64,
    filters: [&'a str; 1],
    uid: u32,
    gid: u32,
    groups: &'a [u32],
}

/// What the sandbox says, for the kernel: nobody who has rights reads it.
#[derive(Serialize)]
struct Wanted<'a> {
    environment: &'a BTreeMap<String, String>,
    directory: &'a str,
}

/// The first process of a fork, which ends by itself when it has given up its rights. It is
/// killed with this value: a sandbox that keeps it waiting does not keep it alive.
struct Outside(OwnedFd);

impl Drop for Outside {
    fn drop(&mut self) {
        holder::kill(&self.0);
    }
}

/// Has a kernel forked into a sandbox. Blocks.
pub(super) fn fork(
    host: &Host,
    holder: &Holder,
    client: &Client,
    question: &Packet,
) -> Result<Forked, ForkError> {
    if holder.has_ended() {
        return Err(ForkError::Dead(io::ErrorKind::NotConnected.into()));
    }
    let request = read(question)?;
    let own_doors = host.cgroups.doors(&Group::new(&client.id), Child::Work);
    let own_doors = own_doors.map_err(|error| ForkError::Machine(io::Error::other(error)))?;
    let plan = Plan {
        first_doors: own_doors.len(),
        capabilities: skep_launch::sandbox_capabilities(),
        filters: [&host.zygotes.filter],
        uid: request.uid,
        gid: request.gid,
        groups: &request.groups,
    };
    let wanted = Wanted {
        environment: &request.environment,
        directory: &request.directory,
    };
    let plan = sealed_file("fork", &lines(&plan, &wanted)).map_err(ForkError::Machine)?;
    let (reply, theirs) = packet::pair_with_senders().map_err(ForkError::Machine)?;
    let namespaces: Vec<File> = NAMESPACES
        .iter()
        .map(|name| File::open(format!("/proc/{}/ns/{name}", client.pid)))
        .collect::<io::Result<_>>()
        .map_err(ForkError::Machine)?;
    let (standard, doors) = question.descriptors[1..].split_at(FIRST_DOOR - 1);
    let mut descriptors = vec![plan.as_fd(), theirs.as_fd()];
    descriptors.extend(namespaces.iter().map(AsFd::as_fd));
    descriptors.extend(standard.iter().map(AsFd::as_fd));
    descriptors.extend(own_doors.iter().map(AsFd::as_fd));
    descriptors.extend(doors.iter().map(AsFd::as_fd));
    let control = holder.control.lock().expect("no holder panics");
    packet::send(&*control, b"f", &descriptors).map_err(ForkError::Dead)?;
    drop((control, descriptors));
    drop(theirs);

    let deadline = Instant::now() + DEADLINE;
    let first_id = host.names.slot(holder.run.first).first_id();
    let ids = first_id..first_id + u32::from(holder.run.count) * IDS;
    let first = hear(holder, &reply, deadline, ForkError::Slow)?;
    // On a busy machine it may have done its work and be gone by now.
    let _outside = open(first, &ids).map(Outside);
    holder.has_answered();
    let pid = hear(holder, &reply, deadline, ForkError::Stalled)?;
    let process = open(pid, &ids).ok_or(ForkError::Declined)?;
    let machine = |id: u32| client.slot.first_id() + id;
    let expected = Expected {
        agent: client.pid,
        sandbox: client.id.as_str(),
        uid: machine(request.uid),
        gid: machine(request.gid),
        groups: request.groups.iter().map(|group| machine(*group)).collect(),
        capabilities: skep_launch::sandbox_capabilities(),
        filters: skep_launch::FILTERS + 1,
    };
    match likeness::inspect(pid.as_raw_nonzero().get(), &expected) {
        Ok(inner) => Ok(Forked {
            pid: inner,
            go: reply,
        }),
        // Whoever may kill in the sandbox can kill it at this moment, too, and whoever may end
        // the sandbox can take away what it is compared with; that is no cheat.
        Err(_) if likeness::is_ending(pid.as_raw_nonzero().get()) => Err(ForkError::Declined),
        Err(_) if likeness::is_ending(client.pid) => Err(ForkError::Declined),
        Err(difference) => {
            holder::kill(&process);
            Err(ForkError::Different(difference))
        }
    }
}

/// Waits for the next word of the fork, and says who spoke it.
fn hear(
    holder: &Holder,
    reply: &OwnedFd,
    deadline: Instant,
    late: ForkError,
) -> Result<Pid, ForkError> {
    match packet::receive(reply, 1, deadline) {
        Ok(Some(word)) => word.sender.ok_or(ForkError::Declined),
        Ok(None) if holder.has_ended() => Err(ForkError::Dead(io::ErrorKind::BrokenPipe.into())),
        Ok(None) => Err(ForkError::Declined),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(late),
        Err(error) => Err(ForkError::Machine(error)),
    }
}

/// Opens a process of the zygote's or of its sandboxes; `None` if it is gone. Its number may be
/// somebody else's by now, who must not be killed for it.
fn open(pid: Pid, ids: &Range<u32>) -> Option<OwnedFd> {
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let user = likeness::user(pid.as_raw_nonzero().get())?;
    ids.contains(&user).then_some(process)
}

/// One line for each reader.
fn lines(plan: &Plan<'_>, wanted: &Wanted<'_>) -> Vec<u8> {
    let mut text = serde_json::to_vec(plan).expect("plain fields are always JSON");
    text.push(b'\n');
    text.extend(serde_json::to_vec(wanted).expect("plain fields are always JSON"));
    text
}

/// The request in a question. All of it was chosen inside of the sandbox.
fn read(question: &Packet) -> Result<ForkRequest, ForkError> {
    if question.descriptors.len() < FIRST_DOOR {
        return Err(ForkError::Nonsense("descriptors are missing"));
    }
    let file = &question.descriptors[0];
    // Only a file in memory has seals. A sealed one does not change and is read without waiting.
    let seals = rustix::fs::fcntl_get_seals(file).unwrap_or(SealFlags::empty());
    if !seals.contains(SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW) {
        return Err(ForkError::Nonsense("the request is not sealed"));
    }
    let file = File::from(file.try_clone().map_err(ForkError::Machine)?);
    if file.metadata().map_err(ForkError::Machine)?.len() > MAX_REQUEST {
        return Err(ForkError::Nonsense("the request is too large"));
    }
    let mut text = Vec::new();
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))
        .map_err(|errno| ForkError::Machine(errno.into()))?;
    file.take(MAX_REQUEST)
        .read_to_end(&mut text)
        .map_err(ForkError::Machine)?;
    let request: ForkRequest = serde_json::from_slice(&text)
        .map_err(|_| ForkError::Nonsense("the request is not readable"))?;
    let ids = [request.uid, request.gid];
    let mut ids = ids.iter().chain(&request.groups);
    if request.uid == 0 || request.groups.len() > MAX_GROUPS || ids.any(|id| *id >= IDS) {
        return Err(ForkError::Nonsense("there is no such user"));
    }
    Ok(request)
}
