//! Descriptors that a task waits for.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// Lets tasks wait until a descriptor is readable, instead of threads.
pub(crate) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    #[expect(
        deprecated,
        reason = "what the newer call demands is what an owned descriptor is: open, and always the same"
    )]
    AsyncFd::new(descriptor)
}
