//! The socket between the server and a process of a sandbox. One message is one packet, with
//! descriptors or without.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::unix::AsyncFd;

/// The largest message about connections: a name, a path and a few numbers, or a certificate.
pub(crate) const OF_CONNECTIONS: usize = 8 * 1024;
/// The largest message about a request: its path, or values of its headers.
pub(crate) const OF_REQUESTS: usize = 80 * 1024;

/// Two connected ends that do not block, for messages.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    pair_of(SocketType::SEQPACKET)
}

/// Two connected ends that do not block, for bytes.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    pair_of(SocketType::STREAM)
}

fn pair_of(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = AddressFamily::UNIX;
    Ok(rustix::net::socketpair(family, kind, flags, None)?)
}

/// One end of the socket.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: AsyncFd<OwnedFd>,
    most_bytes: usize,
}

impl Channel {
    /// Takes one end, in a runtime, for messages of this size at most.
    pub(crate) fn new(socket: OwnedFd, most_bytes: usize) -> io::Result<Self> {
        #[expect(
            deprecated,
            reason = "what the newer call demands is what an owned descriptor is: open, and always the same"
        )]
        let socket = AsyncFd::new(socket)?;
        Ok(Self { socket, most_bytes })
    }

    /// Sends a message, when there is room for it.
    pub(crate) async fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > self.most_bytes {
            return Err(rustix::io::Errno::MSGSIZE.into());
        }
        loop {
            let mut ready = self.socket.writable().await?;
            let sent = ready.try_io(|socket| {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                if !descriptors.is_empty() {
                    control.push(SendAncillaryMessage::ScmRights(descriptors));
                }
                let flags = SendFlags::NOSIGNAL;
                rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags)?;
                Ok(())
            });
            if let Ok(sent) = sent {
                return sent;
            }
        }
    }

    /// The next message, with the descriptors that came with it; `None` when the other end is closed.
    pub(crate) async fn receive<T: DeserializeOwned>(
        &self,
    ) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        loop {
            let mut ready = self.socket.readable().await?;
            let received = ready.try_io(|socket| receive(socket.get_ref(), self.most_bytes));
            if let Ok(received) = received {
                let Some((bytes, descriptors)) = received? else {
                    return Ok(None);
                };
                return Ok(Some((serde_json::from_slice(&bytes)?, descriptors)));
            }
        }
    }
}

fn receive(socket: &OwnedFd, most_bytes: usize) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; most_bytes];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let cut = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
    if received.flags.intersects(cut) {
        return Err(rustix::io::Errno::MSGSIZE.into());
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    bytes.truncate(received.bytes);
    Ok(Some((bytes, descriptors)))
}
