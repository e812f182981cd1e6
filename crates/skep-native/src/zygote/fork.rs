//! One kernel: what the agent asks for, what the zygote is told, and what came of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::SealFlags;
use rustix::process::Pid;
use serde::Serialize;
use skep_agent_protocol::fork::{FIRST_CGROUP, ForkRequest, MAX_REQUEST};
use skep_host::{IDS, Slot};
use skep_linux::packet::{self, Packet};
use skep_linux::sealed_file;
use tokio::io::unix::AsyncFd;

use super::Zygotes;
use super::holder::{self, Holder};
use super::serve::{Client, receive};
use super::verify_fork::{self, Expected};
use crate::process::ProcessHandle;
use crate::task_bounds::Difference;
use crate::watch::watch;

/// Time limit for a fork, including those that were asked for before it.
const FORK_TIMEOUT: Duration = Duration::from_secs(5);

/// Most other groups a user can have here.
const MAX_GROUPS: usize = 64;

/// The namespaces that a kernel enters, in the order in which the zygote expects them.
const NAMESPACES: [&str; 7] = ["pid", "net", "user", "mnt", "ipc", "uts", "cgroup"];

/// A kernel that waits for its first word.
#[derive(Debug)]
pub(super) struct Forked {
    /// Pid inside the sandbox.
    pub(super) pid: i32,
    /// The socket on which it waits for the permission to begin.
    pub(super) go: OwnedFd,
}

/// Failure to fork a kernel.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForkError {
    /// The request is not one that an agent of ours sends.
    #[error("the question makes no sense: {0}")]
    Malformed(&'static str),
    /// Something on the host is not there any more, usually the sandbox.
    #[error("cannot prepare the fork")]
    Host(#[source] io::Error),
    /// The zygote does not read.
    #[error("the zygote has ended or does not listen")]
    Dead(#[source] io::Error),
    /// The zygote has not begun when the time was over.
    #[error("the zygote has forked nothing within {} s", FORK_TIMEOUT.as_secs())]
    Slow,
    /// The fork was there, in the sandbox's cgroups, and did not become a kernel in time.
    #[error("the fork is no kernel within {} s", FORK_TIMEOUT.as_secs())]
    Stalled,
    /// The fork ended by itself: the sandbox is not what the zygote was prepared for.
    #[error("the fork declined")]
    Declined,
    /// It is not what a started kernel is. It was killed.
    #[error("the fork differs from a started kernel")]
    Different(#[source] Difference),
}

/// Instructions for the fork while it still has its privileges.
#[derive(Serialize)]
struct Plan<'a> {
    /// Number of cgroup files that are the server's own; the rest are the sandbox's. Zygotes of
    /// templates that are built know it by this name.
    #[serde(rename = "first_doors")]
    own_join_fds: usize,
    /// The bounding set.
    capabilities: u64,
    filters: [&'a str; 1],
    uid: u32,
    gid: u32,
    groups: &'a [u32],
}

/// The sandbox's own wishes, which are passed on to the kernel: no privileged process reads them.
#[derive(Serialize)]
struct Wanted<'a> {
    environment: &'a BTreeMap<String, String>,
    directory: &'a str,
}

/// The first process of a fork, which ends by itself when it has given up its rights. It is
/// killed with this value: a sandbox that keeps it waiting does not keep it alive.
struct Outside(ProcessHandle);

impl Drop for Outside {
    fn drop(&mut self) {
        holder::kill(self.0.pidfd());
    }
}

/// Forks a kernel into a sandbox.
///
/// Holds no thread while it waits: a sandbox can keep its own forks waiting for as long as they
/// may take, and all sandboxes of a server together must not hold all its threads by that.
pub(super) async fn fork(
    zygotes: &Arc<Zygotes>,
    holder: &Arc<Holder>,
    client: &Client,
    question: Packet,
) -> Result<Forked, ForkError> {
    if holder.has_ended() {
        return Err(ForkError::Dead(io::ErrorKind::NotConnected.into()));
    }
    let deadline = Instant::now() + FORK_TIMEOUT;
    let asking = (Arc::clone(zygotes), Arc::clone(holder), client.clone());
    let (request, reply) = in_a_thread(move || {
        let (zygotes, holder, client) = asking;
        ask(&zygotes, &holder, &client, &question)
    })
    .await?;
    let reply = watch(reply).map_err(ForkError::Host)?;
    let zygote = zygotes.leases.slot(holder.run.first);
    // The first word comes from the process outside of the sandbox, before it joins any cgroup. A
    // delay until then is the zygote's or the host's. What comes later the sandbox can delay
    // itself, so `Stalled` is never held against the zygote.
    let first = hear(holder, &reply, deadline, ForkError::Slow).await?;
    // On a busy host it may have done its work and be gone by now.
    let _outside = open(first, [zygote, client.lease.slot()]).map(Outside);
    holder.has_answered();
    let pid = hear(holder, &reply, deadline, ForkError::Stalled).await?;
    let process = open(pid, [zygote, client.lease.slot()]).ok_or(ForkError::Declined)?;
    let client = client.clone();
    let inner = in_a_thread(move || inspect(&process, &client, &request)).await?;
    Ok(Forked {
        pid: inner,
        go: reply.into_inner(),
    })
}

/// Does what may take a moment where that delays nobody else.
async fn in_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ForkError> + Send + 'static,
) -> Result<T, ForkError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|panic| ForkError::Host(io::Error::other(panic)))?
}

