//! Descriptors that travel with a plan.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};

/// A descriptor that travels with the plan: its place in [`Descriptors`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor(usize);

/// The descriptors that a plan refers to.
#[derive(Debug, Default)]
pub struct Descriptors(Vec<OwnedFd>);

impl Descriptors {
    /// Most descriptors that one message can carry, less the one that holds the plan itself and
    /// the one for its report.
    pub const MAX: usize = 251;

    /// Adds one and says how the plan refers to it.
    pub fn add(&mut self, descriptor: impl Into<OwnedFd>) -> Descriptor {
        self.0.push(descriptor.into());
        Descriptor(self.0.len() - 1)
    }

    /// Adds several descriptors, and returns their places in the same order.
    pub fn add_all(
        &mut self,
        descriptors: impl IntoIterator<Item = impl Into<OwnedFd>>,
    ) -> Vec<Descriptor> {
        let added = descriptors.into_iter();
        added.map(|descriptor| self.add(descriptor)).collect()
    }

    pub(crate) fn from_received(descriptors: Vec<OwnedFd>) -> Self {
        Self(descriptors)
    }

    pub(crate) fn get(&self, descriptor: Descriptor) -> std::io::Result<BorrowedFd<'_>> {
        let found = self.0.get(descriptor.0);
        found.map(AsFd::as_fd).ok_or_else(|| {
            std::io::Error::from_raw_os_error(rustix::io::Errno::BADF.raw_os_error())
        })
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(AsFd::as_fd)
    }
}
