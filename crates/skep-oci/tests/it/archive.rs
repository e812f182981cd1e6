//! Layers and images that tests make.

use std::io::Write as _;

use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

/// A layer that is put together member by member.
pub(crate) struct Layer(Builder<Vec<u8>>);

/// The digest of a blob, as registries write it.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let digits: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{digits}")
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A frame of zstd with blocks that are stored as they are.
pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
    let mut blocks = bytes.chunks(1 << 16).peekable();
    while let Some(block) = blocks.next() {
        let last = u32::from(blocks.peek().is_none());
        let head = (u32::try_from(block.len()).unwrap() << 3) | last;
        frame.extend(&head.to_le_bytes()[..3]);
        frame.extend(block);
    }
    frame
}

impl Layer {
    pub(crate) fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// Adds a member with any name, also one that a well-meaning program would not write.
    pub(crate) fn raw(mut self, name: &str, kind: EntryType, link: &str, content: &[u8]) -> Self {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(if kind == EntryType::Directory {
            0o755
        } else {
            0o644
        });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_600_000_000);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        self.raw(name, EntryType::Regular, "", content.as_bytes())
    }

    pub(crate) fn directory(self, name: &str) -> Self {
        self.raw(name, EntryType::Directory, "", b"")
    }

    pub(crate) fn symlink(self, name: &str, target: &str) -> Self {
        self.raw(name, EntryType::Symlink, target, b"")
    }

    pub(crate) fn link(self, name: &str, target: &str) -> Self {
        self.raw(name, EntryType::Link, target, b"")
    }

    /// Adds a member with an owner, a mode and extended attributes.
    pub(crate) fn owned(
        mut self,
        name: &str,
        kind: EntryType,
        (mode, user, group): (u32, u64, u64),
        attributes: &[(&str, &[u8])],
    ) -> Self {
        let keyed: Vec<(String, &[u8])> = attributes
            .iter()
            .map(|(name, value)| (format!("SCHILY.xattr.{name}"), *value))
            .collect();
        let borrowed = keyed.iter().map(|(name, value)| (name.as_str(), *value));
        self.0.append_pax_extensions(borrowed).unwrap();
        let mut header = Header::new_ustar();
        header.set_path(name).unwrap();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(user);
        header.set_gid(group);
        header.set_mtime(1_600_000_000);
        header.set_size(0);
        header.set_cksum();
        self.0.append(&header, &b""[..]).unwrap();
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}