/// Tells the zygote what is wanted, and answers that and where the fork will be heard. Blocks.
fn ask(
    zygotes: &Zygotes,
    holder: &Holder,
    client: &Client,
    question: &Packet,
) -> Result<(ForkRequest, OwnedFd), ForkError> {
    let request = read(question)?;
    let own_join_fds = client
        .lease
        .work_join_fds()
        .map_err(|error| ForkError::Host(io::Error::other(error)))?;
    let plan = Plan {
        own_join_fds: own_join_fds.len(),
        capabilities: skep_launch::sandbox_capabilities(),
        filters: [&zygotes.filter],
        uid: request.uid,
        gid: request.gid,
        groups: &request.groups,
    };
    let wanted = Wanted {
        environment: &request.environment,
        directory: &request.directory,
    };
    let plan = sealed_file("fork", &lines(&plan, &wanted)).map_err(ForkError::Host)?;
    let (reply, theirs) = packet::pair_with_senders().map_err(ForkError::Host)?;
    let namespaces: Vec<File> = NAMESPACES
        .iter()
        .map(|name| client.process.namespace(name))
        .collect::<io::Result<_>>()
        .map_err(ForkError::Host)?;
    let (standard, join_fds) = question.descriptors[1..].split_at(FIRST_CGROUP - 1);
    let mut descriptors = vec![plan.as_fd(), theirs.as_fd()];
    descriptors.extend(namespaces.iter().map(AsFd::as_fd));
    descriptors.extend(standard.iter().map(AsFd::as_fd));
    // The server's own cgroup files first. The fork joins those at once, so that all it does is
    // counted for the sandbox, and writes to the agent's, which the sandbox chose, only when no
    // capability is in effect.
    descriptors.extend(own_join_fds.iter().map(AsFd::as_fd));
    descriptors.extend(join_fds.iter().map(AsFd::as_fd));
    let control = holder.control.lock();
    packet::send(&*control, b"f", &descriptors).map_err(ForkError::Dead)?;
    Ok((request, reply))
}

