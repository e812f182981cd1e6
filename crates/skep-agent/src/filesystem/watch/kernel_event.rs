//! The kernel's notes about changes. Pure.

use rustix::fs::inotify::ReadFlags;

/// One inotify event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KernelEvent {
    /// Watch descriptor of the directory.
    pub(super) watch: i32,
    pub(super) what: ReadFlags,
    /// Name of the entry; `None` is the directory itself.
    pub(super) name: Option<String>,
}

const HEAD: usize = 16;

/// Splits what was read from the kernel's queue, which is always whole notes.
pub(super) fn parse(mut bytes: &[u8]) -> Vec<KernelEvent> {
    let mut events = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() {
        let word = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let length = usize::try_from(u32::from_ne_bytes(word(12))).unwrap_or(usize::MAX);
        let Some((name, rest)) = rest.split_at_checked(length) else {
            break;
        };
        let name = name
            .split(|byte| *byte == 0)
            .next()
            .filter(|name| !name.is_empty());
        events.push(KernelEvent {
            watch: i32::from_ne_bytes(word(0)),
            what: ReadFlags::from_bits_retain(u32::from_ne_bytes(word(4))),
            name: name.map(|name| String::from_utf8_lossy(name).into_owned()),
        });
        bytes = rest;
    }
    events
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn note(watch: i32, what: ReadFlags, padded_name: &[u8]) -> Vec<u8> {
        let mut bytes = watch.to_ne_bytes().to_vec();
        bytes.extend(what.bits().to_ne_bytes());
        bytes.extend(7_u32.to_ne_bytes());
        bytes.extend(u32::try_from(padded_name.len()).unwrap().to_ne_bytes());
        bytes.extend(padded_name);
        bytes
    }

    #[test]
    fn names_lose_their_padding() {
        let mut bytes = note(1, ReadFlags::CREATE, b"file\0\0\0\0");
        bytes.extend(note(2, ReadFlags::DELETE_SELF, b""));
        let expected = [
            KernelEvent {
                watch: 1,
                what: ReadFlags::CREATE,
                name: Some("file".to_owned()),
            },
            KernelEvent {
                watch: 2,
                what: ReadFlags::DELETE_SELF,
                name: None,
            },
        ];
        assert_eq!(parse(&bytes), expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&bytes);
        }
    }
}
