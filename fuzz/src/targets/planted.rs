//! A bug on purpose. `cargo xtask fuzz` fails unless it is found in time, so that a build whose
//! instrumentation does not guide is not taken for one that finds nothing.
//!
//! Blind guessing would need some 2^56 tries.

pub(super) fn check(data: &[u8]) {
    let Some((magic, rest)) = data.split_first_chunk::<4>() else {
        return;
    };
    if u32::from_be_bytes(*magic) == 0x5ce9_bee5 && rest.starts_with(b"hi") && rest.len() == 3 {
        assert!(rest[2] != b'!', "found, as it must be");
    }
}
