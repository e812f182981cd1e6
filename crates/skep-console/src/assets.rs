//! The files of the pages, as the build packed them.

use std::io::Read as _;

use bytes::Bytes;
use flate2::read::GzDecoder;

/// A file that is part of the executable.
#[derive(Debug)]
pub(crate) struct Asset {
    /// Path below `/console/`.
    pub(crate) path: &'static str,
    /// Its media type.
    pub(crate) kind: &'static str,
    /// Its entity tag.
    pub(crate) mark: &'static str,
    /// Its content, in gzip's format.
    pub(crate) packed: &'static [u8],
}

const ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

impl Asset {
    /// The file at a path below `/console/`.
    pub(crate) fn find(path: &str) -> Option<&'static Self> {
        ASSETS.iter().find(|asset| asset.path == path)
    }

    /// Returns true if its name has a digest of its content, so that it never changes.
    pub(crate) fn never_changes(&self) -> bool {
        self.path.starts_with("assets/")
    }

    /// Its content, for a client that takes no gzip. Few do not, so this is not kept.
    pub(crate) fn unpacked(&self) -> Bytes {
        let mut bytes = Vec::new();
        GzDecoder::new(self.packed)
            .read_to_end(&mut bytes)
            .expect("the build has packed it");
        bytes.into()
    }
}
