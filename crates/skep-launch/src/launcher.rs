//! The launcher: carries a plan out, step by step, outside of the new process.
//!
//! Everything that needs rights over the host happens here, before anything of the sandbox
//! runs: all mounts are made in a mount namespace of the launcher's own, which belongs to the
//! host's user namespace. When the new process copies that namespace into its own, the
//! kernel locks every mount in place, so even root inside cannot take a mask off.

mod criu;
mod devices;
mod dump;
mod fork_server;
mod in_child;
mod inside;
mod listeners;
mod nested_users;
mod network;
mod pending_signals;
mod proc;
mod restore;
mod root;
mod settle;
mod spare_networks;
mod tree;
mod volumes;

pub use proc::{covered_proc, read_only_proc};

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, Uid, WaitId, WaitIdOptions, WaitOptions};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use serde::{Deserialize, Serialize};
use skep_linux::{Child, Cloned};

use crate::channel::Channel;
use crate::command::Command;
use crate::report::Report;
use crate::step_error::{About, StepError};
use crate::step_runner::{Failure, StepRunner};
use crate::{
    Defence, Descriptor, Descriptors, Ended, LaunchPlan, Lifetime, Network, Privileges, Step, Users,
};

/// A core limit of one byte is what the kernel takes for "none at all": with zero it would
/// still start the host's crash handler, outside, on a dump that a sandbox has written.
const NO_CORE_DUMP: u64 = 1;
const LOCKED_MEMORY: u64 = 8 << 20;
const STACK: u64 = 8 << 20;

/// Resources that the kernel counts not only for a user, but for the creators of all user
/// namespaces above, and limits there by what they were allowed when they made them.
const COUNTED_BY_CREATOR: [Resource; 3] =
    [Resource::Memlock, Resource::Msgqueue, Resource::Sigpending];

/// Messages of the new process to the launcher.
#[derive(Debug, Serialize, Deserialize)]
enum ChildMessage {
    /// All is done and the program is executed next.
    Ready { timings: Vec<(Step, u32)> },
    /// It gave up.
    Failed {
        step: Step,
        errno: i32,
        thing: Option<String>,
    },
}

/// The launcher program. Call it first in `main`, before any thread is started: it takes an
/// order from standard input, which [`crate::Launcher`] has made a socket.
pub fn run() -> ExitCode {
    let Ok(channel) = skep_linux::take_standard_input().map(Channel::from_descriptor) else {
        return ExitCode::FAILURE;
    };
    match channel.receive::<Command>() {
        Ok(Some((Command::Launch { .. }, descriptors))) => {
            exit_code(carry_out(&channel, descriptors, None))
        }
        Ok(Some((Command::ServeForks, _))) => exit_code(fork_server::serve(channel).is_ok()),
        Ok(Some((Command::Dump, descriptors))) => exit_code(dump::carry_out(&channel, descriptors)),
        Ok(None) | Err(_) => ExitCode::FAILURE,
    }
}

fn exit_code(all_went_well: bool) -> ExitCode {
    if all_went_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Carries out the plan that comes with `descriptors`, and reports over `channel`. False if
/// that was a failure. Uses `network`, an empty namespace, if there is one.
fn carry_out(channel: &Channel, descriptors: Vec<OwnedFd>, network: Option<OwnedFd>) -> bool {
    let mut steps = StepRunner::new(None);
    let read = steps.run(Step::ReadPlan, || read_plan(descriptors));
    let outcome = read.and_then(|(plan, descriptors)| {
        let launch = Launch {
            plan: &plan,
            descriptors: &descriptors,
            network: network.as_ref(),
        };
        let mut steps = StepRunner::new(plan.fail_at);
        let child = match &plan.restoration {
            None => launch.carry_out(&mut steps)?,
            Some(restoration) => restore::carry_out(launch, restoration, &mut steps, channel)?,
        };
        launch.hand_over(&mut steps, channel, child)
    });
    report_failure(channel, outcome)
}

/// Reports the step that failed, if one did. False then.
fn report_failure(channel: &Channel, outcome: Result<(), Failure>) -> bool {
    match outcome {
        Ok(()) => true,
        Err(Failure { step, error }) => {
            let report = Report::Failed {
                step,
                errno: error.errno,
                thing: error.thing,
            };
            // Where nobody listens any more, ending is all that is left to do.
            channel.send(&report, &[]).ok();
            false
        }
    }
}

fn read_plan(mut descriptors: Vec<OwnedFd>) -> Result<(LaunchPlan, Descriptors), StepError> {
    if descriptors.is_empty() {
        return Err(Errno::BADF.into());
    }
    let plan: LaunchPlan = read_file(descriptors.remove(0))?;
    if plan.fail_at == Some(Step::ReadPlan) {
        return Err(Errno::CANCELED.into());
    }
    Ok((plan, Descriptors::from_received(descriptors)))
}

fn read_file<T: serde::de::DeserializeOwned>(file: OwnedFd) -> Result<T, StepError> {
    let file = std::fs::File::from(file);
    Ok(serde_json::from_reader(io::BufReader::new(file)).map_err(io::Error::from)?)
}

/// A launch under way.
#[derive(Debug, Clone, Copy)]
struct Launch<'a> {
    plan: &'a LaunchPlan,
    descriptors: &'a Descriptors,
    /// An empty network namespace that nobody uses.
    network: Option<&'a OwnedFd>,
}

