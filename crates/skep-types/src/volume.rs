//! Volumes: files that outlive sandboxes and are shared by them.

use std::fmt;
use std::str::FromStr;

use crate::uuid::Uuid;

/// A volume. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeId(Uuid);

/// The text is not the id of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the id of a volume is a UUID")]
pub struct VolumeIdError;

impl VolumeId {
    /// A new id that nobody can guess.
    pub fn random() -> Self {
        Self(Uuid::random())
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for VolumeId {
    type Err = VolumeIdError;

    fn from_str(text: &str) -> Result<Self, VolumeIdError> {
        Uuid::parse(text).map(Self).ok_or(VolumeIdError)
    }
}

/// Name of a volume among those of its team: 1 to 128 characters of `[a-zA-Z0-9_-]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeName(Box<str>);

/// The text is not the name of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of a volume is 1 to 128 characters of a-z, A-Z, 0-9, _ and -")]
pub struct VolumeNameError;

impl VolumeName {
    const LONGEST: usize = 128;

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for VolumeName {
    type Err = VolumeNameError;

    fn from_str(text: &str) -> Result<Self, VolumeNameError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if (1..=Self::LONGEST).contains(&text.len()) && text.bytes().all(is_allowed) {
            Ok(Self(text.into()))
        } else {
            Err(VolumeNameError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_have_one_spelling() {
        let id = VolumeId::random();
        assert_eq!(id.to_string().parse(), Ok(id));
        for text in [
            "",
            "x",
            &id.to_string().to_uppercase(),
            &id.to_string()[1..],
        ] {
            assert_eq!(text.parse::<VolumeId>(), Err(VolumeIdError), "{text}");
        }
        for text in ["a", "My_vol-1", &"x".repeat(128)] {
            assert_eq!(text.parse::<VolumeName>().unwrap().as_str(), text);
        }
        for text in ["", "a b", "a/b", "..", "ü", "a:ro", &"x".repeat(129)] {
            assert_eq!(text.parse::<VolumeName>(), Err(VolumeNameError), "{text}");
        }
    }
}
