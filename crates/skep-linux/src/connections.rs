//! Connections that the packet filter remembers.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::AddressFamily;

use crate::netfilter::{ACKNOWLEDGE, DUMP, REQUEST, answers, find, message, nested, open, send};

/// Messages about connections, as `NFNL_SUBSYS_CTNETLINK` numbers them.
const GET: u16 = 0x0101;
const DELETE: u16 = 0x0102;

/// Attributes of a connection: the ends of its first packet, and those of the answer to it.
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
/// Attributes of the ends, and of addresses.
const ADDRESSES: u16 = 1;
const SENDER: u16 = 1;
const RECEIVER: u16 = 2;

/// A connection that the packet filter remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RememberedConnection {
    /// Address that has begun it.
    pub sender: Ipv4Addr,
    /// Address that it was meant for.
    pub receiver: Ipv4Addr,
    /// Address that answers, which is another one if the packet filter has redirected it.
    pub answerer: Ipv4Addr,
}

/// Makes the packet filter of this network forget every connection that `is_meant`, and says how
/// many there were. One that begins meanwhile may be remembered. The next packet of a forgotten
/// connection is judged as the first of a new one.
///
/// The kernel goes through its whole table for it, which takes tens of milliseconds however few
/// connections there are: ask for many at once.
///
/// # Errors
///
/// The error of the kernel: `EINVAL` if it cannot be asked about connections.
pub fn forget_connections(is_meant: impl Fn(RememberedConnection) -> bool) -> io::Result<usize> {
    let socket = open()?;
    let mut forgotten = 0;
    for ends in meant(&socket, is_meant)? {
        ask(&socket, DELETE, REQUEST | ACKNOWLEDGE, &ends)?;
        match answers(&socket, |_| ()) {
            Ok(()) => forgotten += 1,
            // It was forgotten without us.
            Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(forgotten)
}

/// The ends of every connection that is meant, each as the attribute that names it.
fn meant(
    socket: &OwnedFd,
    is_meant: impl Fn(RememberedConnection) -> bool,
) -> io::Result<Vec<Vec<u8>>> {
    ask(socket, GET, REQUEST | DUMP, &[])?;
    let mut found = Vec::new();
    let listed = answers(socket, |attributes| {
        let connection = read(attributes);
        if let Some(ends) = find(attributes, ORIGINAL)
            && connection.is_some_and(&is_meant)
        {
            found.push(nested(ORIGINAL, ends));
        }
    });
    listed.map(|()| found)
}

fn read(attributes: &[u8]) -> Option<RememberedConnection> {
    let address = |direction, end| {
        let addresses = find(find(attributes, direction)?, ADDRESSES)?;
        let bytes = <[u8; 4]>::try_from(find(addresses, end)?).ok()?;
        Some(Ipv4Addr::from(bytes))
    };
    Some(RememberedConnection {
        sender: address(ORIGINAL, SENDER)?,
        receiver: address(ORIGINAL, RECEIVER)?,
        answerer: address(REPLY, SENDER)?,
    })
}

fn ask(socket: &OwnedFd, kind: u16, flags: u16, attributes: &[u8]) -> io::Result<()> {
    let family = u8::try_from(AddressFamily::INET.as_raw()).map_err(io::Error::other)?;
    // One question is asked at a time, so its number does not matter.
    let question = message((kind, flags), 0, [family, 0, 0, 0], attributes)?;
    send(socket, &question)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_began_nothing_has_nothing_to_forget() {
        let nobody = Ipv4Addr::new(192, 0, 2, 77);
        let forgotten = forget_connections(|connection| connection.sender == nobody);
        assert_eq!(forgotten.unwrap(), 0);
    }
}