/// The new process, killed unless it is handed over.
#[derive(Debug)]
struct ChildGuard {
    child: Child,
    kept: bool,
}

impl Launch<'_> {
    fn carry_out(self, steps: &mut StepRunner) -> Result<ChildGuard, Failure> {
        let plan = self.plan;
        // The order of the steps matters. Cgroups come first, so that all that a launch does is
        // counted and limited as the sandbox's own.
        steps.run(Step::JoinCgroups, || self.join(&self.plan.cgroups))?;
        steps.run(Step::SetLimits, || self.set_limits())?;
        // Both are opened in the host's namespaces, because later no path leads to them any more.
        let (host, link) = steps.run(Step::LeaveNamespaces, || {
            let host = HostProc::open()?;
            let link = network::Outside::open(&plan.network)?;
            self.leave_namespaces()?;
            Ok((host, link))
        })?;
        // Made before its root, because the layers are id-mapped to its user namespace. It waits
        // for the message of the last step.
        let (child, conversation) = steps.run(Step::CloneProcess, || self.clone_process(&host))?;
        steps.run(Step::SettleCgroups, || settle::settle(self, &child.child))?;
        let users = steps.run(Step::MapUsers, || map_users(plan, &host, child.child.pid))?;
        steps.run(Step::MakeLink, || link.make_link(plan, &host))?;
        steps.run(Step::ConfigureNetwork, || network::configure(plan, &host))?;
        let root = root::build(
            &plan.root,
            plan.users,
            users.as_ref(),
            self.descriptors,
            steps,
        )?;
        steps.run(Step::MakeDevices, || devices::make(&root, plan))?;
        let own_files = steps.run(Step::MountSystem, || {
            root::mount_system(&root, plan)?;
            proc::OwnFiles::make(&host, plan)
        })?;
        let volumes = steps.run(Step::BindFiles, || {
            plan.binds
                .iter()
                .try_for_each(|bind| tree::bind(&root, bind, plan.users))?;
            volumes::take_all(plan, users.as_ref(), self.descriptors)
        })?;
        steps.run(Step::PivotRoot, || root::pivot(&root, plan))?;
        // After the pivot: the masks are put over paths, and from now on paths are the sandbox's.
        steps.run(Step::MountProc, || {
            proc::mount(&child.child, &host, &own_files, plan)
        })?;
        steps.run(Step::ShowVolumes, || {
            volumes::show_all(&root, plan, volumes)
        })?;
        // Only when every mount is in place may the new process copy the mount namespace into one
        // of its own users: that is when the kernel locks them all against root inside.
        let timings = steps.run(Step::HandOver, || {
            let memory_info = own_files.memory_info.as_ref();
            let files: Vec<_> = memory_info
                .map(|(file, _)| file.as_fd())
                .into_iter()
                .collect();
            conversation.send(&(), &files)?;
            Ok(listen(&conversation))
        })??;
        steps.timings.extend(timings);
        Ok(child)
    }

    fn join(self, cgroups: &[Descriptor]) -> Result<(), StepError> {
        // Zero stands for the process that writes.
        self.move_to(cgroups, 0)
    }

    /// Moves the process of this number to cgroups.
    fn move_to(self, cgroups: &[Descriptor], pid: i32) -> Result<(), StepError> {
        let number = pid.to_string();
        for cgroup in cgroups {
            let file = self.descriptors.get(*cgroup)?;
            rustix::io::write(file, number.as_bytes()).about(|| format!("{cgroup:?}"))?;
        }
        Ok(())
    }

    /// Sets the limits of this process. Only root of the host may raise one, so this is done before
    /// the user namespace.
    fn set_limits(self) -> Result<(), StepError> {
        let process = &self.plan.process;
        let core_dump = self.plan.has(Defence::NoCoreDumps).then_some(NO_CORE_DUMP);
        std::fs::write(
            "/proc/self/oom_score_adj",
            process.oom_score_adjust.to_string(),
        )
        .about(|| "oom_score_adj".into())?;
        for (resource, limit) in [
            (
                Resource::Nofile,
                (Some(process.open_files.0), Some(process.open_files.1)),
            ),
            (Resource::Core, (core_dump, core_dump)),
            (
                Resource::Memlock,
                (Some(LOCKED_MEMORY), Some(LOCKED_MEMORY)),
            ),
            (Resource::Stack, (Some(STACK), None)),
            (Resource::Nproc, (None, None)),
            (Resource::Fsize, (None, None)),
        ] {
            set_limit(resource, limit).about(|| format!("{resource:?}"))?;
        }
        if self.plan.parent.is_some() {
            self.take_part_of_shared_limits()?;
        }
        Ok(())
    }

    fn leave_namespaces(self) -> Result<(), StepError> {
        let network = match (&self.plan.network, self.plan.parent, self.network) {
            // Below a parent the network namespace is made there.
            (Network::Host, _, _) | (_, Some(_), _) => UnshareFlags::empty(),
            (Network::Loopback | Network::Link(_), None, Some(made)) => {
                move_into_link_name_space(made.as_fd(), Some(LinkNameSpaceType::Network))?;
                UnshareFlags::empty()
            }
            (Network::Loopback | Network::Link(_), None, None) => UnshareFlags::NEWNET,
        };
        skep_linux::leave_namespaces(UnshareFlags::NEWNS | network)?;
        let private = rustix::mount::MountPropagationFlags::PRIVATE
            | rustix::mount::MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private)?;
        rustix::process::umask(Mode::empty());
        Ok(())
    }

    /// Lifts the limits of this process, which is to create a user namespace. Everything that such
    /// a namespace and all below it hold together is limited by the limits of its creator, at its
    /// creation. One that has sandboxes below it must not be what limits them. Returns the limits
    /// to go back to.
    fn loosen_inherited_limits(self) -> Result<Vec<(Resource, Rlimit)>, StepError> {
        if self.plan.privileges != Privileges::Enter {
            return Ok(Vec::new());
        }
        let mut after = Vec::new();
        for resource in COUNTED_BY_CREATOR {
            let before = rustix::process::getrlimit(resource);
            let unlimited = Rlimit {
                current: None,
                maximum: None,
            };
            match rustix::process::setrlimit(resource, unlimited) {
                Ok(()) => after.push((resource, before)),
                Err(Errno::PERM) => after.push((resource, part_of(before))),
                Err(error) => return Err(error).about(|| format!("{resource:?}")),
            }
        }
        Ok(after)
    }

    /// Limits this process to its part of what all sandboxes below one parent share, where the
    /// parent could not be made without such limits because root of this host may not raise its
    /// own.
    fn take_part_of_shared_limits(self) -> Result<(), StepError> {
        for resource in COUNTED_BY_CREATOR {
            let before = rustix::process::getrlimit(resource);
            let unlimited = Rlimit {
                current: None,
                maximum: None,
            };
            let limit = match rustix::process::setrlimit(resource, unlimited) {
                Ok(()) => before,
                Err(_) => part_of(before),
            };
            rustix::process::setrlimit(resource, limit).about(|| format!("{resource:?}"))?;
        }
        Ok(())
    }

    fn clone_process(self, host: &HostProc) -> Result<(ChildGuard, Channel), StepError> {
        if self.plan.lifetime == Lifetime::Tied {
            // What the process leaves behind comes to this one, however soon it ends.
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        }
        let (ours, theirs) = Channel::pair()?;
        let users = match self.plan.users {
            Users::Host => UnshareFlags::empty(),
            Users::Range { .. } => UnshareFlags::NEWUSER,
        };
        let mut namespaces = users | UnshareFlags::NEWUTS;
        for (defence, namespace) in [
            (Defence::OwnProcesses, UnshareFlags::NEWPID),
            (Defence::OwnIpc, UnshareFlags::NEWIPC),
            (Defence::OwnCgroups, UnshareFlags::NEWCGROUP),
        ] {
            if self.plan.has(defence) {
                namespaces |= namespace;
            }
        }
        if self.plan.privileges == Privileges::Enter {
            namespaces.remove(UnshareFlags::NEWPID);
        }
        if let Some(parent) = self.plan.parent {
            let ends = (ours, theirs);
            return nested_users::clone_process(self, host, parent, namespaces, ends);
        }
        let limits = self.loosen_inherited_limits()?;
        let cloned = as_creator(self.plan.users, || skep_linux::clone_process(namespaces))?;
        for (resource, limit) in limits {
            rustix::process::setrlimit(resource, limit)?;
        }
        match cloned {
            Cloned::Child => {
                drop(ours);
                inside::run(self, host, &theirs)
            }
            Cloned::Parent(child) => Ok((ChildGuard { child, kept: false }, ours)),
        }
    }

    fn hand_over(
        self,
        steps: &mut StepRunner,
        channel: &Channel,
        mut child: ChildGuard,
    ) -> Result<(), Failure> {
        let report = Report::Started {
            pid: child.child.pid,
            timings: std::mem::take(&mut steps.timings),
        };
        steps.run(Step::HandOver, || {
            channel.send(&report, &[child.child.pidfd.as_fd()])?;
            Ok(())
        })?;
        // A detached process lives on without this one. A tied one is still killed if what follows
        // fails.
        child.kept = self.plan.lifetime == Lifetime::Detached;
        if child.kept {
            return Ok(());
        }
        let ended = steps.run(Step::HandOver, || supervise(channel, &child.child))?;
        child.kept = true;
        channel.send(&Report::Ended(ended), &[]).ok();
        reap_orphans();
        Ok(())
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // With the first process of a pid namespace, the kernel kills all others in it. Both
        // calls fail only when it is gone already.
        rustix::process::pidfd_send_signal(&self.child.pidfd, Signal::KILL).ok();
        let pidfd = WaitId::PidFd(self.child.pidfd.as_fd());
        rustix::io::retry_on_intr(|| rustix::process::waitid(pidfd.clone(), WaitIdOptions::EXITED))
            .ok();
    }
}

