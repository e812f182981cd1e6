//! Connections that the packet filter remembers.
//!
//! The kernel is asked in the form of `nfnetlink_conntrack.h`: a header, four bytes about the
//! family, and attributes, some of which have attributes in them.

use std::collections::HashSet;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// Messages about connections, as `NFNL_SUBSYS_CTNETLINK` numbers them.
const GET: u16 = 0x0101;
const DELETE: u16 = 0x0102;
const ERROR: u16 = 2;
const DONE: u16 = 3;

const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
const DUMP: u16 = 0x300;

/// Attributes of a connection, of its first packet's ends, and of addresses.
const ORIGINAL: u16 = 1;
const ADDRESSES: u16 = 1;
const SENDER: u16 = 1;

/// The bits of an attribute's kind that are not flags.
const KIND: u16 = 0x3fff;
const NESTED: u16 = 0x8000;

const HEADER: usize = 16;
const FAMILY: usize = 4;
const ANSWER_BYTES: usize = 64 * 1024;

/// Makes the packet filter of this network forget every connection that one of these addresses has
/// begun, and says how many there were. One that begins meanwhile may be remembered.
///
/// The kernel goes through its whole table for it, which takes tens of milliseconds however few
/// connections there are: ask for many addresses at once.
///
/// # Errors
///
/// The error of the kernel: `EINVAL` if it cannot be asked about connections.
pub fn forget_connections(senders: &HashSet<Ipv4Addr>) -> io::Result<usize> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::NETFILTER),
    )?;
    let mut forgotten = 0;
    for ends in begun_by(&socket, senders)? {
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

/// The ends of every connection that one of `senders` has begun, each as the attribute that
/// names it.
fn begun_by(socket: &OwnedFd, senders: &HashSet<Ipv4Addr>) -> io::Result<Vec<Vec<u8>>> {
    ask(socket, GET, REQUEST | DUMP, &[])?;
    let mut found = Vec::new();
    let listed = answers(socket, |attributes| {
        let ends = find(attributes, ORIGINAL);
        let addresses = ends.and_then(|ends| find(ends, ADDRESSES));
        let sender = addresses.and_then(|addresses| find(addresses, SENDER));
        let sender = sender.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        if let (Some(ends), Some(sender)) = (ends, sender)
            && senders.contains(&sender.into())
        {
            found.push(nested(ORIGINAL, ends));
        }
    });
    listed.map(|()| found)
}

fn ask(socket: &OwnedFd, kind: u16, flags: u16, attributes: &[u8]) -> io::Result<()> {
    let length = HEADER + FAMILY + attributes.len();
    let length = u32::try_from(length).map_err(io::Error::other)?;
    let family = u8::try_from(AddressFamily::INET.as_raw()).map_err(io::Error::other)?;
    let mut message = Vec::new();
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // One question is asked at a time, so its number does not matter.
    message.extend([0; 8]);
    message.extend([family, 0, 0, 0]);
    message.extend(attributes);
    rustix::net::send(socket, &message, SendFlags::empty())?;
    Ok(())
}

/// Gives the attributes of every message to `look`, until the kernel has said all.
fn answers(socket: &OwnedFd, mut look: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; ANSWER_BYTES];
    loop {
        let (length, _) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = buffer.get(..length).unwrap_or_default();
        while let Some((kind, message)) = next(&mut rest, HEADER, |head| {
            (number(head, 0) as usize, short(head, 4))
        }) {
            match kind {
                DONE | ERROR => {
                    let code = i32::from_ne_bytes(number(message, 0).to_ne_bytes());
                    return match code {
                        0 => Ok(()),
                        code => Err(io::Error::from_raw_os_error(-code)),
                    };
                }
                _ => look(message.get(FAMILY..).unwrap_or_default()),
            }
        }
    }
}

/// The contents of the first attribute of a kind.
fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let head = |head: &[u8]| (usize::from(short(head, 0)), short(head, 2) & KIND);
    while let Some((found, contents)) = next(&mut attributes, 4, head) {
        if found == kind {
            return Some(contents);
        }
    }
    None
}

/// Takes what is in front, whose head tells its length and kind; `None` at the end.
fn next<'a>(
    rest: &mut &'a [u8],
    head_bytes: usize,
    head: impl Fn(&[u8]) -> (usize, u16),
) -> Option<(u16, &'a [u8])> {
    let (length, kind) = head(rest.get(..head_bytes)?);
    let contents = rest.get(head_bytes..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, contents))
}

fn attribute(kind: u16, contents: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + contents.len()).expect("attributes here are short");
    let mut attribute = Vec::new();
    attribute.extend(length.to_ne_bytes());
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(contents);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    attribute(kind | NESTED, attributes)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes
        .get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok());
    u32::from_ne_bytes(bytes.unwrap_or_default())
}

fn short(bytes: &[u8], at: usize) -> u16 {
    let bytes = bytes
        .get(at..at + 2)
        .and_then(|bytes| bytes.try_into().ok());
    u16::from_ne_bytes(bytes.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_whatever_is_around_them() {
        let inner = [attribute(7, b"odd"), attribute(SENDER, &[10, 0, 0, 1])].concat();
        let outer = [attribute(3, b"first"), nested(ADDRESSES, &inner)].concat();
        let addresses = find(&outer, ADDRESSES).unwrap();
        assert_eq!(find(addresses, SENDER), Some(&[10, 0, 0, 1][..]));
        assert_eq!(find(addresses, 7), Some(&b"odd"[..]));
        assert_eq!(find(&outer, 9), None);
    }

    #[test]
    fn what_is_cut_short_is_the_end() {
        let whole = attribute(SENDER, &[10, 0, 0, 1]);
        for length in 0..whole.len() {
            assert_eq!(find(&whole[..length], SENDER), None);
        }
        assert_eq!(find(&[0; 8], 0), None, "an attribute without a head");
    }

    #[test]
    fn an_address_that_began_nothing_has_nothing_to_forget() {
        let nobody = HashSet::from([Ipv4Addr::new(192, 0, 2, 77)]);
        assert_eq!(forget_connections(&nobody).unwrap(), 0);
    }
}
