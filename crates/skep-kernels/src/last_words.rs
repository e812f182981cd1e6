//! What a kernel says before it can speak to us: why it does not start.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};

/// What is kept of it.
const LENGTH: usize = 2048;

/// Our end of a kernel's standard error, until it redirects its output. Dropped, it lets
/// whatever still writes there fail instead of wait.
#[derive(Debug)]
pub(crate) struct LastWords(OwnedFd);

impl LastWords {
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
}

/// A place for output that nobody wants.
pub(crate) fn open_nowhere() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/dev/null", flags, Mode::empty())?)
}
