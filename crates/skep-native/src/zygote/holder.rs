//! A zygote, and the user namespace and slots it was born with.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::Signal;
use skep_host::{CgroupSource, DiskSource, IDS, Lease, Parts, Run, Slot, TakenSlot, Terms};
use skep_launch::{
    Descriptors, LaunchPlan, MAX_PER_PARENT, Privileges, Process, Program, Root, Started, Top,
    Users,
};
use skep_linux::packet;
use skep_types::{Egress, Resources, SandboxId};

use super::specification::Specification;
use super::{ZygoteKey, Zygotes};
use crate::plan::HOSTNAME;
use crate::process::ProcessHandle;
use crate::stderr::Stderr;

/// Slots of its run that a zygote has for itself: its ids.
pub(super) const OWN_SLOTS: usize = 1;

/// Time limit for a zygote to import what its template names.
const WARM_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit for its forks to end after it: a little longer than a fork may take.
const ORPHANS_TIMEOUT: Duration = Duration::from_secs(6);
const LAUNCHER_TIMEOUT: Duration = Duration::from_secs(30);

/// Limits of a zygote; its kernels use their sandboxes'. Of processes it has one for every
/// sandbox that asks at the same time, until that has joined the sandbox's cgroups.
const RESOURCES: Resources = Resources {
    cpus: 1,
    memory_mib: 2048,
    disk_mib: 256,
    pids: 2 * MAX_PER_PARENT as u32,
};

/// Message of a zygote that is ready. One of an earlier version sends another: its
/// forks entered sandboxes while they had rights, so it is not used.
const READY: &[u8] = b"2";

/// User of a zygote, as of sandboxes' own code.
const USER: u32 = 1000;
const OPEN_FILES: (u64, u64) = (65_536, 1 << 20);
/// Score that the agent gives to everything that it starts.
pub(super) const OOM_SCORE_ADJUST: i16 = 500;
const ENVIRONMENT: [(&str, &str); 4] = [
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("HOME", "/home/user"),
    ("USER", "user"),
    ("LOGNAME", "user"),
];

/// A zygote, and the user namespace and slots it was born with.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(super) run: Run,
    /// The user namespace below which its sandboxes have theirs.
    pub(crate) namespace: OwnedFd,
    /// Held while a question is sent.
    pub(super) control: Mutex<OwnedFd>,
    pidfd: OwnedFd,
    born: Instant,
    /// Time at which a sandbox was last put below it.
    used: Mutex<Instant>,
    /// Time at which it last did its work.
    answered: Mutex<Instant>,
    ended: AtomicBool,
}

impl Holder {
    /// The first id of a slot of its run, as the holder's namespace numbers it.
    pub(crate) fn first_id(&self, slot: Slot) -> u32 {
        u32::from(slot.number().saturating_sub(self.run.first)) * IDS
    }

    pub(super) fn age(&self) -> Duration {
        self.born.elapsed()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// A sandbox is put below it.
    pub(super) fn is_used(&self) {
        *self.used.lock() = Instant::now();
    }

    /// Time since then.
    pub(super) fn idle(&self) -> Duration {
        self.used.lock().elapsed()
    }

    /// It did its work just now.
    pub(super) fn has_answered(&self) {
        *self.answered.lock() = Instant::now();
    }

    /// Time since then.
    pub(super) fn silence(&self) -> Duration {
        self.answered.lock().elapsed()
    }

    /// Ends the zygote.
    pub(crate) fn end(&self) {
        kill(&self.pidfd);
    }
}

/// Ends a process.
pub(super) fn kill(process: &OwnedFd) {
    // Fails only when it has ended.
    rustix::process::pidfd_send_signal(process, Signal::KILL).ok();
}

/// Makes a zygote and keeps it, in a thread of its own: the launcher of a tied process dies
/// with the thread that started it.
///
/// # Errors
///
/// If there is no thread; then nothing is made, and nobody is told.
pub(super) fn warm(
    zygotes: &Arc<Zygotes>,
    key: ZygoteKey,
    specification: Specification,
    sandboxes: u16,
) -> io::Result<()> {
    let working = Arc::clone(zygotes);
    zygotes.kept.send_modify(|count| *count += 1);
    let thread = std::thread::Builder::new().name("zygote".into());
    // Not the span of whoever asked first: a zygote serves many, and outlives them.
    let span = tracing::info_span!(parent: None, "zygote");
    let spawned = thread.spawn(move || {
        let _entered = span.enter();
        keep(&working, &key, &specification, sandboxes);
        working.kept.send_modify(|count| *count -= 1);
    });
    if spawned.is_err() {
        zygotes.kept.send_modify(|count| *count -= 1);
    }
    spawned.map(drop)
}

/// Makes a zygote, waits for its end, and gives back what it had.
fn keep(zygotes: &Zygotes, key: &ZygoteKey, specification: &Specification, sandboxes: u16) {
    let counts = &zygotes.counts;
    let start = Instant::now();
    let Some((run, slot)) = zygotes.leases.keep_run(sandboxes.saturating_add(1)) else {
        tracing::warn!("no free ids for another zygote");
        zygotes.arrived(key, None);
        return;
    };
    // Named as a sandbox is, so that what is left of it is swept away with theirs.
    let id = SandboxId::random();
    let mut stderr = None;
    let request = Request {
        id: &id,
        run: run.run(),
        key,
        specification,
    };
    let (holder, mut started, lease) = match make(zygotes, request, slot, &mut stderr) {
        Ok(made) => made,
        Err(error) => {
            tracing::warn!(zygote = %id, %error, stderr = text(&stderr), "no zygote");
            counts.not_made.add_one();
            zygotes.arrived(key, None);
            return;
        }
    };
    tracing::info!(zygote = %id, after = ?start.elapsed(), "zygote is ready");
    counts.made.add_one();
    counts.alive.enter();
    let holder = Arc::new(holder);
    zygotes.arrived(key, Some(Arc::clone(&holder)));
    let ended = started.wait(None);
    tracing::info!(zygote = %id, ?ended, stderr = text(&stderr), "zygote has ended");
    holder.ended.store(true, Ordering::Release);
    counts.alive.leave();
    see_out(&id, &mut started);
    // With its launcher, which would hold the cgroups.
    drop(started);
    drop(run);
    // Last, because whoever gets the slot has the ids. What cannot be removed is tried again.
    drop(lease);
}

/// Waits for what a zygote has forked ahead of need, which ends when it finds that the zygote is
/// gone, and for forks that are under way in sandboxes. The launcher reaps them; after it they
/// would be left to this process, for ever.
fn see_out(id: &SandboxId, started: &mut Started) {
    match started.wait_for_orphans(ORPHANS_TIMEOUT) {
        Ok(true) => {}
        Ok(false) => tracing::warn!(zygote = %id, "forks of a zygote do not end"),
        Err(error) => tracing::warn!(zygote = %id, %error, "cannot wait for a zygote's forks"),
    }
}

/// Text that the zygote wrote, for the operator.
fn text(stderr: &Option<Stderr>) -> String {
    stderr.as_ref().map(Stderr::text).unwrap_or_default()
}

/// A zygote that is to be made.
#[derive(Clone, Copy)]
struct Request<'a> {
    id: &'a SandboxId,
    run: Run,
    key: &'a ZygoteKey,
    specification: &'a Specification,
}

