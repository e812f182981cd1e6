//! A zygote, and the user namespace and slots it was born with.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::Signal;
use skep_launch::{
    Descriptor, Descriptors, LaunchPlan, Lifetime, MAX_PER_PARENT, Network, Privileges, Process,
    Program, Root, Started, Top, Users,
};
use skep_linux::packet;
use skep_types::{Egress, Resources, SandboxId};

use super::ZygoteKey;
use super::specification::Specification;
use crate::cgroup::{Child, Group};
use crate::host::{Host, read_stderr, stderr_file};
use crate::instance::{IDS, Slot};
use crate::plan;
use crate::process::ProcessHandle;
use crate::slots::Run;

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
    host: &Arc<Host>,
    key: ZygoteKey,
    specification: Specification,
    sandboxes: u16,
) -> io::Result<()> {
    let working = Arc::clone(host);
    host.zygotes.kept.send_modify(|count| *count += 1);
    let thread = std::thread::Builder::new().name("zygote".into());
    let span = tracing::Span::current();
    let spawned = thread.spawn(move || {
        let _entered = span.enter();
        keep(&working, &key, &specification, sandboxes);
        working.zygotes.kept.send_modify(|count| *count -= 1);
    });
    if spawned.is_err() {
        host.zygotes.kept.send_modify(|count| *count -= 1);
    }
    spawned.map(drop)
}

fn keep(host: &Arc<Host>, key: &ZygoteKey, specification: &Specification, sandboxes: u16) {
    let counts = &host.zygotes.counts;
    let start = Instant::now();
    let Some(run) = host.slots.reserve(sandboxes.saturating_add(1)) else {
        tracing::warn!("no free ids for another zygote");
        host.zygotes.arrived(host, key, None);
        return;
    };
    // Named as a sandbox is, so that what is left of it is swept away with theirs.
    let id = SandboxId::random();
    let slot = host.naming.slot(run.first);
    host.register(&id, slot, Egress::None);
    let mut stderr = None;
    let made = make(host, &id, run, key, specification, &mut stderr);
    let mut started = match made {
        Ok((holder, started)) => {
            tracing::info!(zygote = %id, after = ?start.elapsed(), "zygote is ready");
            counts.made.add_one();
            counts.alive.enter();
            let holder = Arc::new(holder);
            host.zygotes.arrived(host, key, Some(Arc::clone(&holder)));
            Some((holder, started))
        }
        Err(error) => {
            tracing::warn!(zygote = %id, %error, stderr = stderr_text(&stderr), "no zygote");
            counts.not_made.add_one();
            host.zygotes.arrived(host, key, None);
            None
        }
    };
    if let Some((holder, started)) = &mut started {
        let ended = started.wait(None);
        tracing::info!(zygote = %id, ?ended, stderr = stderr_text(&stderr), "zygote has ended");
        holder.ended.store(true, Ordering::Release);
        counts.alive.leave();
    }
    if let Some((_, mut started)) = started {
        see_out(&id, &mut started);
    }
    host.slots.release(run);
    let deadline = Instant::now() + host.config.kill_deadline;
    match host.remove(&id, None, deadline) {
        Ok(()) => host.unregister(&id, slot),
        Err(error) => host.leftovers.add(&id, vec![slot], &error),
    }
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
fn stderr_text(stderr: &Option<OwnedFd>) -> String {
    let text = stderr.as_ref().and_then(|stderr| read_stderr(stderr).ok());
    text.unwrap_or_default().trim().to_owned()
}

fn make(
    host: &Host,
    id: &SandboxId,
    run: Run,
    key: &ZygoteKey,
    specification: &Specification,
    stderr: &mut Option<OwnedFd>,
) -> io::Result<(Holder, Started)> {
    let directory = host.directory(id);
    fs::create_dir(&directory)?;
    fs::create_dir(directory.join(plan::STAGING))?;
    let disk = host
        .disks
        .mount(&directory.join(plan::IMAGE), RESOURCES.disk_mib);
    let disk = disk.map_err(io::Error::other)?;
    let group = Group::new(id);
    let created = host.cgroups.create(&group, &RESOURCES, None);
    created.map_err(io::Error::other)?;
    let join_fds = host.cgroups.join_fds(&group, Child::Work);
    let join_fds = join_fds.map_err(io::Error::other)?;
    let agent_stderr = stderr.insert(stderr_file()?);
    let (control, theirs) = packet::pair()?;
    let mut descriptors = Descriptors::default();
    let passed = Passed {
        join_fds: descriptors.add_all(join_fds),
        disk: descriptors.add(disk),
        control: descriptors.add(theirs),
        agent_stderr: descriptors.add(agent_stderr.try_clone()?),
    };
    let plan = plan(host, run, &directory, &key.layers, specification, &passed);
    let started = host
        .config
        .launcher
        .launch(&plan, descriptors, LAUNCHER_TIMEOUT)
        .map_err(io::Error::other)?;
    if !host.zygotes.runs(key, started.pidfd.try_clone()?) {
        return Err(io::Error::other("the server is stopping"));
    }
    let process = ProcessHandle::new(started.pid, started.pidfd.try_clone()?);
    let holder = Holder {
        run,
        namespace: process.namespace("user")?.into(),
        pidfd: started.pidfd.try_clone()?,
        control: Mutex::new(control),
        born: Instant::now(),
        used: Mutex::new(Instant::now()),
        answered: Mutex::new(Instant::now()),
        ended: AtomicBool::new(false),
    };
    let control = holder.control.lock();
    let ready = packet::receive(&*control, 1, Instant::now() + WARM_TIMEOUT)?;
    drop(control);
    match ready {
        Some(word) if word.bytes == READY => Ok((holder, started)),
        Some(_) => Err(io::Error::other(
            "the template was built by an earlier version; build it anew",
        )),
        None => Err(io::Error::other("it ended before it was ready")),
    }
}

struct Passed {
    join_fds: Vec<Descriptor>,
    disk: Descriptor,
    control: Descriptor,
    agent_stderr: Descriptor,
}

fn plan(
    host: &Host,
    run: Run,
    directory: &Path,
    layers: &[PathBuf],
    specification: &Specification,
    passed: &Passed,
) -> LaunchPlan {
    let environment = ENVIRONMENT
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .chain(specification.env.clone());
    LaunchPlan {
        cgroups: passed.join_fds.clone(),
        home_cgroups: Vec::new(),
        users: Users::Range {
            first: host.naming.slot(run.first).first_id(),
            count: u32::from(run.count) * IDS,
        },
        parent: None,
        network: Network::Loopback,
        root: Root {
            staging: directory.join(plan::STAGING),
            layers: layers.to_vec(),
            top: Top::Mounted(passed.disk),
        },
        binds: Vec::new(),
        shared_memory_bytes: 64 << 20,
        run_bytes: Some(16 << 20),
        files: Vec::new(),
        hostname: plan::HOSTNAME.into(),
        process: Process {
            program: Program::Path(specification.argv[0].clone()),
            arguments: specification.argv.clone(),
            environment: environment.collect(),
            working_directory: "/".into(),
            user: USER,
            group: USER,
            groups: Vec::new(),
            stdin: Some(passed.control),
            stdout: Some(passed.agent_stderr),
            stderr: Some(passed.agent_stderr),
            pass: Vec::new(),
            open_files: OPEN_FILES,
            oom_score_adjust: OOM_SCORE_ADJUST,
        },
        privileges: Privileges::Enter,
        lifetime: Lifetime::Tied,
        fail_at: None,
        without: Vec::new(),
    }
}
