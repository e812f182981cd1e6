//! Addresses of sockets.
//!
//! CRIU binds a socket to the address that it had when it was written, which the kernel refuses where the
//! tree has another one: a datagram socket that is connected, or a listener of one address. So the tree's old address
//! is replaced by the new one wherever it is, also as the address of a peer. A socket of IPv6 may have it, too, as its
//! last word.

use std::net::Ipv4Addr;

use crate::message::{Field, Value, read, write};

/// Number of the words of an address of IPv4 in one of IPv6, without the last.
const MAPPED: [u64; 3] = [0, 0, word(Ipv4Addr::new(0, 0, 255, 255))];

/// An address as CRIU writes it: the bytes of the network, read as a number of this host.
const fn word(address: Ipv4Addr) -> u64 {
    u32::from_ne_bytes(address.octets()) as u64
}

/// `file_entry`: `isk = 4`, an `inet_sk_entry` with `src_addr = 11` and `dst_addr = 12`, each one word
/// or four.
pub(super) fn edit(message: &[u8], (old, new): (Ipv4Addr, Ipv4Addr)) -> Option<Vec<u8>> {
    const SOCKET: u64 = 4;
    const ADDRESSES: [u64; 2] = [11, 12];
    super::edit_nested(message, &mut |number, bytes| {
        if number != SOCKET {
            return Some(bytes.to_vec());
        }
        let mut fields = read(bytes)?;
        for number in ADDRESSES {
            replace(&mut fields, number, word(old), word(new))?;
        }
        Some(write(&fields))
    })
}

/// Replaces an address; `None` if it is written in another way than is known.
fn replace(fields: &mut [Field], number: u64, old: u64, new: u64) -> Option<()> {
    let mut words = Vec::new();
    for field in fields.iter_mut().filter(|field| field.number == number) {
        match &mut field.value {
            Value::Varint(word) => words.push(word),
            Value::Fixed64(_) | Value::Bytes(_) | Value::Fixed32(_) => return None,
        }
    }
    match words.as_mut_slice() {
        [only] if **only == old => **only = new,
        [first, second, third, last] if [**first, **second, **third] == MAPPED && **last == old => {
            **last = new;
        }
        [] | [_] | [_, _, _, _] => {}
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);
    const NEW: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 254);
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 4);

    fn varint(number: u64, value: u64) -> Field {
        let value = Value::Varint(value);
        Field { number, value }
    }

    fn socket(source: &[u64], peer: &[u64]) -> Vec<u8> {
        let mut fields = vec![varint(1, 7), varint(7, 8123)];
        fields.extend(source.iter().map(|word| varint(11, *word)));
        fields.extend(peer.iter().map(|word| varint(12, *word)));
        file(4, write(&fields))
    }

    fn file(kind: u64, content: Vec<u8>) -> Vec<u8> {
        let entry = Field {
            number: kind,
            value: Value::Bytes(content),
        };
        write(&[varint(1, kind), varint(2, 7), entry])
    }

    #[test]
    fn the_address_of_the_tree_is_replaced_at_both_ends_and_no_other_is() {
        let [old, new, other] = [OLD, NEW, OTHER].map(word);
        let mapped = |last| [&MAPPED[..], &[last]].concat();
        for (before, after) in [
            (socket(&[old], &[other]), socket(&[new], &[other])),
            (socket(&[other], &[old]), socket(&[other], &[new])),
            (socket(&[0], &[]), socket(&[0], &[])),
            (socket(&mapped(old), &[]), socket(&mapped(new), &[])),
            // An address of IPv6 that only ends like it.
            (socket(&[1, 0, 0, old], &[]), socket(&[1, 0, 0, old], &[])),
        ] {
            assert_eq!(edit(&before, (OLD, NEW)), Some(after));
        }
    }

    #[test]
    fn other_files_stay_as_they_are() {
        let content = write(&[varint(11, word(OLD))]);
        let message = file(3, content);
        assert_eq!(edit(&message, (OLD, NEW)), Some(message));
    }

    #[test]
    fn an_address_that_is_not_understood_is_refused() {
        let two = socket(&[word(OLD), word(OLD)], &[]);
        assert_eq!(edit(&two, (OLD, NEW)), None);
        let packed = Field {
            number: 11,
            value: Value::Bytes(vec![1]),
        };
        assert_eq!(edit(&file(4, write(&[packed])), (OLD, NEW)), None);
    }
}
