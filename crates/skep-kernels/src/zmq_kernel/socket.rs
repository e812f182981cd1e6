//! A ZeroMQ socket to a kernel, over a Unix socket.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use bytes::{Buf, Bytes};
use skep_jupyter::zmtp::{Decoder, Role, encode, opening};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::frame_buffer::LARGEST_FRAME;

/// One socket. It writes what it was given while it is read from.
#[derive(Debug)]
pub(super) struct Socket {
    stream: UnixStream,
    decoder: Decoder,
    outgoing: VecDeque<Bytes>,
}

impl Socket {
    /// Connects to a path where a kernel listens already.
    pub(super) async fn connect(path: &Path, role: Role) -> io::Result<Self> {
        Ok(Self {
            stream: UnixStream::connect(path).await?,
            decoder: Decoder::new(LARGEST_FRAME as u64),
            outgoing: VecDeque::from([opening(role)]),
        })
    }

    /// Takes over a message.
    pub(super) fn send(&mut self, frames: &[Bytes]) {
        self.outgoing.push_back(encode(frames));
    }

    /// Waits for the next message, and writes meanwhile.
    ///
    /// # Errors
    ///
    /// If the kernel has closed the socket, or does not speak ZMTP.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when this is dropped.
    pub(super) async fn receive(&mut self) -> io::Result<Vec<Bytes>> {
        loop {
            if let Some(message) = self.decoder.message().map_err(io::Error::other)? {
                return Ok(message);
            }
            let interest = if self.outgoing.is_empty() {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            self.stream.ready(interest).await?;
            self.write()?;
            match self.stream.try_read_buf(self.decoder.space()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn write(&mut self) -> io::Result<()> {
        while let Some(bytes) = self.outgoing.front_mut() {
            match self.stream.try_write(bytes) {
                Ok(written) => bytes.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.outgoing.front().is_some_and(Bytes::is_empty) {
                self.outgoing.pop_front();
            }
        }
        Ok(())
    }
}
