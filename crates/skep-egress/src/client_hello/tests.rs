use proptest::prelude::*;

use super::*;

fn with_length16(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes()[..], bytes].concat()
}

fn extension(kind: u16, contents: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &with_length16(contents)].concat()
}

fn names(names: &[&str]) -> Vec<u8> {
    let one = |name: &&str| [&[HOST_NAME][..], &with_length16(name.as_bytes())].concat();
    let list: Vec<_> = names.iter().flat_map(one).collect();
    extension(SERVER_NAME, &with_length16(&list))
}

/// A message with these extensions, in one record.
fn hello(extensions: &[Vec<u8>]) -> Vec<u8> {
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &with_length16(&[0x13, 0x01]),
        &[1, 0],
        &with_length16(&extensions.concat()),
    ]
    .concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    record(&[&[CLIENT_HELLO][..], &length[1..], &body].concat())
}

fn record(contents: &[u8]) -> Vec<u8> {
    [&[HANDSHAKE, 3, 1][..], &with_length16(contents)].concat()
}

fn named(name: &str) -> Hello {
    Hello::Named(name.parse().unwrap())
}

#[test]
fn the_name_is_read_whatever_stands_around_it() {
    let other = extension(0x1234, b"whatever");
    let whole = hello(&[other.clone(), names(&["WWW.Example.test"]), other]);
    assert_eq!(read(&whole), named("www.example.test"));
}

#[test]
fn a_message_may_come_in_pieces() {
    let whole = hello(&[names(&["a.test"])]);
    for length in 0..whole.len() {
        assert_eq!(read(&whole[..length]), Hello::Unfinished, "{length}");
    }
    let body = &whole[RECORD_HEAD..];
    let pieces: Vec<_> = body.chunks(3).flat_map(record).collect();
    assert_eq!(read(&pieces), named("a.test"));
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let mut longer = hello(&[names(&["a.test"])]);
    longer.extend(record(b"more"));
    assert_eq!(read(&longer), named("a.test"), "what follows is no part");
    let mut body = hello(&[names(&["a.test"])])[RECORD_HEAD..].to_vec();
    body.push(CLIENT_HELLO);
    for (what, bytes) in [
        (
            "two lists",
            hello(&[names(&["a.test"]), names(&["b.test"])]),
        ),
        ("two names", hello(&[names(&["a.test", "b.test"])])),
        ("no name in a list", hello(&[names(&[])])),
        ("an address", hello(&[names(&["192.0.2.7"])])),
        ("a line break", hello(&[names(&["a.test\r\n"])])),
        ("a zero", hello(&[names(&["a.test\0.b.test"])])),
        ("another message behind", record(&body)),
        ("a request", b"GET / HTTP/1.1\r\n".to_vec()),
        ("another message", record(&[2, 0, 0, 1, 0])),
        ("an empty record", record(&[])),
        ("a huge message", record(&[CLIENT_HELLO, 0xff, 0, 0])),
    ] {
        assert_eq!(read(&bytes), Hello::Invalid, "{what}");
    }
}

#[test]
fn a_name_that_is_missing_or_encrypted_is_none() {
    assert_eq!(read(&hello(&[])), Hello::Nameless);
    let encrypted = extension(ENCRYPTED_HELLO, &[0; 40]);
    let both = hello(&[names(&["front.test"]), encrypted]);
    assert_eq!(read(&both), Hello::Encrypted);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        read(&bytes);
        let dressed = record(&[&[CLIENT_HELLO, 0, 1, 0x40][..], &bytes].concat());
        read(&dressed);
    }

    #[test]
    fn a_changed_byte_does_not_make_it_panic(at in 0usize..80, value in any::<u8>()) {
        let mut bytes = hello(&[names(&["a.example.test"]), extension(5, b"x")]);
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
        read(&bytes);
    }
}