/// Waits for the next word of the fork, and says who spoke it.
async fn hear(
    holder: &Holder,
    reply: &AsyncFd<OwnedFd>,
    deadline: Instant,
    late: ForkError,
) -> Result<Pid, ForkError> {
    let heard = tokio::time::timeout_at(deadline.into(), receive(reply, 1)).await;
    match heard {
        // What the word says does not matter, since the fork could say anything. The kernel
        // attaches the sender's pid to the packet, in numbers of the host.
        Ok(Ok(Some(word))) => word.sender.ok_or(ForkError::Declined),
        Ok(Ok(None)) if holder.has_ended() => {
            Err(ForkError::Dead(io::ErrorKind::BrokenPipe.into()))
        }
        Ok(Ok(None)) => Err(ForkError::Declined),
        Ok(Err(error)) => Err(ForkError::Host(error)),
        Err(_elapsed) => Err(late),
    }
}

/// Opens a process of the zygote's or of the sandbox; `None` if it is gone. Its number may be
/// somebody else's by now, who must not be killed for it.
fn open(pid: Pid, slots: [Slot; 2]) -> Option<ProcessHandle> {
    let process = ProcessHandle::open(pid).ok()?;
    let user = process.look(verify_fork::user).ok()?;
    let has = |slot: Slot| (slot.first_id()..slot.first_id() + IDS).contains(&user);
    slots.into_iter().any(has).then_some(process)
}

/// Looks at a forked process and answers its number in the sandbox. One that is not what it
/// should be is killed. Blocks.
fn inspect(
    process: &ProcessHandle,
    client: &Client,
    request: &ForkRequest,
) -> Result<i32, ForkError> {
    let host = |id: u32| client.lease.slot().first_id() + id;
    let expected = Expected {
        agent: client.process.pid(),
        sandbox: client.lease.id().as_str(),
        uid: host(request.uid),
        gid: host(request.gid),
        groups: request.groups.iter().map(|group| host(*group)).collect(),
        capabilities: skep_launch::sandbox_capabilities(),
        filters: skep_launch::FILTERS + 1,
    };
    let inspected = verify_fork::inspect(process.pid(), &expected);
    // Both go by their numbers there. Whoever may kill in the sandbox can kill it at this moment,
    // too, and whoever may end the sandbox can take away what it is compared with; that is no
    // cheat.
    for looked_at in [process, &client.process] {
        if looked_at.has_ended().map_err(ForkError::Host)? {
            return Err(ForkError::Declined);
        }
    }
    match inspected {
        Ok(inner) => Ok(inner),
        Err(_) if verify_fork::is_ending(process.pid()) => Err(ForkError::Declined),
        Err(_) if verify_fork::is_ending(client.process.pid()) => Err(ForkError::Declined),
        Err(difference) => {
            holder::kill(process.pidfd());
            Err(ForkError::Different(difference))
        }
    }
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
    if question.descriptors.len() < FIRST_CGROUP {
        return Err(ForkError::Malformed("descriptors are missing"));
    }
    let file = &question.descriptors[0];
    // Only a file in memory has seals. A sealed one does not change and is read without waiting.
    let seals = rustix::fs::fcntl_get_seals(file).unwrap_or(SealFlags::empty());
    if !seals.contains(SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW) {
        return Err(ForkError::Malformed("the request is not sealed"));
    }
    let file = File::from(file.try_clone().map_err(ForkError::Host)?);
    if file.metadata().map_err(ForkError::Host)?.len() > MAX_REQUEST {
        return Err(ForkError::Malformed("the request is too large"));
    }
    let mut text = Vec::new();
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))
        .map_err(|errno| ForkError::Host(errno.into()))?;
    file.take(MAX_REQUEST)
        .read_to_end(&mut text)
        .map_err(ForkError::Host)?;
    let request: ForkRequest = serde_json::from_slice(&text)
        .map_err(|_| ForkError::Malformed("the request is not readable"))?;
    let own = [request.uid, request.gid];
    let mut ids = own.iter().chain(&request.groups);
    if request.uid == 0 || request.groups.len() > MAX_GROUPS || ids.any(|id| *id >= IDS) {
        return Err(ForkError::Malformed("there is no such user"));
    }
    Ok(request)
}
