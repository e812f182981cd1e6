//! Names of things, as they appear in URLs, on disk and in the database.

use std::fmt;
use std::str::FromStr;

use crate::random_bytes;

const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const RANDOM_LENGTH: usize = 20;

/// A sandbox, for as long as anybody remembers it. Never reused.
///
/// `i` and twenty characters of `[a-z0-9]`, so it can stand in a host name, a path, a cgroup
/// and a file name without escaping.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SandboxId(Box<str>);

/// A template: twenty characters of `[a-z0-9]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TemplateId(Box<str>);

/// A team, the owner of keys, sandboxes and templates: twenty characters of `[a-z0-9]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TeamId(Box<str>);

/// A checkpoint that is kept under a name of its own: twenty characters of `[a-z0-9]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CheckpointId(Box<str>);

/// A host that runs sandboxes, as the database names it: 1 to 64 characters of `[a-z0-9-]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(Box<str>);

impl NodeId {
    /// The only node of a server that runs alone.
    pub fn local() -> Self {
        Self("local".into())
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for NodeId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=64).contains(&text.len()) && text.bytes().all(word) {
            Ok(Self(text.into()))
        } else {
            Err(IdError::new("node", text))
        }
    }
}

/// One run of a sandbox, from start or resume to pause or end.
///
/// A sandbox keeps its id when it is resumed, so whatever is decided now and done later carries
/// the execution it was decided for and does nothing to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExecutionId(pub u64);

/// A text that is not an id of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind} id")]
pub struct IdError {
    kind: &'static str,
    text: String,
}

impl IdError {
    pub(crate) fn new(kind: &'static str, text: &str) -> Self {
        Self {
            kind,
            text: text.chars().take(64).collect(),
        }
    }
}

macro_rules! id {
    ($name:ident, $kind:literal, $prefix:literal) => {
        impl $name {
            /// A new id that nobody can guess.
            pub fn random() -> Self {
                Self(random_text($prefix).into())
            }

            /// The text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let random = text.strip_prefix($prefix).filter(|random| {
                    random.len() == RANDOM_LENGTH
                        && random.bytes().all(|byte| ALPHABET.contains(&byte))
                });
                match random {
                    Some(_) => Ok(Self(text.into())),
                    None => Err(IdError::new($kind, text)),
                }
            }
        }
    };
}

id!(SandboxId, "sandbox", "i");
id!(TemplateId, "template", "");
id!(TeamId, "team", "");
id!(CheckpointId, "checkpoint", "");

impl ExecutionId {
    /// A new execution.
    pub fn random() -> Self {
        Self(u64::from_ne_bytes(random_bytes()))
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl FromStr for ExecutionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        u64::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| IdError::new("execution", text))
    }
}

fn random_text(prefix: &str) -> String {
    let mut text = String::with_capacity(prefix.len() + RANDOM_LENGTH);
    text.push_str(prefix);
    // Bytes of 252 and above would make the first letters of the alphabet likelier.
    let limit = u8::try_from(256 - 256 % ALPHABET.len()).expect("below 256");
    let wanted = prefix.len() + RANDOM_LENGTH;
    while text.len() < wanted {
        let bytes: [u8; 2 * RANDOM_LENGTH] = random_bytes();
        for byte in bytes.into_iter().filter(|byte| *byte < limit) {
            if text.len() < wanted {
                text.push(char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_id_reads_back_and_differs_from_the_next() {
        let id = SandboxId::random();
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        assert_ne!(id, SandboxId::random());
        let template = TemplateId::random();
        assert_eq!(template.as_str().parse(), Ok(template));
    }

    #[test]
    fn what_could_leave_a_path_or_host_name_is_no_id() {
        for text in [
            "",
            "i",
            "iabc",
            "../../../etc/passwd00",
            "I01234567890123456789",
            "i0123456789012345678é",
        ] {
            assert!(text.parse::<SandboxId>().is_err(), "{text}");
        }
    }
}