/// The host's `/proc`, which stays reachable by descriptor when its mount no longer is.
///
/// Files below `sys` are those of the namespaces of whoever opens them.
#[derive(Debug)]
struct HostProc {
    proc: RefCell<Option<OwnedFd>>,
}

impl HostProc {
    fn open() -> Result<Self, StepError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open("/proc", flags, Mode::empty()).about(|| "/proc".into())?;
        Ok(Self {
            proc: RefCell::new(Some(proc)),
        })
    }

    /// Closes it in this process. One that goes on to resolve paths of a root that nobody has checked
    /// could be led through it to the host's files, by a link to its own descriptors.
    fn close(&self) {
        self.proc.take();
    }

    fn open_file(&self, path: &str) -> Result<OwnedFd, StepError> {
        self.open_with(path, OFlags::RDONLY)
    }

    fn write(&self, path: &str, content: &str) -> Result<(), StepError> {
        let file = self.open_with(path, OFlags::WRONLY)?;
        rustix::io::write(&file, content.as_bytes()).about(|| format!("/proc/{path}"))?;
        Ok(())
    }

    fn open_with(&self, path: &str, flags: OFlags) -> Result<OwnedFd, StepError> {
        let proc = self.proc.borrow();
        let proc = proc.as_ref().ok_or(Errno::BADF);
        proc.and_then(|proc| rustix::fs::openat(proc, path, flags | OFlags::CLOEXEC, Mode::empty()))
            .about(|| format!("/proc/{path}"))
    }
}

