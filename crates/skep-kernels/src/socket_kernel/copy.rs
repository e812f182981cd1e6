//! Copies that a kernel forks of itself.
//!
//! The kernel gets one end of a new socket, and its copy says hello there. Who that is, is not
//! believed but asked of the host's kernel, which knows the sender of what can be read: user
//! code may answer in the kernel's place and name any process. Until the process is taken over
//! nothing is done to it, and it ends by itself when the socket is closed.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use skep_jupyter::frame::{PROTOCOL, Request};
use skep_jupyter::{Envelope, Message, Reply};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::SocketKernel;
use crate::kernel::{Event, ForkError, Kernel};
use crate::kernel_process::KernelProcess;

/// Time limit for a copy. A fork takes milliseconds, and a host may be busy.
const COPY_TIMEOUT: Duration = Duration::from_secs(5);

impl SocketKernel {
    /// Has the kernel fork, and takes its copy over.
    pub(super) async fn copy(&mut self) -> Result<Self, ForkError> {
        if !self.forks {
            return Err(ForkError::Unsupported);
        }
        timeout(COPY_TIMEOUT, self.copy_at_leisure())
            .await
            .unwrap_or(Err(ForkError::Silent {
                seconds: COPY_TIMEOUT.as_secs(),
            }))
    }

    async fn copy_at_leisure(&mut self) -> Result<Self, ForkError> {
        let (stream, theirs) = socket().map_err(ForkError::Process)?;
        self.copies += 1;
        let id = format!("copy-{}", self.copies);
        self.send(&Request::Fork { id: &id });
        self.attachment = Some(theirs);
        let kills = self.process.processes.out_of_memory_kills();
        let sender = self.hear_of_copy(&id, &stream).await?;
        if !self.process.meter.may_hold(sender) {
            return Err(ForkError::Impostor);
        }
        let processes = Arc::clone(&self.process.processes);
        let adopted = processes.adopt(sender).await.map_err(ForkError::Process)?;
        let mut copy = Self::new(KernelProcess::new(processes, adopted, kills), stream);
        match copy.next().await {
            Event::Message(Envelope {
                message:
                    Message::Hello {
                        protocol: PROTOCOL,
                        heap_limit,
                        forks,
                    },
                ..
            }) => {
                copy.heap_limit = heap_limit;
                copy.forks = forks;
                Ok(copy)
            }
            Event::Message(_) | Event::Ended(_) => Err(ForkError::Impostor),
        }
    }

    /// Waits for the first word of a copy, or for the refusal of its origin. Returns who said it.
    async fn hear_of_copy(&mut self, id: &str, stream: &UnixStream) -> Result<u32, ForkError> {
        let mut hung_up = false;
        loop {
            tokio::select! {
                sender = first_sender(stream), if !hung_up => match sender {
                    Ok(sender) => return Ok(sender),
                    // A kernel that refuses closes the socket and says so, in that order.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => hung_up = true,
                    Err(error) => return Err(ForkError::Process(error)),
                },
                event = self.next() => match event {
                    Event::Message(Envelope {
                        parent: Some(parent),
                        message: Message::Reply(Reply::Failed { value, .. }),
                        ..
                    }) if parent == id => return Err(ForkError::Refused { reason: value }),
                    Event::Message(_) => {}
                    Event::Ended(exit) => return Err(ForkError::Ended(exit)),
                },
            }
        }
    }
}

/// Makes a socket. Our end learns who sends.
fn socket() -> io::Result<(UnixStream, OwnedFd)> {
    let kind = SocketType::STREAM;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    rustix::net::sockopt::set_socket_passcred(&ours, true)?;
    let ours = std::os::unix::net::UnixStream::from(ours);
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs))
}

/// Returns the process that has sent the first byte, which is left where it is.
async fn first_sender(stream: &UnixStream) -> io::Result<u32> {
    let sender = stream
        .async_io(Interest::READABLE, || {
            let mut byte = [0];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            let mut content = [IoSliceMut::new(&mut byte)];
            if recvmsg(stream, &mut content, &mut control, flags)?.bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut sender = None;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmCredentials(credentials) = message {
                    sender = Some(credentials.pid);
                }
            }
            sender.ok_or(io::ErrorKind::InvalidData.into())
        })
        .await?;
    rustix::net::sockopt::set_socket_passcred(stream, false)?;
    Ok(sender.as_raw_nonzero().get().unsigned_abs())
}

/// Writes without waiting, and sends a descriptor with the first byte.
pub(super) fn write_with(
    stream: &UnixStream,
    bytes: &[u8],
    attachment: &OwnedFd,
) -> io::Result<usize> {
    let descriptors = [attachment.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(sendmsg(
        stream,
        &[IoSlice::new(bytes)],
        &mut control,
        flags,
    )?)
}
