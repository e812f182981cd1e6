//! API keys: their text, their hash, and what may be shown.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest as _, Sha256};
use skep_types::{Redacted, random_bytes};

/// `e2b_` and hexadecimal digits; forty of them in the keys we make. The official clients of
/// one generation refuse anything else before they even call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey(Redacted<Box<str>>);

/// A text that cannot be a key. The text itself is not kept: it may be somebody's secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an API key; a key is `e2b_` and hexadecimal digits")]
pub struct MalformedKey;

impl ApiKey {
    /// Prefix of every key.
    pub const PREFIX: &'static str = "e2b_";

    /// A new key that nobody can guess.
    pub fn random() -> Self {
        let bytes: [u8; 20] = random_bytes();
        Self(Redacted::new(
            format!("{}{}", Self::PREFIX, hex::encode(bytes)).into(),
        ))
    }

    /// The key in full, for the one moment when its owner is told.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }

    /// Digest by which the database knows the key. Says nothing about the key: it has 160 random
    /// bits.
    pub(crate) fn hash(&self) -> String {
        let bytes = hex::decode(self.value()).expect("a key is checked when it is read");
        format!("$sha256${}", STANDARD_NO_PAD.encode(Sha256::digest(bytes)))
    }

    /// The hexadecimal digits after the prefix.
    pub(crate) fn value(&self) -> &str {
        &self.reveal()[Self::PREFIX.len()..]
    }
}

impl FromStr for ApiKey {
    type Err = MalformedKey;

    fn from_str(text: &str) -> Result<Self, MalformedKey> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let value = text.strip_prefix(Self::PREFIX).ok_or(MalformedKey)?;
        // Shorter ones could be guessed; longer ones are nobody's.
        let sized = (32..=256).contains(&value.len()) && value.len().is_multiple_of(2);
        if sized && value.bytes().all(digit) {
            Ok(Self(Redacted::new(text.into())))
        } else {
            Err(MalformedKey)
        }
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value();
        write!(formatter, "{}{}…", Self::PREFIX, &value[..2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_reads_back_hashes_alike_and_never_prints() {
        let key = ApiKey::random();
        assert_eq!(key.reveal().len(), 44);
        let again: ApiKey = key.reveal().parse().unwrap();
        assert_eq!(again.hash(), key.hash());
        assert_ne!(ApiKey::random().hash(), key.hash());
        assert!(!format!("{key:?} {key}").contains(&key.value()[2..]));
    }

    #[test]
    fn the_hash_is_of_the_decoded_digits_in_the_documented_form() {
        let key: ApiKey = format!("e2b_{}", "00".repeat(20)).parse().unwrap();
        // `head -c 20 /dev/zero | sha256sum`, in base64 without its padding.
        assert_eq!(
            key.hash(),
            "$sha256$3kfJsn640wDbtfLDU+Yyw5MmLPBjQMT6fxtAxMvTb5A"
        );
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let digits = "0123456789abcdef0123456789abcdef01234567";
        for text in [
            "",
            "invalid-api-key",
            "e2b_",
            "e2b_00",
            digits,
            &format!("e2b_{}", digits.to_uppercase()),
            &format!("e2b_{digits}\n"),
            &format!("e2b_{digits}0"),
            &format!("sk_e2b_{digits}"),
        ] {
            assert_eq!(text.parse::<ApiKey>(), Err(MalformedKey), "{text:?}");
        }
    }
}
