//! Names of templates, and a template that is ready to run.

use std::fmt;
use std::str::FromStr;

use crate::{LayerKey, Resources, Sharing, TemplateId};

const MAX_LENGTH: usize = 128;

/// `[namespace/]identifier[:tag]`, trimmed and lower-cased; `:default` is the same as no tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TemplateReference {
    /// The team's slug, where the caller named one.
    pub namespace: Option<String>,
    /// A name or a template id.
    pub identifier: String,
    /// A tag or a build id; `None` is the default tag.
    pub tag: Option<String>,
}

/// A text that does not name a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a template name; use [namespace/]name[:tag] of a-z, 0-9, `-` and `_`")]
pub struct ReferenceError(String);

impl FromStr for TemplateReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let error = || ReferenceError(text.chars().take(MAX_LENGTH).collect());
        let lower = text.trim().to_lowercase();
        if lower.len() > MAX_LENGTH {
            return Err(error());
        }
        let (path, tag) = match lower.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (lower.as_str(), None),
        };
        let (namespace, identifier) = match path.split_once('/') {
            Some((namespace, identifier)) => (Some(namespace), identifier),
            None => (None, path),
        };
        let word = |text: &str, extra: &[u8]| {
            !text.is_empty()
                && text.bytes().all(|byte| {
                    byte.is_ascii_lowercase()
                        || byte.is_ascii_digit()
                        || b"-_".contains(&byte)
                        || extra.contains(&byte)
                })
        };
        let valid = word(identifier, b"")
            && namespace.is_none_or(|namespace| word(namespace, b""))
            && tag.is_none_or(|tag| word(tag, b"."));
        if !valid {
            return Err(error());
        }
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            identifier: identifier.to_owned(),
            tag: tag.filter(|tag| *tag != "default").map(str::to_owned),
        })
    }
}

impl fmt::Display for TemplateReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(formatter, "{namespace}/")?;
        }
        formatter.write_str(&self.identifier)?;
        self.tag
            .iter()
            .try_for_each(|tag| write!(formatter, ":{tag}"))
    }
}

/// A template that is built and can be started: what the recipe said, and the layers that have its
/// files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateImage {
    /// Unique id of the template.
    pub id: TemplateId,
    /// Its first name, such as `base`.
    pub name: String,
    /// Read-only layers, the lowest first.
    pub layers: Vec<LayerKey>,
    /// Environment of every process of the sandbox, before the caller's own.
    pub env: Vec<(String, String)>,
    /// User of a command when the caller names none.
    pub user: String,
    /// Working directory of a command when the caller names none; `None` is the user's home.
    pub workdir: Option<String>,
    /// The limits of its sandboxes.
    pub resources: Resources,
    /// Rule about who may share what is warmed of it.
    pub sharing: Sharing,
    /// Commands that a sandbox runs before anybody gets it, if there are any.
    pub start: Option<Box<TemplateStart>>,
}

/// Commands that run in every sandbox of a template before anybody gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateStart {
    /// Command that is started and goes on; `None` if there is only one to wait for.
    pub command: Option<String>,
    /// Command that is run until it succeeds.
    pub ready: Option<String>,
    /// User of both.
    pub user: String,
    /// Directory of both; the user's home if there is none.
    pub workdir: Option<String>,
    /// Variables of both, below those of the sandbox's owner.
    pub env: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        text.parse::<TemplateReference>()
            .ok()
            .map(|reference| reference.to_string())
    }

    #[test]
    fn references_are_trimmed_lowered_and_lose_the_default_tag() {
        assert_eq!(read(" Base ").as_deref(), Some("base"));
        assert_eq!(
            read("team/My-App:v1.2").as_deref(),
            Some("team/my-app:v1.2")
        );
        assert_eq!(read("base:default").as_deref(), Some("base"));
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        for text in [
            "",
            ":",
            "a:",
            "/a",
            "a/b/c",
            "../etc",
            "a b",
            "naïve",
            &"x".repeat(129),
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