/// Makes a zygote and waits until it is ready. If it is not, nothing of it is left.
fn make(
    zygotes: &Zygotes,
    request: Request<'_>,
    slot: TakenSlot,
    stderr: &mut Option<Stderr>,
) -> io::Result<(Holder, Started, Lease)> {
    let terms = Terms {
        disk: DiskSource::Empty,
        id: request.id.clone(),
        slot,
        egress: Egress::closed(),
        resources: RESOURCES,
        cgroups: CgroupSource::New,
    };
    let acquired = zygotes.leases.acquire(terms);
    let (lease, parts) = acquired.map_err(io::Error::other)?;
    let stderr = stderr.insert(Stderr::new()?);
    let (control, theirs) = packet::pair()?;
    let mut plan = plan(&lease, parts, request);
    plan.output(stderr.share()?);
    plan.stdin(theirs);
    let launched = zygotes.launcher.launch(plan, LAUNCHER_TIMEOUT);
    let started = launched.map_err(io::Error::other)?;
    if !zygotes.runs(request.key, started.pidfd.try_clone()?) {
        return Err(io::Error::other("the server is stopping"));
    }
    let process = ProcessHandle::new(started.pid, started.pidfd.try_clone()?);
    let ready = packet::receive(&control, 1, Instant::now() + WARM_TIMEOUT)?;
    match ready {
        Some(message) if message.bytes == READY => {}
        Some(_) => {
            return Err(io::Error::other(
                "the template was built by an earlier version; build it anew",
            ));
        }
        None => return Err(io::Error::other("it ended before it was ready")),
    }
    let holder = Holder {
        run: request.run,
        namespace: process.namespace("user")?.into(),
        pidfd: started.pidfd.try_clone()?,
        control: Mutex::new(control),
        born: Instant::now(),
        used: Mutex::new(Instant::now()),
        answered: Mutex::new(Instant::now()),
        ended: AtomicBool::new(false),
    };
    Ok((holder, started, lease))
}

fn plan(lease: &Lease, parts: Parts, request: Request<'_>) -> LaunchPlan {
    let specification = request.specification;
    let mut descriptors = Descriptors::default();
    let root = Root {
        staging: lease.staging(),
        layers: request.key.layers.clone(),
        below: (parts.below.into_iter())
            .map(|disk| descriptors.add(disk))
            .collect(),
        top: Top::Mounted(descriptors.add(parts.disk)),
    };
    let program = Program::Path(specification.argv[0].clone());
    let mut process = Process::new(program, specification.argv.iter().cloned());
    process.environment = ENVIRONMENT
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .chain(specification.env.clone())
        .collect();
    (process.user, process.group) = (USER, USER);
    process.open_files = OPEN_FILES;
    process.oom_score_adjust = OOM_SCORE_ADJUST;
    // All ids of the run: its sandboxes get theirs below these.
    let users = Users::Range {
        first: lease.slot().first_id(),
        count: u32::from(request.run.count) * IDS,
    };
    let mut plan = LaunchPlan::new(descriptors, users, root, process);
    plan.join(parts.join_fds.work);
    if let Some(settings) = parts.join_fds.settings {
        plan.set_cgroups(settings.directory, settings.files);
    }
    plan.hostname = HOSTNAME.into();
    plan.privileges = Privileges::Enter;
    plan
}
