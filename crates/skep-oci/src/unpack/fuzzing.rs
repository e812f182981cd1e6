//! A door for the fuzzer.

use std::io::Read;

use super::UnpackLimits;
use super::members::{Change, Kind, LayerPath, Sink, read_members};
use super::stream::LayerStream;

/// Limits within which the fuzzer's archives stay.
const LIMITS: UnpackLimits = UnpackLimits {
    bytes: 1 << 20,
    members: 1000,
    ratio: 50,
};

struct Checked;

impl Sink for Checked {
    fn change(&mut self, change: Change, content: &mut dyn Read) -> std::io::Result<()> {
        match change {
            Change::Add(member) => {
                check(&member.path);
                if let Kind::HardLink(target) = &member.kind {
                    check(target);
                }
                assert_eq!(member.mode & !0o7777, 0);
                for (name, _) in &member.attributes {
                    assert!(!name.starts_with("user.overlay.") && !name.starts_with("trusted."));
                }
                std::io::copy(content, &mut std::io::sink())?;
            }
            Change::Remove(path) => check(&path),
            Change::Hide(path) => check(&path),
            Change::Device => {}
        }
        Ok(())
    }
}

fn check(path: &LayerPath) {
    for name in path.names() {
        assert!(!name.is_empty() && name != b"." && name != b"..");
        assert!(!name.contains(&b'/') && !name.contains(&0));
    }
}

/// Reads the archive of a layer. Panics if a member of it could reach out of the layer.
pub fn read_layer(bytes: &[u8]) {
    if let Ok(mut stream) = LayerStream::new(bytes, LIMITS) {
        // A broken archive is refused, which is no failure.
        drop(read_members(&mut stream, &mut Checked));
        drop(stream.finish());
    }
}
