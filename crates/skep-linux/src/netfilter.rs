//! Conversations with the kernel's packet filter.
//!
//! The kernel is asked in the form of `nfnetlink.h`: a header, four bytes about the family, and
//! attributes, some of which have attributes in them.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

pub(crate) const REQUEST: u16 = 0x1;
pub(crate) const ACKNOWLEDGE: u16 = 0x4;
pub(crate) const DUMP: u16 = 0x300;

const ERROR: u16 = 2;
const DONE: u16 = 3;

/// The bits of an attribute's kind that are not flags.
const KIND: u16 = 0x3fff;
const NESTED: u16 = 0x8000;

const HEADER: usize = 16;
const FAMILY: usize = 4;
const ANSWER_BYTES: usize = 64 * 1024;

/// Opens a conversation about the current network namespace.
pub(crate) fn open() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::NETFILTER),
    )?)
}

/// One message: its kind and flags, its number, the four bytes about the family, its attributes.
pub(crate) fn message(
    (kind, flags): (u16, u16),
    number: u32,
    family: [u8; FAMILY],
    attributes: &[u8],
) -> io::Result<Vec<u8>> {
    let length = HEADER + FAMILY + attributes.len();
    let mut message = Vec::with_capacity(length);
    let length = u32::try_from(length).map_err(io::Error::other)?;
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(number.to_ne_bytes());
    message.extend([0; 4]);
    message.extend(family);
    message.extend(attributes);
    Ok(message)
}

pub(crate) fn send(socket: &OwnedFd, messages: &[u8]) -> io::Result<()> {
    rustix::net::send(socket, messages, SendFlags::empty())?;
    Ok(())
}

/// Gives the attributes of every message to `look`, until the kernel has said all or reports an
/// error.
pub(crate) fn answers(socket: &OwnedFd, mut look: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; ANSWER_BYTES];
    loop {
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty())
        });
        let (length, _) = received?;
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
pub(crate) fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
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

pub(crate) fn attribute(kind: u16, contents: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + contents.len()).expect("attributes here are short");
    let mut attribute = Vec::new();
    attribute.extend(length.to_ne_bytes());
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(contents);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

pub(crate) fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
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
        let inner = [attribute(7, b"odd"), attribute(1, &[10, 0, 0, 1])].concat();
        let outer = [attribute(3, b"first"), nested(1, &inner)].concat();
        let addresses = find(&outer, 1).unwrap();
        assert_eq!(find(addresses, 1), Some(&[10, 0, 0, 1][..]));
        assert_eq!(find(addresses, 7), Some(&b"odd"[..]));
        assert_eq!(find(&outer, 9), None);
    }

    #[test]
    fn what_is_cut_short_is_the_end() {
        let whole = attribute(1, &[10, 0, 0, 1]);
        for length in 0..whole.len() {
            assert_eq!(find(&whole[..length], 1), None);
        }
        assert_eq!(find(&[0; 8], 0), None, "an attribute without a head");
    }
}
