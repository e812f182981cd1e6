//! The socket between the launcher and whoever started it.
//!
//! One message is one packet with its descriptors, so nobody ever reads half of one.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Descriptors;

/// The largest message. Plans travel in a file of their own, so all messages are small.
const MESSAGE_BYTES: usize = 16 * 1024;

/// One end of the socket.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// Two connected ends.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (left, right) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(left), Self(right)))
    }

    /// Takes a descriptor for one end.
    pub(crate) fn from_descriptor(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// The descriptor itself.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Sends a message with descriptors. Waits until there is room for it.
    pub(crate) fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.send_with(message, descriptors, SendFlags::NOSIGNAL)
    }

    /// Sends like [`Channel::send`], or says at once that there is no room for it.
    pub(crate) fn try_send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        self.send_with(message, descriptors, flags)
    }

    fn send_with(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
        flags: SendFlags,
    ) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > MESSAGE_BYTES {
            return Err(rustix::io::Errno::MSGSIZE.into());
        }
        let mut space =
            vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(Descriptors::MAX + 2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(rustix::io::Errno::TOOMANYREFS.into());
        }
        rustix::net::sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, flags)?;
        Ok(())
    }

    /// Receives the next message; `None` when the other end is closed.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut bytes = vec![0; MESSAGE_BYTES];
        let mut space =
            vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(Descriptors::MAX + 2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(
                &self.0,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            )
        })?;
        if received
            .flags
            .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
        {
            return Err(rustix::io::Errno::MSGSIZE.into());
        }
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        let message = serde_json::from_slice(&bytes[..received.bytes])?;
        Ok(Some((message, descriptors)))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_message_arrives_with_its_descriptors() {
        let (left, right) = Channel::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        left.send(&"hello", &[writer.as_fd()]).unwrap();
        drop(writer);
        drop(left);

        let (text, mut descriptors) = right.receive::<String>().unwrap().unwrap();
        assert_eq!(text, "hello");
        let mut received = std::io::PipeWriter::from(descriptors.pop().unwrap());
        received.write_all(b"over").unwrap();
        drop(received);
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "over");
        assert!(right.receive::<String>().unwrap().is_none(), "then the end");
    }

    #[test]
    fn a_message_that_would_not_fit_is_refused_by_the_sender() {
        let (left, _right) = Channel::pair().unwrap();
        let error = left.send(&"x".repeat(MESSAGE_BYTES), &[]).unwrap_err();
        assert_eq!(
            error.raw_os_error(),
            Some(rustix::io::Errno::MSGSIZE.raw_os_error())
        );
    }
}
