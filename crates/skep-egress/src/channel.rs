//! The socket between the server and the process of a sandbox. One message is one packet, with a
//! descriptor or without.

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

/// The largest message: a name, a path and a few numbers.
const MESSAGE_BYTES: usize = 8 * 1024;

/// Two connected ends that do not block.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(rustix::net::socketpair(family, kind, flags, None)?)
}

/// One end of the socket.
#[derive(Debug)]
pub(crate) struct Channel(AsyncFd<OwnedFd>);

impl Channel {
    /// Takes one end, in a runtime.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        #[expect(
            deprecated,
            reason = "what the newer call demands is what an owned descriptor is: open, and always the same"
        )]
        AsyncFd::new(socket).map(Self)
    }

    /// Sends a message, when there is room for it.
    pub(crate) async fn send(
        &self,
        message: &impl Serialize,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > MESSAGE_BYTES {
            return Err(rustix::io::Errno::MSGSIZE.into());
        }
        loop {
            let mut ready = self.0.writable().await?;
            let sent = ready.try_io(|socket| {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                let descriptors: Vec<_> = descriptor.into_iter().collect();
                if !descriptors.is_empty() {
                    control.push(SendAncillaryMessage::ScmRights(&descriptors));
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

    /// The next message; `None` when the other end is closed.
    pub(crate) async fn receive<T: DeserializeOwned>(
        &self,
    ) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        loop {
            let mut ready = self.0.readable().await?;
            if let Ok(received) = ready.try_io(|socket| receive(socket.get_ref())) {
                let Some((bytes, descriptor)) = received? else {
                    return Ok(None);
                };
                return Ok(Some((serde_json::from_slice(&bytes)?, descriptor)));
            }
        }
    }
}

fn receive(socket: &OwnedFd) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    let mut bytes = vec![0; MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptor = rights.last().or(descriptor);
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
    Ok(Some((bytes, descriptor)))
}
