//! Names that a new version of a template is given.

use std::fmt;
use std::str::FromStr;

use skep_types::{BuildId, TemplateReference};

use crate::{ForeignName, Team};

/// Tag of a version that was given none.
pub(crate) const USUAL_TAG: &str = "default";

/// Longest tag.
const MAX_LENGTH: usize = 128;

/// A tag of a template: characters of `[a-z0-9._-]`, and not the id of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag(String);

/// The text is no tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no tag; use a-z, 0-9, `-`, `_` and `.`, and not the id of a build")]
pub struct TagError(String);

impl Tag {
    /// The text of the tag.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true for the tag that is meant where none is named.
    pub fn is_usual(&self) -> bool {
        self.0 == USUAL_TAG
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for Tag {
    type Err = TagError;

    fn from_str(text: &str) -> Result<Self, TagError> {
        let tag = text.trim().to_lowercase();
        let letter =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        let is_word = (1..=MAX_LENGTH).contains(&tag.len()) && tag.bytes().all(letter);
        if is_word && tag.parse::<BuildId>().is_err() {
            Ok(Self(tag))
        } else {
            Err(TagError(text.chars().take(MAX_LENGTH).collect()))
        }
    }
}

/// Name and tags of a new version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionName {
    pub(crate) name: String,
    pub(crate) tags: Vec<Tag>,
}

/// Failure to name a new version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionNameError {
    /// Its namespace is another team's.
    #[error(transparent)]
    Foreign(#[from] ForeignName),
    /// The tag in the name is none.
    #[error(transparent)]
    Tag(#[from] TagError),
}

impl VersionName {
    /// The name that a reference of this team means, with the tag in it and more. The usual one is
    /// only given if there is no other.
    ///
    /// # Errors
    ///
    /// [`VersionNameError`].
    pub fn new(
        reference: TemplateReference,
        more: Vec<Tag>,
        team: &Team,
    ) -> Result<Self, VersionNameError> {
        if let Some(namespace) = reference.namespace
            && namespace != team.slug
        {
            return Err(ForeignName(namespace).into());
        }
        let embedded = reference.tag.map(|tag| tag.parse::<Tag>()).transpose()?;
        let mut tags: Vec<Tag> = Vec::new();
        for tag in embedded.into_iter().chain(more) {
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        if tags.is_empty() {
            tags.push(Tag(USUAL_TAG.to_owned()));
        }
        Ok(Self {
            name: reference.identifier,
            tags,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_trimmed_lowered_and_no_build() {
        assert_eq!(" V1.2 ".parse::<Tag>().unwrap().as_str(), "v1.2");
        for wrong in ["", ":x", "a b", "a/b", &BuildId::random().to_string()] {
            assert!(wrong.parse::<Tag>().is_err(), "{wrong}");
        }
    }
}
