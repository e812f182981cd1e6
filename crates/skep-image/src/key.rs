//! Content keys: what a layer is made of, as a number.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use skep_types::{LayerKey, TemplateId};

/// Names a layer, or a whole template, by everything that went into it.
///
/// Two builds with the same key would do the same work, so the second one takes the result of
/// the first. What is *not* in a key: the mirror, the proxy and the certificates of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentKey([u8; 32]);

impl ContentKey {
    /// The key of something of this kind that is made of these parts. Each part carries its length.
    pub fn of<'a>(kind: &str, parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut writer = KeyWriter::new(kind);
        for part in parts {
            writer.part(part);
        }
        writer.finish()
    }

    /// The key as bytes, to be a part of another.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first characters, enough for a person to tell keys apart.
    pub fn short(&self) -> String {
        hex::encode(&self.0[..6])
    }

    /// The key, as everybody outside of this crate knows a layer.
    pub fn layer(&self) -> LayerKey {
        self.0.into()
    }

    /// The key of a layer of an image of a registry.
    ///
    /// Beside the content (`diff_id`) there is in it who is to be asked whether a caller may have it:
    /// the registry, and the blob that it would give out. Otherwise a team could name the content of
    /// another's private layer in an image of a registry of its own. The key shows no right: whoever
    /// takes a layer by it asks that registry first. What is below is in it because directories that
    /// an archive leaves out are as they are there.
    pub fn of_image_layer(
        registry: &str,
        blob: &str,
        diff_id: &str,
        below: Option<&ContentKey>,
    ) -> Self {
        let mut writer = KeyWriter::new("image-layer-1");
        writer.text(registry).text(blob).text(diff_id);
        if let Some(below) = below {
            writer.key(below);
        }
        writer.finish()
    }

    /// The id of a template with this key: the same recipe has the same id on every host.
    pub fn template_id(&self) -> TemplateId {
        const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let text: String = self.0[..20]
            .iter()
            .map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]))
            .collect();
        text.parse()
            .expect("twenty characters of the id's alphabet")
    }
}

impl fmt::Display for ContentKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

impl FromStr for ContentKey {
    type Err = hex::FromHexError;

    fn from_str(text: &str) -> Result<Self, hex::FromHexError> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes)?;
        Ok(Self(bytes))
    }
}

/// Puts a key together from parts. Each part carries its length, so that moving a character
/// from one part to the next gives another key.
#[derive(Debug)]
pub(crate) struct KeyWriter(Sha256);

impl KeyWriter {
    /// Starts a key of the given kind.
    pub(crate) fn new(kind: &str) -> Self {
        let mut writer = Self(Sha256::new());
        writer.part(kind.as_bytes());
        writer
    }

    /// Adds one part.
    pub(crate) fn part(&mut self, bytes: &[u8]) -> &mut Self {
        let length = u64::try_from(bytes.len()).expect("a length fits 64 bits");
        self.0.update(length.to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.part(text.as_bytes())
    }

    /// Adds a list, so that its end is part of the key.
    pub(crate) fn list<'a>(&mut self, items: impl ExactSizeIterator<Item = &'a str>) -> &mut Self {
        let length = u64::try_from(items.len()).expect("a length fits 64 bits");
        self.part(&length.to_le_bytes());
        for item in items {
            self.text(item);
        }
        self
    }

    /// Adds another key.
    pub(crate) fn key(&mut self, key: &ContentKey) -> &mut Self {
        self.part(&key.0)
    }

    /// The finished key.
    pub(crate) fn finish(self) -> ContentKey {
        ContentKey(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(parts: &[&str]) -> ContentKey {
        let mut writer = KeyWriter::new("test");
        for part in parts {
            writer.text(part);
        }
        writer.finish()
    }

    #[test]
    fn a_key_depends_on_where_one_part_ends() {
        assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_ne!(key(&["abc"]), key(&["abc", ""]));
        let list = |items: &[&str]| {
            let mut writer = KeyWriter::new("test");
            writer.list(items.iter().copied()).text("x");
            writer.finish()
        };
        assert_ne!(list(&["a", "x"]), list(&["a"]));
    }

    #[test]
    fn a_key_reads_back_and_gives_the_same_template_id_every_time() {
        let key = key(&["a"]);
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(key.template_id(), key.template_id());
        assert_eq!(key.template_id().as_str().len(), 20);
        assert_eq!("../../etc".parse::<ContentKey>().ok(), None);
    }
}
