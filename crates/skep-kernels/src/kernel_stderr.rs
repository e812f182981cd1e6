//! A kernel's standard error until it speaks the protocol: the only explanation of a failed start.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe::Receiver;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Bytes kept, from the end.
const LENGTH: usize = 2048;

/// Our end of a kernel's standard error, until it redirects its output. Dropped, it lets
/// whatever still writes there fail instead of wait.
#[derive(Debug)]
pub(crate) struct KernelStderr(OwnedFd);

impl KernelStderr {
    /// Both ends, the kernel's second.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        rustix::io::ioctl_fionbio(&theirs, false)?;
        Ok((Self(ours), theirs))
    }

    /// The end of what was written.
    pub(crate) fn read(self) -> String {
        let mut text = Vec::new();
        let mut pipe = std::fs::File::from(self.0).take(1 << 20);
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = pipe.read(&mut piece) {
            text.extend_from_slice(&piece[..length]);
        }
        let start = text.len().saturating_sub(LENGTH);
        String::from_utf8_lossy(&text[start..]).trim().to_owned()
    }

    /// Reads and forgets from now on what a kernel goes on to write, because one that cannot
    /// write its log any more waits, or complains about it where the user sees it.
    pub(crate) fn pass_over(self) -> io::Result<PassedOver> {
        let mut pipe = Receiver::from_owned_fd(self.0)?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        skep_telemetry::spawn("kernel errors", async move {
            let read = async { tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await };
            tokio::select! {
                () = stopped.cancelled() => {}
                read = read => {
                    if let Err(error) = read {
                        tracing::debug!(%error, "standard error of a kernel cannot be read");
                    }
                }
            }
        });
        Ok(PassedOver(stop.drop_guard()))
    }
}

/// Words that are read and forgotten until this is dropped.
#[derive(Debug)]
pub(crate) struct PassedOver(#[expect(dead_code, reason = "dropping it is its use")] DropGuard);
