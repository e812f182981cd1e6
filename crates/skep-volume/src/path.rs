//! Paths in a volume.

use std::fmt;
use std::str::FromStr;

/// A path in a volume: absolute, clean, and without a step upwards.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumePath(Vec<Box<str>>);

/// Reason for which a text is not a path in a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// There is none.
    #[error("path cannot be empty")]
    Empty,
    /// A path above the volume would be another's or nobody's.
    #[error("path must not contain '..'")]
    Upwards,
    /// No file has such a name.
    #[error("path is too long or has a zero byte")]
    Unusable,
}

impl VolumePath {
    const LONGEST: usize = 4000;
    const LONGEST_NAME: usize = 255;

    /// Returns true for the root of the volume.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The last name; `/` for the root.
    pub fn name(&self) -> &str {
        self.0.last().map_or("/", |name| name)
    }

    /// The directory above, and the name in it; `None` for the root.
    pub(crate) fn split(&self) -> Option<(Self, &str)> {
        let (name, above) = self.0.split_last()?;
        Some((Self(above.to_vec()), name))
    }

    /// The paths of the directories above, the highest first, without the root.
    pub(crate) fn above(&self) -> impl Iterator<Item = Self> {
        (1..self.0.len()).map(|length| Self(self.0[..length].to_vec()))
    }

    pub(crate) fn join(&self, name: &str) -> Self {
        let mut parts = self.0.clone();
        parts.push(name.into());
        Self(parts)
    }

    /// The path as the kernel wants it below the root's descriptor.
    pub(crate) fn relative(&self) -> String {
        if self.is_root() {
            ".".to_owned()
        } else {
            self.0.join("/")
        }
    }
}

impl fmt::Display for VolumePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "/{}", self.0.join("/"))
    }
}

impl FromStr for VolumePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if text.len() > Self::LONGEST || text.contains('\0') {
            return Err(PathError::Unusable);
        }
        let mut parts: Vec<Box<str>> = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => return Err(PathError::Upwards),
                name if name.len() > Self::LONGEST_NAME => return Err(PathError::Unusable),
                name => parts.push(name.into()),
            }
        }
        Ok(Self(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cleaned_and_never_leads_upwards() {
        for (text, shown, name) in [
            ("/", "/", "/"),
            ("a", "/a", "a"),
            ("//a//b/./c/", "/a/b/c", "c"),
            ("/a b/ü", "/a b/ü", "ü"),
            ("/...", "/...", "..."),
        ] {
            let path: VolumePath = text.parse().unwrap();
            assert_eq!((path.to_string().as_str(), path.name()), (shown, name));
        }
        let long = format!("/{}", "x".repeat(256));
        for (text, error) in [
            ("", PathError::Empty),
            ("..", PathError::Upwards),
            ("/a/../b", PathError::Upwards),
            ("a\0b", PathError::Unusable),
            (&long, PathError::Unusable),
        ] {
            assert_eq!(text.parse::<VolumePath>(), Err(error), "{text}");
        }
    }
}
