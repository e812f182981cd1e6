//! Network namespaces that are made before there is a plan for them.
//!
//! A new one takes the kernel as long as several other steps together, and is the same for
//! every sandbox until it has a link.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

/// Number of namespaces kept ready.
const SPARE: usize = 4;

/// Path of this process's network namespace.
const OWN: &str = "/proc/self/ns/net";

/// Empty network namespaces, and the one to come back to.
#[derive(Debug)]
pub(super) struct SpareNetworks {
    host: OwnedFd,
    spare: Vec<OwnedFd>,
    /// The host has no room for more.
    is_full: bool,
}

impl SpareNetworks {
    pub(super) fn new() -> rustix::io::Result<Self> {
        Ok(Self {
            host: open_own()?,
            spare: Vec::new(),
            is_full: false,
        })
    }

    pub(super) fn take(&mut self) -> Option<OwnedFd> {
        self.spare.pop()
    }

    pub(super) fn wants_more(&self) -> bool {
        !self.is_full && self.spare.len() < SPARE
    }

    /// Makes one more.
    ///
    /// # Errors
    ///
    /// If this process cannot come back to its own: it is of no use any more then.
    pub(super) fn make_one(&mut self) -> rustix::io::Result<()> {
        if skep_linux::leave_namespaces(UnshareFlags::NEWNET).is_err() {
            self.is_full = true;
            return Ok(());
        }
        let made = open_own();
        move_into_link_name_space(self.host.as_fd(), Some(LinkNameSpaceType::Network))?;
        self.spare.push(made?);
        Ok(())
    }
}

fn open_own() -> Result<OwnedFd, Errno> {
    rustix::fs::open(OWN, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}