/// Returns the share of one of [`crate::MAX_PER_PARENT`] in a limit for all.
fn part_of(limit: Rlimit) -> Rlimit {
    let part = |limit: Option<u64>| limit.map(|limit| limit / u64::from(crate::MAX_PER_PARENT));
    Rlimit {
        current: part(limit.current),
        maximum: part(limit.maximum),
    }
}

/// Sets a limit. Where this process may not raise its own maximum, that is the limit.
fn set_limit(resource: Resource, wanted: (Option<u64>, Option<u64>)) -> rustix::io::Result<()> {
    let limit = Rlimit {
        current: wanted.0,
        maximum: wanted.1,
    };
    match rustix::process::setrlimit(resource, limit) {
        Err(Errno::PERM) => {}
        done => return done,
    }
    let maximum = rustix::process::getrlimit(resource).maximum;
    let below = |limit: Option<u64>| match (limit, maximum) {
        (Some(limit), Some(maximum)) => Some(limit.min(maximum)),
        (None, maximum) => maximum,
        (limit, None) => limit,
    };
    let limit = Rlimit {
        current: below(wanted.0),
        maximum: below(wanted.1),
    };
    rustix::process::setrlimit(resource, limit)
}

/// Makes a user namespace as somebody who is nobody else.
///
/// Resources of the kernel that the users of a namespace hold (watches, queues, timers, pending signals)
/// are counted against its creator, too. If that was root, one sandbox could use up what root
/// of the host and all other sandboxes may have.
fn as_creator(
    users: Users,
    create: impl FnOnce() -> io::Result<Cloned>,
) -> Result<Cloned, StepError> {
    let Users::Range { first, .. } = users else {
        return Ok(create()?);
    };
    let capabilities = rustix::thread::capabilities(None)?;
    let root = Uid::ROOT;
    rustix::thread::set_thread_res_uid(root, Uid::from_raw(first), root)?;
    // Some hosts let only those make user namespaces who have capabilities, which went
    // with the user.
    rustix::thread::set_capabilities(None, capabilities)?;
    let created = create()?;
    if matches!(created, Cloned::Parent(_)) {
        rustix::thread::set_thread_res_uid(root, root, root)?;
    }
    Ok(created)
}

