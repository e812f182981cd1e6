//! The fork server: a launcher that stays and forks for every plan.
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

use super::spare_networks::SpareNetworks;
use crate::channel::Channel;
use crate::command::Command;
use crate::report::Report;
use crate::step_error::{About, StepError};

/// Idle time after which a namespace is made ahead.
const QUIET: Duration = Duration::from_millis(20);

/// The fork server.
#[derive(Debug)]
struct Server {
    socket: Channel,
    /// Forks that have not ended.
    forks: Vec<Child>,
    networks: SpareNetworks,
}

/// Reasons to wake up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// There is a command, or the other end is closed.
    Command,
    /// A fork has ended, or a signal came.
    Other,
    /// No command came for a while.
    Quiet,
}

/// Forks for every plan that comes over `socket`, until the other end is closed.
///
/// # Errors
///
/// The operation without which it cannot go on. It is reported over `socket` too, where the
/// client reads it when it replaces this process.
pub(super) fn serve(socket: Channel) -> Result<(), StepError> {
    let networks = match SpareNetworks::new().about(|| "opening the network namespace".into()) {
        Ok(networks) => networks,
        Err(error) => return Err(give_up(&socket, error)),
    };
    let mut server = Server {
        socket,
        forks: Vec::new(),
        networks,
    };
    loop {
        match server.next_plan() {
            Ok(Some(plan)) => server = server.fork(plan),
            Ok(None) => return Ok(()),
            Err(error) => return Err(give_up(&server.socket, error)),
        }
    }
}

/// Reports why this process ends.
fn give_up(socket: &Channel, error: StepError) -> StepError {
    let report = Report::GaveUp {
        errno: error.errno,
        operation: error.thing.clone(),
    };
    // Where nobody listens any more, ending is all that is left to do.
    socket.send(&report, &[]).ok();
    error
}

/// A plan that came, unread.
#[derive(Debug)]
struct UnreadPlan {
    needs_network: bool,
    /// The socket for its report, the plan, and what the plan refers to.
    descriptors: Vec<OwnedFd>,
}

impl Server {
    /// Waits for the next plan, and makes what can be made ahead meanwhile. `None` when the
    /// other end is closed.
    fn next_plan(&mut self) -> Result<Option<UnreadPlan>, StepError> {
        loop {
            match self.wait().about(|| "waiting for a command".into())? {
                Event::Command => {}
                Event::Other => continue,
                Event::Quiet => {
                    // One that cannot come back to the host's namespace would make the next
                    // sandbox's link from within another's.
                    let made = self.networks.make_one();
                    made.about(|| "returning from a new network namespace".into())?;
                    continue;
                }
            }
            let command = self.socket.receive::<Command>();
            return match command.about(|| "reading a command".into())? {
                Some((Command::Launch { needs_network }, descriptors)) => Ok(Some(UnreadPlan {
                    needs_network,
                    descriptors,
                })),
                Some((Command::ServeForks | Command::Dump, _)) => {
                    Err(Errno::PROTO).about(|| "serving, which it was told twice".into())
                }
                None => Ok(None),
            };
        }
    }

    /// Forks for one plan.
    ///
    /// This process has one thread, so the fork is whole. What came with the plan is closed
    /// here: nothing of it is left for the next fork to inherit.
    fn fork(mut self, plan: UnreadPlan) -> Self {
        let network = if plan.needs_network {
            self.networks.take()
        } else {
            None
        };
        match skep_linux::clone_process(UnshareFlags::empty()) {
            Ok(Cloned::Parent(fork)) => self.forks.push(fork),
            Ok(Cloned::Child) => {
                // The fork keeps neither the socket of the server, on which plans of others
                // arrive, nor the spare namespaces, nor the pidfds of its siblings.
                drop(self);
                skep_linux::exit_now(i32::from(!begin(plan.descriptors, network)));
            }
            // The plan is let go, and its sender sees that no process has it.
            Err(_) => {}
        }
        self
    }

    /// Waits until there is something to do, and reaps forks that have ended.
    fn wait(&mut self) -> rustix::io::Result<Event> {
        // What is made ahead must not take the time of a launch that is under way.
        let is_idle = self.forks.is_empty() && self.networks.wants_more();
        let timeout = if is_idle {
            Some(Timespec::try_from(QUIET).map_err(|_| Errno::INVAL)?)
        } else {
            None
        };
        let sockets = std::iter::once(self.socket.as_fd());
        let all = sockets.chain(self.forks.iter().map(|fork| fork.pidfd.as_fd()));
        let mut watched: Vec<_> = all
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
            .collect();
        match rustix::event::poll(&mut watched, timeout.as_ref()) {
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
        Ok(if ready[0] {
            Event::Command
        } else {
            Event::Other
        })
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
    // The sender may have given up. Nothing is done then.
    if channel.send(&Report::Accepted, &[myself.as_fd()]).is_err() {
        return false;
    }
    drop(myself);
    super::carry_out(&channel, descriptors, network)
}
