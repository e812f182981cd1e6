//! Work of the new process before it becomes the program.

use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Signal, Uid};
use rustix::thread::UnshareFlags;
use skep_linux::{Executable, Execution};

use super::{ChildMessage, HostProc, Launch, root, tree};
use crate::channel::Channel;
use crate::step_error::{About, StepError};
use crate::step_runner::{Failure, StepRunner};
use crate::{
    Defence, Descriptor, LaunchPlan, Lifetime, PlannedFile, Privileges, Process, Program, Step,
    Users, capabilities, filter,
};

/// Counters of the kernel that say how many namespaces of a kind a user namespace may make.
const NAMESPACE_LIMITS: [&str; 8] = [
    "max_user_namespaces",
    "max_pid_namespaces",
    "max_net_namespaces",
    "max_mnt_namespaces",
    "max_ipc_namespaces",
    "max_uts_namespaces",
    "max_cgroup_namespaces",
    "max_time_namespaces",
];

/// Limits of what is counted for the creator of the parent, too, and so for all that are below it:
/// each gets no more than its part.
const SHARED_LIMITS: [(&str, &str); 2] = [
    ("max_inotify_instances", "128"),
    ("max_inotify_watches", "131072"),
];

/// Becomes the planned program, or says why not.
pub(super) fn run(launch: Launch<'_>, host: &HostProc, channel: &Channel) -> ! {
    let mut steps = StepRunner::new(launch.plan.fail_at);
    match prepare(launch, host, channel, &mut steps) {
        Ok(prepared) => prepared.execute(channel, &mut steps, launch.plan.fail_at),
        Err(Failure { step, error }) => {
            let word = ChildMessage::Failed {
                step,
                errno: error.errno,
                thing: error.thing,
            };
            // The launcher sees this process end in any case.
            channel.send(&word, &[]).ok();
            skep_linux::exit_now(1)
        }
    }
}

fn prepare<'a>(
    launch: Launch<'a>,
    host: &HostProc,
    channel: &Channel,
    steps: &mut StepRunner,
) -> Result<Prepared<'a>, Failure> {
    let plan = launch.plan;
    // From here on a launcher that is killed takes this process along. One that was killed before
    // has closed the channel, which is seen below.
    let tied = die_with_launcher(true);
    // The launcher is busy mounting, so there is time for this.
    let filter = filter::filter(plan.privileges);
    let memory_info = steps.run(Step::OwnMounts, || {
        tied?;
        // Waits until the launcher has put all mounts in place: the copy of its namespace is the
        // root.
        let Some(((), mut files)) = channel.receive::<()>()? else {
            return Err(Errno::PIPE.into());
        };
        skep_linux::leave_namespaces(UnshareFlags::NEWNS)?;
        if !plan.has(Defence::OwnRoot) {
            // Only pivoting changes the root of every process at once.
            rustix::process::chroot(root::staged(&plan.root))?;
        }
        rustix::process::chdir("/")?;
        Ok(files.pop())
    })?;
    steps.run(Step::BecomeRoot, || become_root(plan.users))?;
    steps.run(Step::LimitNamespaces, || limit_namespaces(plan, host))?;
    host.close();
    // As root of the new users and in the new root: the files are theirs, and links of the template
    // lead nowhere else.
    steps.run(Step::WriteFiles, || {
        plan.files.iter().try_for_each(write_file)
    })?;
    let prepared = steps.run(Step::SetUpProcess, || {
        rustix::system::sethostname(plan.hostname.as_bytes())?;
        rustix::process::setsid()?;
        if plan.has(Defence::OwnKeyring) {
            leave_session_keyring()?;
        }
        skep_linux::reset_signals()?;
        rustix::process::umask(Mode::from_raw_mode(0o022));
        Prepared::new(launch, memory_info)
    })?;
    // In this order: cutting the bounding set takes `CAP_SETPCAP`, and a filter without
    // `no_new_privs`, under which `sudo` works, takes `CAP_SYS_ADMIN`. Only then are both given up;
    // the filter therefore has to allow the calls of the last step.
    steps.run(Step::DropCapabilities, || {
        if plan.has(Defence::Capabilities) {
            capabilities::cut_bounding_set(plan.privileges)?;
        }
        Ok(())
    })?;
    steps.run(Step::InstallFilter, || {
        if plan.has(Defence::Filter) {
            skep_linux::install_filter(&filter?)?;
        }
        Ok(())
    })?;
    steps.run(Step::BecomeUser, || {
        if plan.has(Defence::Capabilities) {
            capabilities::keep_only(plan.privileges)?;
        }
        match plan.privileges {
            Privileges::Build | Privileges::Sandbox => become_user(&plan.process)?,
            Privileges::Enter => capabilities::keep_entering(|| become_user(&plan.process))?,
        }
        die_with_launcher(plan.lifetime == Lifetime::Tied)?;
        let directory = plan.process.working_directory.as_str();
        rustix::process::chdir(directory).about(|| directory.into())
    })?;
    Ok(prepared)
}

/// The kernel forgets this wish whenever the process changes its user.
fn die_with_launcher(wanted: bool) -> Result<(), StepError> {
    rustix::process::set_parent_process_death_signal(wanted.then_some(Signal::KILL))?;
    Ok(())
}

fn become_root(users: Users) -> Result<(), StepError> {
    if users == Users::Host {
        return Ok(());
    }
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    die_with_launcher(true)
}