/// Maps the ids and returns the user namespace, if there is one.
fn map_users(plan: &LaunchPlan, host: &HostProc, pid: i32) -> Result<Option<OwnedFd>, StepError> {
    let Users::Range { first, count } = plan.users else {
        return Ok(None);
    };
    // Below a parent that has been done there.
    if plan.parent.is_none() {
        let map = format!("0 {first} {count}");
        host.write(&format!("{pid}/uid_map"), &map)?;
        host.write(&format!("{pid}/gid_map"), &map)?;
    }
    host.open_file(&format!("{pid}/ns/user")).map(Some)
}

/// Hears what the new process has to say until it executes its program.
fn listen(conversation: &Channel) -> Result<Vec<(Step, u32)>, Failure> {
    let mut ready = None;
    loop {
        let word = conversation.receive::<ChildMessage>();
        match word {
            Ok(Some((ChildMessage::Ready { timings }, _))) => ready = Some(timings),
            Ok(Some((ChildMessage::Failed { step, errno, thing }, _))) => {
                return Err(Failure {
                    step,
                    error: StepError { errno, thing },
                });
            }
            // The other end is closed by the execution, or by an end that nobody wanted.
            Ok(None) => {
                return ready.ok_or(Failure {
                    step: Step::OwnMounts,
                    error: Errno::PIPE.into(),
                });
            }
            Err(error) => {
                return Err(Failure {
                    step: Step::HandOver,
                    error: error.into(),
                });
            }
        }
    }
}

/// Reaps what a tied process has left behind, until nothing is left of it. What somebody has
/// stopped would never end, and what it is part of neither, so that is killed. Whoever does not
/// want to wait for the rest kills the launcher.
fn reap_orphans() {
    // Nobody else's children can be meant: this process has launched nothing else.
    loop {
        match rustix::process::wait(WaitOptions::UNTRACED) {
            Ok(Some((orphan, status))) if status.stopped() => {
                // It has the number until it is waited for, here.
                rustix::process::kill_process(orphan, Signal::KILL).ok();
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Waits until the process ends or nobody listens any more.
fn supervise(channel: &Channel, child: &Child) -> Result<Ended, StepError> {
    use rustix::event::{PollFd, PollFlags};
    loop {
        let mut watched = [
            PollFd::new(&child.pidfd, PollFlags::IN),
            PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::empty()),
        ];
        match rustix::event::poll(&mut watched, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        match skep_linux::termination(child.pidfd.as_fd())? {
            Some(skep_linux::Termination::Code(code)) => return Ok(Ended::Code(code)),
            Some(skep_linux::Termination::Signal(signal)) => return Ok(Ended::Signal(signal)),
            Some(skep_linux::Termination::Unknown) => return Err(Errno::CHILD.into()),
            None => {}
        }
        if watched[1].revents().contains(PollFlags::HUP) {
            return Err(Errno::PIPE.into());
        }
    }
}
