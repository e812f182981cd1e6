//! Confinement of a process of ours that passes on what strangers say, over sockets that it is
//! given.

use std::io;

use rustix::process::{Resource, Signal, setpriority_process, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use super::{ConfineError as Error, enter_working_directory, rlimit};
use crate::capabilities::cut_bounding_set_to;
use crate::filter::filter_of_socket_calls;

/// Namespaces that the process leaves.
const NAMESPACES: UnshareFlags = UnshareFlags::NEWNS
    .union(UnshareFlags::NEWNET)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS)
    .union(UnshareFlags::NEWCGROUP);

/// The rank of such a process among those that want a processor: behind the server.
const NICENESS: i32 = 5;

/// System calls on sockets that are there, beside those that every process of ours needs. None makes a socket,
/// connects one, opens a file, or touches another process; nor does one change how a socket is
/// closed, which the server shares.
const CALLS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_eventfd2,
];

/// Limits of a process that passes on what strangers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayLimits {
    /// User and group id that it takes on.
    pub user: u32,
    /// Address space, in bytes.
    pub memory: u64,
    /// Descriptors that it may have open.
    pub open_files: u64,
}

/// Confines this process, for good: it has the descriptors that are open, its memory and nothing
/// else. Its working directory, which should be empty, is its whole file system, and it dies with
/// the thread that started it.
///
/// Call it in a process with one thread that was made for nothing else.
///
/// # Errors
///
/// The first operation that the system refused. The process must end then, because it is confined
/// by half.
pub fn confine_relay(limits: RelayLimits) -> Result<(), Error> {
    limit(limits).map_err(Error::of("set limits"))?;
    skep_linux::leave_namespaces(NAMESPACES).map_err(Error::of("leave namespaces"))?;
    enter_working_directory().map_err(Error::of("make the working directory the root"))?;
    cut_bounding_set_to(CapabilitySet::empty()).map_err(Error::of("cut capabilities"))?;
    become_user(limits.user).map_err(Error::of("become a user of its own"))?;
    // After the change of the user, which takes it away.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(Error::of("tie the process to its parent"))?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(Error::of("keep its memory to itself"))?;
    rustix::thread::set_no_new_privs(true).map_err(Error::of("give up new privileges"))?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).map_err(Error::of("give up capabilities"))?;
    let filter = filter_of_socket_calls(CALLS).map_err(Error::of("make the filter"))?;
    skep_linux::install_filter(&filter).map_err(Error::of("install the filter"))
}

fn limit(limits: RelayLimits) -> io::Result<()> {
    for (resource, most) in [
        (Resource::As, limits.memory),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Nproc, 0),
    ] {
        setrlimit(resource, rlimit(most))?;
    }
    setpriority_process(None, NICENESS)?;
    Ok(())
}

/// Takes the ids on, for good: what is left of root's rights goes with them.
fn become_user(user: u32) -> io::Result<()> {
    let (user, group) = (
        rustix::process::Uid::from_raw(user),
        rustix::process::Gid::from_raw(user),
    );
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    Ok(())
}
