//! The first message of TLS, of which the egress proxy reads the name of the host.
//!
//! A verdict must not depend on how much has come after the message, nor be given before the message has ended:
//! whoever passes on what was judged would pass on something else.

#[allow(dead_code, reason = "the proxy uses more of it")]
#[path = "../../../crates/skep-egress/src/client_hello.rs"]
mod client_hello;

use client_hello::{Hello, read};

pub(super) fn check(data: &[u8]) {
    let verdict = read(data);
    // The first byte is that of a handshake in all that get far; the last one varies.
    let Some(cut) = data.last() else {
        assert_eq!(verdict, Hello::Unfinished, "nothing has been said");
        return;
    };
    let half = data.len() * usize::from(*cut) / 256;
    match read(&data[..half]) {
        Hello::Unfinished => {}
        early => assert_eq!(early, verdict, "more bytes have changed the verdict"),
    }
    if verdict != Hello::Unfinished {
        let followed = [data, b"\x17\x03\x03\0\x01x"].concat();
        assert_eq!(
            read(&followed),
            verdict,
            "what follows has changed the verdict"
        );
    }
    if let Hello::Named(name) = verdict {
        let name = name.to_string();
        let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"-._".contains(&letter);
        assert!(name.bytes().all(is_plain), "{name:?} is no name");
    }
}
