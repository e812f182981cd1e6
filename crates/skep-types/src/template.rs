//! Names of templates, and a template that is ready to run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::{LayerKey, Resources, Sharing, TemplateId};

const MAX_LENGTH: usize = 128;

/// Least digits of a content id that mean one.
const LEAST_DIGITS: usize = 8;

/// `[namespace/]identifier[:tag]` or `[namespace/]identifier@content`, trimmed and lower-cased;
/// `:default` is the same as no tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TemplateReference {
    /// The team's slug, where the caller named one.
    pub namespace: Option<String>,
    /// A name or a template id.
    pub identifier: String,
    /// A tag, a build id, or `@` and the first digits of a content id; `None` is the default tag.
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
        let (path, tag) = match lower.find([':', '@']) {
            Some(place) => (&lower[..place], Some(&lower[place..])),
            None => (lower.as_str(), None),
        };
        // A tag goes without its colon, so the other sign tells what it is.
        let tag = tag.map(|tag| tag.strip_prefix(':').unwrap_or(tag));
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
            && tag.is_none_or(|tag| word(tag, b".") || is_content(tag));
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
        match &self.tag {
            Some(content) if content.starts_with('@') => formatter.write_str(content),
            Some(tag) => write!(formatter, ":{tag}"),
            None => Ok(()),
        }
    }
}

/// Returns true for `@` and enough digits of a content id.
fn is_content(text: &str) -> bool {
    let digits = text.strip_prefix('@').unwrap_or_default();
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (LEAST_DIGITS..=64).contains(&digits.len()) && digits.bytes().all(is_digit)
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

impl TemplateImage {
    /// Id of what is in it, in 64 hexadecimal digits: layers, variables, user, directory and
    /// commands. Builds that made the same have the same; its limits are not of it.
    pub fn content_id(&self) -> String {
        let mut hash = Sha256::new();
        // Each part has its length before it, so that none goes over into the next.
        let mut part = |bytes: &[u8]| {
            let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            hash.update(length.to_le_bytes());
            hash.update(bytes);
        };
        let mut list = |kind: &str, items: Vec<&str>| {
            part(kind.as_bytes());
            part(items.len().to_string().as_bytes());
            items.iter().for_each(|item| part(item.as_bytes()));
        };
        let layers: Vec<_> = self.layers.iter().map(ToString::to_string).collect();
        list("layers", layers.iter().map(String::as_str).collect());
        list("env", pairs(&self.env));
        list("user", vec![&self.user]);
        list("workdir", self.workdir.as_deref().into_iter().collect());
        if let Some(start) = self.start.as_deref() {
            list("command", start.command.as_deref().into_iter().collect());
            list("ready", start.ready.as_deref().into_iter().collect());
            list("start user", vec![&start.user]);
            list(
                "start workdir",
                start.workdir.as_deref().into_iter().collect(),
            );
            list("start env", pairs(&start.env));
        }
        hex::encode(hash.finalize())
    }
}

fn pairs(variables: &[(String, String)]) -> Vec<&str> {
    let both = variables
        .iter()
        .flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    both.collect()
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

impl TemplateStart {
    /// Time limit for a sandbox to become ready: the same at the end of a build as at every start,
    /// because what a build has accepted must be able to start.
    pub const READY_WITHIN: Duration = Duration::from_mins(10);
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
        assert_eq!(
            read("team/app@0123ABCDEF").as_deref(),
            Some("team/app@0123abcdef")
        );
    }

    #[test]
    fn the_content_id_is_of_what_is_in_it_and_not_of_its_name_or_limits() {
        let image = |env: &[(&str, &str)], name: &str| TemplateImage {
            id: TemplateId::random(),
            name: name.to_owned(),
            layers: vec![LayerKey::from([7; 32])],
            env: env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            user: "user".to_owned(),
            workdir: None,
            resources: Resources::default(),
            sharing: Sharing::default(),
            start: None,
        };
        let id = image(&[("A", "B")], "one").content_id();
        assert_eq!(id.len(), 64);
        assert_eq!(id, image(&[("A", "B")], "two").content_id());
        assert_ne!(id, image(&[("AB", "")], "one").content_id());
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
            "a@",
            "a@123",
            "a@xyzxyzxyz",
            "a:v1@01234567",
            &"x".repeat(129),
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
