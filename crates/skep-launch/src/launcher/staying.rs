//! A launcher that stays, and forks for every plan.
//!
//! This process reads no plan: it passes what came with one to the fork and closes it. So there
//! is nothing of a plan here that the next fork could inherit, neither memory nor descriptor.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::PidfdFlags;
use rustix::thread::UnshareFlags;
use skep_linux::{Child, Cloned};

use super::networks::Networks;
use crate::channel::Channel;
use crate::order::Order;
use crate::report::Report;

/// Idle time after which a namespace is made ahead.
const QUIET: Duration = Duration::from_millis(20);

/// A launcher that stays.
#[derive(Debug)]
struct Staying {
    socket: Channel,
    /// Forks that have not ended.
    forks: Vec<Child>,
    networks: Networks,
}

/// Reasons to wake up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// There is an order, or the other end is closed.
    Order,
    /// A fork has ended, or a signal came.
    Other,
    /// No order came for a while.
    Quiet,
}

/// Forks for every plan that comes over `socket`, until the other end is closed. False if it
/// had to give up.
pub(super) fn stay(socket: Channel) -> bool {
    let Ok(networks) = Networks::new() else {
        return false;
    };
    let mut staying = Staying {
        socket,
        forks: Vec::new(),
        networks,
    };
    loop {
        match staying.wait() {
            Ok(Event::Order) => {}
            Ok(Event::Other) => continue,
            Ok(Event::Quiet) => match staying.networks.make_one() {
                Ok(()) => continue,
                Err(_) => return false,
            },
            Err(_) => return false,
        }
        match staying.socket.receive::<Order>() {
            Ok(Some((Order::CarryOut { needs_network }, descriptors))) => {
                let network = match needs_network {
                    true => staying.networks.take(),
                    false => None,
                };
                // This process has one thread, so the fork is whole. What came with the plan is
                // closed here at the end of this arm: nothing of it is left for the next fork to
                // inherit.
                match skep_linux::clone_process(UnshareFlags::empty()) {
                    Ok(Cloned::Parent(fork)) => staying.forks.push(fork),
                    Ok(Cloned::Child) => {
                        // The fork keeps neither the socket of the server, on which plans of others
                        // arrive, nor the spare namespaces, nor the pidfds of its siblings.
                        drop(staying);
                        skep_linux::exit_now(i32::from(!begin(descriptors, network)));
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

impl Staying {
    /// Waits until there is something to do, and reaps forks that have ended.
    fn wait(&mut self) -> rustix::io::Result<Event> {
        // What is made ahead must not take the time of a launch that is under way.
        let is_idle = self.forks.is_empty() && self.networks.wants_more();
        let patience = match is_idle {
            true => Some(Timespec::try_from(QUIET).map_err(|_| Errno::INVAL)?),
            false => None,
        };
        let sockets = std::iter::once(self.socket.as_fd());
        let all = sockets.chain(self.forks.iter().map(|fork| fork.pidfd.as_fd()));
        let mut watched: Vec<_> = all
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
            .collect();
        match rustix::event::poll(&mut watched, patience.as_ref()) {
            Ok(0) => return Ok(Event::Quiet),
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Event::Other),
            Err(error) => return Err(error),
        }
        let ready: Vec<bool> = watched
            .iter()
            .map(|descriptor| !descriptor.revents().is_empty())
            .collect();
        let mut ended = ready[1..].iter();
        // One that cannot be waited for is not kept either.
        self.forks.retain(|fork| {
            let has_ended = ended.next() == Some(&true);
            !has_ended || matches!(skep_linux::termination(fork.pidfd.as_fd()), Ok(None))
        });
        Ok(if ready[0] { Event::Order } else { Event::Other })
    }
}

/// Announces that this fork begins, and carries the plan out.
fn begin(mut descriptors: Vec<OwnedFd>, network: Option<OwnedFd>) -> bool {
    if descriptors.is_empty() {
        return false;
    }
    let channel = Channel::from_descriptor(descriptors.remove(0));
    // Nothing is done before this has been sent: until then the sender may give the plan to another
    // launcher, and afterwards it never does.
    let myself = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
    let Ok(myself) = myself else {
        return false;
    };
    // Whoever sent the plan may have given up. Nothing is done then.
    if channel.send(&Report::Taken, &[myself.as_fd()]).is_err() {
        return false;
    }
    drop(myself);
    super::carry_out(&channel, descriptors, network)
}
