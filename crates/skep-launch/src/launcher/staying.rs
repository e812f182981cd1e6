//! A launcher that stays, and forks for every plan.
//!
//! This process reads no plan: it passes what came with one to the fork and closes it. So there
//! is nothing of a plan here that the next fork could inherit, neither memory nor descriptor.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::PidfdFlags;
use rustix::thread::UnshareFlags;
use skep_linux::{Child, Cloned};

use crate::channel::Channel;
use crate::order::Order;
use crate::report::Report;

/// Forks for every plan that comes over `socket`, until the other end is closed. False if it
/// had to give up.
pub(super) fn stay(socket: Channel) -> bool {
    let mut forks: Vec<Child> = Vec::new();
    loop {
        match wait(&socket, &mut forks) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(_) => return false,
        }
        match socket.receive::<Order>() {
            Ok(Some((Order::CarryOut, descriptors))) => {
                match skep_linux::clone_process(UnshareFlags::empty()) {
                    Ok(Cloned::Parent(fork)) => forks.push(fork),
                    Ok(Cloned::Child) => {
                        drop((socket, forks));
                        skep_linux::exit_now(i32::from(!begin(descriptors)));
                    }
                    // The plan is let go, and whoever sent it sees that nobody has it.
                    Err(_) => {}
                }
            }
            Ok(Some((Order::Stay, _))) | Err(_) => return false,
            Ok(None) => return true,
        }
    }
}

/// Waits until there is an order, and reaps forks that have ended. False if there is none yet.
fn wait(socket: &Channel, forks: &mut Vec<Child>) -> rustix::io::Result<bool> {
    let sockets = std::iter::once(socket.as_fd());
    let all = sockets.chain(forks.iter().map(|fork| fork.pidfd.as_fd()));
    let mut watched: Vec<_> = all
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
        .collect();
    match rustix::event::poll(&mut watched, None) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(false),
        Err(error) => return Err(error),
    }
    let ready: Vec<bool> = watched
        .iter()
        .map(|descriptor| !descriptor.revents().is_empty())
        .collect();
    let mut ended = ready[1..].iter();
    // One that cannot be waited for is not kept either.
    forks.retain(|fork| {
        let has_ended = ended.next() == Some(&true);
        !has_ended || matches!(skep_linux::termination(fork.pidfd.as_fd()), Ok(None))
    });
    Ok(ready[0])
}

/// What a fork does: says that it begins, and carries the plan out.
fn begin(mut descriptors: Vec<OwnedFd>) -> bool {
    if descriptors.is_empty() {
        return false;
    }
    let channel = Channel::from_descriptor(descriptors.remove(0));
    let myself = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
    let Ok(myself) = myself else {
        return false;
    };
    // Whoever sent the plan may have given up. Nothing is done then.
    if channel.send(&Report::Taken, &[myself.as_fd()]).is_err() {
        return false;
    }
    drop(myself);
    super::carry_out(&channel, descriptors)
}