/// Sets the limits of namespaces to zero: in a user namespace of one's own all capabilities come
/// back. Nobody inside may make one, and only a capability that nobody inside will have could raise
/// the limit again.
fn limit_namespaces(plan: &LaunchPlan, host: &HostProc) -> Result<(), StepError> {
    if plan.users == Users::Host || !plan.has(Defence::NamespaceLimits) {
        return Ok(());
    }
    if plan.privileges == Privileges::Enter {
        // What is made below counts here, too. The filter keeps this process from it.
        return Ok(());
    }
    write_namespace_limits(host, plan.parent.is_some())
}

/// Writes the limits of the user namespace that this process is in; also those of what is counted
/// for its creator, if that is somebody else's, too.
pub(super) fn write_namespace_limits(host: &HostProc, is_shared: bool) -> Result<(), StepError> {
    if is_shared {
        for (limit, number) in SHARED_LIMITS {
            host.write(&format!("sys/user/{limit}"), number)?;
        }
    }
    for limit in NAMESPACE_LIMITS {
        host.write(&format!("sys/user/{limit}"), "0")?;
    }
    Ok(())
}

fn leave_session_keyring() -> Result<(), StepError> {
    match skep_linux::leave_session_keyring() {
        Ok(()) => Ok(()),
        // A kernel without keys has no keyring to leave.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        Err(error) => Err(error).about(|| "session keyring".into()),
    }
}

fn write_file(file: &PlannedFile) -> Result<(), StepError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty())?;
    let (parent, name) = tree::split(&file.path)?;
    // This process is root of its users already.
    let parent = tree::ensure_directory(root.as_fd(), parent, Users::Host)?;
    match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error).about(|| file.path.clone()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(file.mode))
        .about(|| file.path.clone())?;
    std::fs::File::from(made)
        .write_all(file.content.as_bytes())
        .about(|| file.path.clone())
}

fn become_user(process: &Process) -> Result<(), StepError> {
    let groups: Vec<Gid> = process
        .groups
        .iter()
        .map(|group| Gid::from_raw(*group))
        .collect();
    rustix::thread::set_thread_groups(&groups)?;
    let group = Gid::from_raw(process.group);
    rustix::thread::set_thread_res_gid(group, group, group)?;
    let user = Uid::from_raw(process.user);
    rustix::thread::set_thread_res_uid(user, user, user)?;
    Ok(())
}

/// Everything the execution needs, allocated and opened while that is still easy.
#[derive(Debug)]
struct Prepared<'a> {
    launch: Launch<'a>,
    path: Option<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    null: OwnedFd,
    /// The file over `/proc/meminfo`.
    memory_info: Option<OwnedFd>,
}

impl<'a> Prepared<'a> {
    fn new(launch: Launch<'a>, memory_info: Option<OwnedFd>) -> Result<Self, StepError> {
        let process = &launch.plan.process;
        let path = match &process.program {
            Program::Descriptor(_) => None,
            Program::Path(path) => Some(CString::new(path.as_str())?),
        };
        let arguments = process
            .arguments
            .iter()
            .map(|argument| CString::new(argument.as_str()));
        let environment = process
            .environment
            .iter()
            .map(|(name, value)| CString::new(format!("{name}={value}")));
        // Volumes are in this root by now, and other sandboxes write links into them.
        let null = tree::open_file_itself("/dev/null", OFlags::RDWR)?;
        Ok(Self {
            launch,
            path,
            arguments: arguments.collect::<Result<_, _>>()?,
            environment: environment.collect::<Result<_, _>>()?,
            null,
            memory_info,
        })
    }

    fn execute(&self, channel: &Channel, steps: &mut StepRunner, fail_at: Option<Step>) -> ! {
        let failure = |error: std::io::Error| {
            let error = StepError::from(error);
            let word = ChildMessage::Failed {
                step: Step::Execute,
                errno: error.errno,
                thing: error.thing,
            };
            serde_json::to_vec(&word).unwrap_or_default()
        };
        let refuse = |error: std::io::Error| -> ! {
            rustix::io::write(channel.as_fd(), &failure(error)).ok();
            skep_linux::exit_now(127)
        };
        if fail_at == Some(Step::Execute) {
            refuse(Errno::CANCELED.into());
        }
        let process = &self.launch.plan.process;
        let descriptor = |descriptor: Option<Descriptor>| match descriptor {
            Some(descriptor) => self.launch.descriptors.get(descriptor),
            None => Ok(self.null.as_fd()),
        };
        let standard = [process.stdin, process.stdout, process.stderr];
        let made = self.memory_info.as_ref().unwrap_or(&self.null);
        let passed = (process.pass.iter()).map(|passed| match passed.descriptor {
            Some(passed) => self.launch.descriptors.get(passed),
            None => Ok(made.as_fd()),
        });
        let descriptors = standard.into_iter().map(descriptor).chain(passed);
        let descriptors = match descriptors.collect::<std::io::Result<Vec<_>>>() {
            Ok(descriptors) => descriptors,
            Err(error) => refuse(error),
        };
        let executable = match (&process.program, &self.path) {
            (Program::Descriptor(file), _) => match self.launch.descriptors.get(*file) {
                Ok(file) => Executable::Descriptor(file),
                Err(error) => refuse(error),
            },
            (Program::Path(_), Some(path)) => Executable::Path(path),
            (Program::Path(_), None) => refuse(Errno::NOENT.into()),
        };
        let ready = ChildMessage::Ready {
            timings: std::mem::take(&mut steps.timings),
        };
        if let Err(error) = channel.send(&ready, &[]) {
            refuse(error);
        }
        let execution = Execution {
            executable,
            arguments: &self.arguments,
            environment: &self.environment,
            descriptors: &descriptors,
        };
        skep_linux::execute(&execution, channel.as_fd(), failure)
    }
}
