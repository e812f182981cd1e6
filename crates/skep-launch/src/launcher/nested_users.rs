//! A process whose user namespace is made below another one than the host's.
//!
//! The kernel lets ids be mapped only from within the new namespace or its parent, and whoever
//! enters the parent has no rights on the host any more. So a helper enters, makes the
//! network namespace and the process, maps the ids and ends; the launcher stays outside.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Pid, PidfdFlags, Uid, WaitId, WaitIdOptions};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use serde::{Deserialize, Serialize};
use skep_linux::{Child, Cloned};

use super::{ChildGuard, HostProc, Launch, inside};
use crate::channel::Channel;
use crate::step_error::{About, StepError};
use crate::{Network, Parent, Users};

/// Messages of the helper to the launcher.
#[derive(Debug, Serialize, Deserialize)]
enum HelperMessage {
    /// The new process, a child of the launcher.
    Process(i32),
    /// The step that failed, and its error.
    Failed { errno: i32, thing: Option<String> },
}

/// Makes the process, and moves the launcher into its network namespace.
pub(super) fn clone_process(
    launch: Launch<'_>,
    host: &HostProc,
    parent: Parent,
    namespaces: UnshareFlags,
    (ours, theirs): (Channel, Channel),
) -> Result<(ChildGuard, Channel), StepError> {
    let (answer, question) = Channel::pair()?;
    match skep_linux::clone_process(UnshareFlags::empty())? {
        Cloned::Child => {
            drop((ours, answer));
            let made = match help(launch, host, parent, namespaces, &theirs) {
                Ok(pid) => HelperMessage::Process(pid),
                Err(StepError { errno, thing }) => HelperMessage::Failed { errno, thing },
            };
            let sent = question.send(&made, &[]);
            skep_linux::exit_now(i32::from(sent.is_err()))
        }
        Cloned::Parent(helper) => {
            // Only the helper and the new process hold these now, so that their ends are seen here.
            drop((theirs, question));
            let made = answer.receive::<HelperMessage>();
            let helper = WaitId::PidFd(helper.pidfd.as_fd());
            rustix::io::retry_on_intr(|| {
                rustix::process::waitid(helper.clone(), WaitIdOptions::EXITED)
            })?;
            let pid = match made? {
                Some((HelperMessage::Process(pid), _)) => pid,
                Some((HelperMessage::Failed { errno, thing }, _)) => {
                    return Err(StepError { errno, thing });
                }
                None => return Err(Errno::PIPE.into()),
            };
            let child = take_charge(pid)?;
            if launch.plan.network != Network::Host {
                let network = host.open_file(&format!("{pid}/ns/net"))?;
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
            }
            Ok((child, ours))
        }
    }
}

/// It is our child and nobody has waited for it, so the id is still its own.
fn take_charge(pid: i32) -> Result<ChildGuard, StepError> {
    let number = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
    let pidfd = rustix::process::pidfd_open(number, PidfdFlags::empty())?;
    Ok(ChildGuard {
        child: Child { pid, pidfd },
        kept: false,
    })
}

/// The helper's work, from inside of the parent.
fn help(
    launch: Launch<'_>,
    host: &HostProc,
    parent: Parent,
    namespaces: UnshareFlags,
    theirs: &Channel,
) -> Result<i32, StepError> {
    let Users::Range { count, .. } = launch.plan.users else {
        return Err(Errno::INVAL.into());
    };
    let namespace = launch.descriptors.get(parent.namespace)?;
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::User))
        .about(|| "the parent's users".into())?;
    if launch.plan.network != Network::Host {
        skep_linux::leave_namespaces(UnshareFlags::NEWNET)?;
    }
    // The creator must be somebody in the parent, and is nobody else: what the kernel counts
    // by user is counted for the creator, too.
    let (user, group) = (Uid::from_raw(parent.first), Gid::from_raw(parent.first));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    // The files of a process belong to it only while it is dumpable, and two are written here.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    match skep_linux::clone_sibling(namespaces)? {
        Cloned::Child => inside::run(launch, host, theirs),
        Cloned::Parent(child) => {
            let map = format!("0 {} {count}", parent.first);
            let mapped = ["uid_map", "gid_map"]
                .iter()
                .try_for_each(|file| host.write(&format!("{}/{file}", child.pid), &map));
            match mapped {
                Ok(()) => Ok(child.pid),
                Err(error) => {
                    // The launcher will never know of it, so it cannot end it.
                    rustix::process::pidfd_send_signal(&child.pidfd, rustix::process::Signal::KILL)
                        .ok();
                    Err(error)
                }
            }
        }
    }
}
