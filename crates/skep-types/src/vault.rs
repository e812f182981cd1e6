//! Names of secrets in a team's vault, and what stands beside them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::random_bytes;

/// Prefix of ids, which no name has.
const ID_PREFIX: &str = "sec_";
const ID_DIGITS: usize = 32;
const LONGEST_NAME: usize = 128;

/// Id of a secret, which never returns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretId(Box<str>);

impl SecretId {
    /// A new id.
    pub fn random() -> Self {
        let digits = hex::encode(random_bytes::<{ ID_DIGITS / 2 }>());
        Self(format!("{ID_PREFIX}{digits}").into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A text that names no secret, whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a name of a secret")]
pub struct SecretNameError;

impl FromStr for SecretId {
    type Err = SecretNameError;

    fn from_str(text: &str) -> Result<Self, SecretNameError> {
        let digits = text.strip_prefix(ID_PREFIX).ok_or(SecretNameError)?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() == ID_DIGITS && digits.bytes().all(is_digit) {
            Ok(Self(text.into()))
        } else {
            Err(SecretNameError)
        }
    }
}

/// Name of a secret, unique in its team and in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(Box<str>);

impl SecretName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for SecretName {
    type Err = SecretNameError;

    /// Reads a name, in whatever case.
    fn from_str(text: &str) -> Result<Self, SecretNameError> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let name = text.to_ascii_lowercase();
        let is_name = (1..=LONGEST_NAME).contains(&name.len())
            && name.bytes().all(is_letter)
            && !name.starts_with(ID_PREFIX);
        is_name.then(|| Self(name.into())).ok_or(SecretNameError)
    }
}

/// Reference to a secret: its id or its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSelector {
    /// Its id.
    Id(SecretId),
    /// Its name.
    Name(SecretName),
}

impl FromStr for SecretSelector {
    type Err = SecretNameError;

    /// Reads a selector. With the prefix of ids it is one, and never a name.
    fn from_str(text: &str) -> Result<Self, SecretNameError> {
        if text.to_ascii_lowercase().starts_with(ID_PREFIX) {
            text.parse().map(Self::Id)
        } else {
            text.parse().map(Self::Name)
        }
    }
}

/// Key-value pairs beside a secret, which are not secret themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretMetadata(BTreeMap<String, String>);

/// Pairs that are more than a secret can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more metadata than a secret can have")]
pub struct SecretMetadataError;

impl SecretMetadata {
    /// Takes the pairs if they are few and short.
    ///
    /// # Errors
    ///
    /// [`SecretMetadataError`]
    pub fn new(pairs: BTreeMap<String, String>) -> Result<Self, SecretMetadataError> {
        let is_short = |(key, value): (&String, &String)| key.len() <= 128 && value.len() <= 1024;
        let sum: usize = pairs
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        if pairs.len() <= 32 && sum <= 8192 && pairs.iter().all(is_short) {
            Ok(Self(pairs))
        } else {
            Err(SecretMetadataError)
        }
    }

    /// Pairs that were checked when they were kept.
    pub fn from_record(pairs: BTreeMap<String, String>) -> Self {
        Self(pairs)
    }

    /// The pairs.
    pub fn pairs(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_plain_and_no_id() {
        let name: SecretName = "My-Key_1".parse().unwrap();
        assert_eq!(name.as_str(), "my-key_1");
        let long = "a".repeat(129);
        for text in [
            "",
            "a b",
            "a/b",
            "é",
            "sec_x",
            "SEC_x",
            "a.b",
            long.as_str(),
        ] {
            assert_eq!(text.parse::<SecretName>(), Err(SecretNameError), "{text}");
        }
    }

    #[test]
    fn the_prefix_of_ids_makes_an_id() {
        let id = SecretId::random();
        assert_eq!(id.as_str().parse(), Ok(SecretSelector::Id(id.clone())));
        for text in [
            "sec_",
            "sec_name",
            "SEC_0",
            &id.as_str()[1..].to_uppercase(),
        ] {
            let parsed = text.parse::<SecretSelector>();
            assert!(!matches!(parsed, Ok(SecretSelector::Id(_))), "{text}");
        }
        assert!(matches!("name".parse(), Ok(SecretSelector::Name(_))));
    }

    #[test]
    fn metadata_has_an_end() {
        let pairs = |count: usize, key: usize, value: usize| {
            let pairs = (0..count).map(|n| (format!("{n:0key$}"), "v".repeat(value)));
            SecretMetadata::new(pairs.collect())
        };
        pairs(32, 2, 2).unwrap();
        pairs(1, 128, 1024).unwrap();
        for (count, key, value) in [(33, 2, 2), (1, 129, 1), (1, 1, 1025), (32, 8, 255)] {
            assert_eq!(pairs(count, key, value), Err(SecretMetadataError));
        }
    }
}
