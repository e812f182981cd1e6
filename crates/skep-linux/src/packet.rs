//! Packets with descriptors over a Unix socket: nobody ever reads half of one.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::Pid;

/// Most descriptors in one packet.
pub const MAX_DESCRIPTORS: usize = 64;

/// A received packet.
#[derive(Debug)]
pub struct Packet {
    /// Content of the packet.
    pub bytes: Vec<u8>,
    /// File descriptors that came with it.
    pub descriptors: Vec<OwnedFd>,
    /// The process that sent it, if the socket was made by [`pair_with_senders`]. The kernel
    /// says so; a sender with rights over its pid namespace may name another process there.
    pub sender: Option<Pid>,
}

/// Two connected ends.
///
/// # Errors
///
/// If there are no descriptors left.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Two connected ends; the first learns who sends.
///
/// # Errors
///
/// If there are no descriptors left.
pub fn pair_with_senders() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pair()?;
    rustix::net::sockopt::set_socket_passcred(&ours, true)?;
    Ok((ours, theirs))
}

/// Sends a packet, or says at once that there is no room for it.
///
/// # Errors
///
/// `WouldBlock` if the other end does not read; `BrokenPipe` if it is gone.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOMANYREFS.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, flags)
    })?;
    Ok(())
}

/// Receives the next packet of at most `limit` bytes; `None` when the other end is closed.
/// Blocks until `deadline`.
///
/// # Errors
///
/// `TimedOut` when the time is over; `EMSGSIZE` if the packet is larger.
pub fn receive(socket: impl AsFd, limit: usize, deadline: Instant) -> io::Result<Option<Packet>> {
    wait_until_readable(socket.as_fd(), deadline)?;
    let mut bytes = vec![0; limit];
    let mut space = vec![
        MaybeUninit::uninit();
        rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS), ScmCredentials(1))
    ];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        )
    })?;
    let (mut descriptors, mut sender) = (Vec::new(), None);
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(rights) => descriptors.extend(rights),
            RecvAncillaryMessage::ScmCredentials(credentials) => sender = Some(credentials.pid),
            _ => {}
        }
    }
    let lost = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
    if received.flags.intersects(lost) {
        return Err(Errno::MSGSIZE.into());
    }
    // An empty packet is taken for the end, too: the protocols over these sockets have none.
    if received.bytes == 0 {
        return Ok(None);
    }
    bytes.truncate(received.bytes);
    Ok(Some(Packet {
        bytes,
        descriptors,
        sender,
    }))
}

fn wait_until_readable(socket: BorrowedFd<'_>, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut sockets = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
        match rustix::event::poll(&mut sockets, Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    #[test]
    fn a_packet_arrives_with_its_descriptors_and_its_sender() {
        let (ours, theirs) = pair_with_senders().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        send(&theirs, b"hello", &[file.as_fd()]).unwrap();
        let packet = receive(&ours, 16, soon()).unwrap().unwrap();
        assert_eq!(packet.bytes, b"hello");
        assert_eq!(packet.descriptors.len(), 1);
        assert_eq!(packet.sender, Some(rustix::process::getpid()));
        drop(theirs);
        assert!(
            receive(&ours, 16, soon()).unwrap().is_none(),
            "then the end"
        );
    }

    #[test]
    fn what_never_comes_is_waited_for_until_the_deadline() {
        let (ours, _theirs) = pair().unwrap();
        let error = receive(&ours, 16, Instant::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn whoever_does_not_read_does_not_stop_the_sender() {
        let (ours, _theirs) = pair().unwrap();
        let error = loop {
            if let Err(error) = send(&ours, &[0; 4096], &[]) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
