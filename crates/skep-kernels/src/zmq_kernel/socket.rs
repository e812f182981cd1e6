//! A ZeroMQ socket to a kernel, over a Unix socket.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use bytes::{Buf, Bytes};
use skep_jupyter::zmtp::{Decoder, EVERYTHING, Received, Role, encode, opening};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::frame_buffer::LARGEST_FRAME;

/// Most bytes that an exited process can have left in its socket, with a wide margin. More comes
/// from somebody else who holds it.
const LARGEST_REST: usize = 4 << 20;

/// One socket. It writes what it was given at once, or while it is read from.
#[derive(Debug)]
pub(super) struct Socket {
    stream: UnixStream,
    decoder: Decoder,
    /// Bytes of the greeting that are still to be written before the first message.
    opening: Bytes,
    outgoing: VecDeque<Bytes>,
}

impl Socket {
    /// Connects to a path where a kernel listens already, under a name or an empty one.
    pub(super) async fn connect(path: &Path, role: Role, identity: &str) -> io::Result<Self> {
        let first = match role {
            Role::Dealer => None,
            Role::Subscriber => Some(encode(&[EVERYTHING])),
        };
        Ok(Self {
            stream: UnixStream::connect(path).await?,
            decoder: Decoder::new(LARGEST_FRAME),
            opening: opening(role, identity),
            outgoing: first.into_iter().collect(),
        })
    }

    /// Takes over a message.
    pub(super) fn send(&mut self, frames: &[Bytes]) {
        self.outgoing.push_back(encode(frames));
        self.write();
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
    pub(super) async fn receive(&mut self) -> io::Result<Received> {
        loop {
            if let Some(message) = self.decoder.take().map_err(io::Error::other)? {
                return Ok(message);
            }
            let interest = if self.may_write() {
                Interest::READABLE | Interest::WRITABLE
            } else {
                Interest::READABLE
            };
            self.stream.ready(interest).await?;
            self.write();
            match self.stream.try_read_buf(self.decoder.space()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the last messages of a process that has exited, from a socket that others may hold
    /// open.
    ///
    /// Not through the runtime: it may know of the end before it knows of the bytes.
    pub(super) fn rest(&mut self) -> Vec<Received> {
        let mut rest = Vec::new();
        let mut piece = vec![0; 64 << 10];
        let mut bytes = 0;
        while bytes < LARGEST_REST {
            while let Ok(Some(message)) = self.decoder.take() {
                rest.push(message);
            }
            match rustix::io::read(&self.stream, &mut piece[..]) {
                Ok(length @ 1..) => {
                    self.decoder.space().extend_from_slice(&piece[..length]);
                    bytes += length;
                }
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) | Err(_) => break,
            }
        }
        while let Ok(Some(message)) = self.decoder.take() {
            rest.push(message);
        }
        rest
    }

    fn may_write(&self) -> bool {
        let may_send = self.decoder.is_ready() && !self.outgoing.is_empty();
        may_send || !self.opening.is_empty()
    }

    /// Writes what is possible without waiting.
    fn write(&mut self) {
        while self.may_write() {
            let bytes = match &mut self.opening {
                opening if !opening.is_empty() => opening,
                _ => self
                    .outgoing
                    .front_mut()
                    .expect("there is something to write"),
            };
            match self.stream.try_write(bytes) {
                Ok(written) => bytes.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A kernel that does not listen any more may still have something to say.
                Err(_) => {
                    self.opening.clear();
                    self.outgoing.clear();
                }
            }
            if self.outgoing.front().is_some_and(Bytes::is_empty) {
                self.outgoing.pop_front();
            }
        }
    }
}
