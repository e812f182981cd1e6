//! A descriptor of a child, read and written without blocking the runtime.

use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

/// The agent's end of a pipe or terminal.
#[derive(Debug)]
pub(crate) struct PipeEnd {
    descriptor: AsyncFd<OwnedFd>,
}

impl PipeEnd {
    /// Takes over a descriptor. Must be called within the runtime.
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&descriptor, true)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe for types that may change their descriptor; an OwnedFd cannot"
        )]
        let descriptor = AsyncFd::new(descriptor)?;
        Ok(Self { descriptor })
    }

    /// The descriptor itself, for what is neither reading nor writing.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        self.descriptor.get_ref()
    }

    /// Waits for the next piece, at most `limit` long. `None` is the end.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when this is dropped.
    pub(crate) async fn read(&self, limit: usize) -> io::Result<Option<Bytes>> {
        loop {
            let mut ready = self.descriptor.readable().await?;
            match ready.try_io(|descriptor| Ok(read_once(descriptor.get_ref(), limit)?)) {
                Ok(answer) => return answer,
                Err(_not_ready) => {}
            }
        }
    }

    /// Waits until there is something to read, for a caller who then reads all there is with
    /// [`PipeEnd::read_now`].
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.descriptor.readable().await?.clear_ready();
        Ok(())
    }

    /// The next piece if it is there already.
    pub(crate) fn read_now(&self, limit: usize) -> io::Result<Option<Bytes>> {
        Ok(read_once(self.descriptor.get_ref(), limit)?)
    }

    /// Writes all of `data`, waiting whenever the reader is behind.
    pub(crate) async fn write_all(&self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let mut ready = self.descriptor.writable().await?;
            match ready.try_io(|descriptor| Ok(rustix::io::write(descriptor.get_ref(), data)?)) {
                Ok(Ok(written)) => data = &data[written..],
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_not_ready) => {}
            }
        }
        Ok(())
    }
}

/// The largest piece that is read at once.
pub(crate) const MAX_PIECE: usize = 32 << 10;

/// Reads on the stack and keeps only what came, so that a silent process costs no buffer.
fn read_once(descriptor: &OwnedFd, limit: usize) -> Result<Option<Bytes>, Errno> {
    let mut buffer = [0; MAX_PIECE];
    let limit = limit.min(MAX_PIECE);
    loop {
        return match rustix::io::read(descriptor, &mut buffer[..limit]) {
            Ok(0) => Ok(None),
            Ok(length) => Ok(Some(Bytes::copy_from_slice(&buffer[..length]))),
            // A terminal whose last user has gone.
            Err(Errno::IO) => Ok(None),
            Err(Errno::INTR) => continue,
            Err(errno) => Err(errno),
        };
    }
}
