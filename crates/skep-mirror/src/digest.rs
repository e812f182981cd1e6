//! Digests that an index promises of a file.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{Algorithm, Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};

/// A digest of a file, with the way it is made.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Digest {
    kind: Kind,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Kind {
    fn algorithm(self) -> &'static Algorithm {
        match self {
            // As weak as what the client itself would check: packages from before 2017 have no other.
            Self::Sha1 => &SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &SHA256,
            Self::Sha384 => &SHA384,
            Self::Sha512 => &SHA512,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }
}

impl Digest {
    fn new(kind: Kind, bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() == kind.algorithm().output_len()).then_some(Self { kind, bytes })
    }

    /// A SHA-256 in hexadecimal digits.
    pub(crate) fn sha256(text: &str) -> Option<Self> {
        Self::new(Kind::Sha256, hex::decode(text).ok()?)
    }

    /// A SHA-1 in hexadecimal digits.
    pub(crate) fn sha1(text: &str) -> Option<Self> {
        Self::new(Kind::Sha1, hex::decode(text).ok()?)
    }

    /// The strongest digest of a list as npm and browsers write it (`sha512-…`).
    pub(crate) fn of_integrity(text: &str) -> Option<Self> {
        let parsed = text.split_ascii_whitespace().filter_map(|word| {
            let (name, rest) = word.split_once('-')?;
            let kind = match name {
                "sha1" => Kind::Sha1,
                "sha256" => Kind::Sha256,
                "sha384" => Kind::Sha384,
                "sha512" => Kind::Sha512,
                _ => return None,
            };
            let encoded = rest.split_once('?').map_or(rest, |(encoded, _)| encoded);
            Self::new(kind, BASE64_STANDARD.decode(encoded).ok()?)
        });
        parsed.max_by_key(|digest| digest.kind)
    }

    /// Begins to compute the digest of a file.
    pub(crate) fn begin(&self) -> Context {
        Context::new(self.kind.algorithm())
    }

    /// Returns true if the file that was computed is the one that was promised.
    pub(crate) fn is_of(&self, context: Context) -> bool {
        context.finish().as_ref() == self.bytes
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{}:{}",
            self.kind.name(),
            hex::encode(&self.bytes)
        )
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_digest_of_a_list_counts_and_others_are_none() {
        let sha1 = format!("sha1-{}", BASE64_STANDARD.encode([1; 20]));
        let sha512 = format!("sha512-{}?x", BASE64_STANDARD.encode([2; 64]));
        let both = Digest::of_integrity(&format!("{sha1} {sha512} md5-AAAA")).unwrap();
        assert_eq!(both.kind, Kind::Sha512);
        for wrong in ["", "md5-AAAA", "sha512-AAAA", "sha512", "sha256-%%%"] {
            assert_eq!(Digest::of_integrity(wrong), None, "{wrong}");
        }
        assert_eq!(Digest::sha256("abcd"), None);
    }
}
