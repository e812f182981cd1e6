//! References of images: `[registry/]repository[:tag][@digest]`.

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;

/// Registry of references that name none.
pub(crate) const DEFAULT_REGISTRY: &str = "docker.io";
/// Tag of references that have neither a tag nor a digest.
const DEFAULT_TAG: &str = "latest";
const LONGEST_REPOSITORY: usize = 255;
const LONGEST_TAG: usize = 128;

/// A reference of an image, with everything that its text leaves out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    /// Host of the registry, with its port if it has one.
    pub registry: String,
    /// Path of the image there.
    pub repository: String,
    /// Name of a version.
    pub tag: Option<String>,
    /// The version itself; a tag beside it means nothing.
    pub digest: Option<Digest>,
}

/// Reason for which a text is no reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// A variable is left in it.
    #[error("nothing has expanded the variable `{0}`")]
    Variable(String),
    /// A part of it is missing or has characters that it must not have.
    #[error("its {0} is not valid")]
    Part(&'static str),
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if let Some(start) = text.find('$') {
            let rest = &text[start..];
            let end = rest.find('}').map_or(rest.len(), |end| end + 1);
            return Err(ReferenceError::Variable(rest[..end].to_owned()));
        }
        let (text, digest) = match text.split_once('@') {
            None => (text, None),
            Some((text, digest)) => {
                let digest = digest.parse().map_err(|_| ReferenceError::Part("digest"))?;
                (text, Some(digest))
            }
        };
        let (registry, rest) = split_registry(text);
        // A colon after the last slash begins a tag; one before it was a port.
        let (path, tag) = match rest.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (rest, None),
        };
        if !is_registry(registry) {
            return Err(ReferenceError::Part("registry"));
        }
        let repository = if registry == DEFAULT_REGISTRY && !path.contains('/') {
            format!("library/{path}")
        } else {
            path.to_owned()
        };
        if !is_repository(path) {
            return Err(ReferenceError::Part("repository"));
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Part("tag"));
        }
        let tag = match (tag, &digest) {
            (None, None) => Some(DEFAULT_TAG),
            (tag, _) => tag,
        };
        Ok(Self {
            registry: registry.to_owned(),
            repository,
            tag: tag.map(str::to_owned),
            digest,
        })
    }
}

impl Reference {
    /// Name of the version in requests: the digest if there is one.
    pub(crate) fn version(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => DEFAULT_TAG.to_owned(),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(formatter, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(formatter, "@{digest}")?;
        }
        Ok(())
    }
}

/// The host of a registry and the rest. What comes before the first slash is a host if it cannot be
/// the first part of a path.
fn split_registry(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':', '[']) || first == "localhost" => {
            match first {
                "index.docker.io" | "registry-1.docker.io" => (DEFAULT_REGISTRY, rest),
                host => (host, rest),
            }
        }
        _ => (DEFAULT_REGISTRY, text),
    }
}

/// Returns true for a host name, an address or a bracketed address, with or without a port.
pub(crate) fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_port = port.is_none_or(|port| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
    });
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_host = match inner {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let is_label = |label: &str| {
                let bytes = label.as_bytes();
                !label.is_empty()
                    && label.len() <= 63
                    && bytes
                        .iter()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
                    && bytes[0] != b'-'
            };
            host.len() <= 253 && host.split('.').all(is_label)
        }
    };
    is_host && is_port
}

fn is_repository(path: &str) -> bool {
    // The parts are of lower-case letters and digits, with separators between them and never two
    // points, so that no path leads upwards.
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let is_inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        bytes.first().is_some_and(is_inner)
            && bytes.last().is_some_and(is_inner)
            && bytes
                .iter()
                .all(|byte| is_inner(byte) || b"._-".contains(byte))
            && !part.contains("..")
    };
    path.len() <= LONGEST_REPOSITORY && path.split('/').all(is_part)
}

fn is_tag(tag: &str) -> bool {
    let bytes = tag.as_bytes();
    tag.len() <= LONGEST_TAG
        && bytes
            .first()
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = text.parse::<Reference>();
        let found = match found {
            Ok(reference) => reference.to_string(),
            Err(error) => format!("{error}"),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn what_a_reference_leaves_out_is_what_docker_means() {
        check("debian", "docker.io/library/debian:latest");
        check("python:3.13-slim", "docker.io/library/python:3.13-slim");
        check("oven/bun", "docker.io/oven/bun:latest");
        check("docker.io/debian", "docker.io/library/debian:latest");
        check("index.docker.io/oven/bun:1", "docker.io/oven/bun:1");
        check("localhost/a", "localhost/a:latest");
        check("localhost:5000/a:b", "localhost:5000/a:b");
        check("[::1]:5000/a", "[::1]:5000/a:latest");
        check("ghcr.io/a/b/c:v1", "ghcr.io/a/b/c:v1");
        let digest = format!("sha256:{}", "a".repeat(64));
        check(
            &format!("a@{digest}"),
            &format!("docker.io/library/a@{digest}"),
        );
        check(
            &format!("r.test/a:t@{digest}"),
            &format!("r.test/a:t@{digest}"),
        );
    }

    #[test]
    fn what_is_no_reference_says_which_part() {
        check("python:${V}", "nothing has expanded the variable `${V}`");
        check("$IMAGE", "nothing has expanded the variable `$IMAGE`");
        check("", "its repository is not valid");
        check("Debian", "its repository is not valid");
        check("a/../b", "its repository is not valid");
        check("r.test/../../x", "its repository is not valid");
        check("r.test/a?b", "its repository is not valid");
        check("r.test/a b", "its repository is not valid");
        check("a:", "its tag is not valid");
        check("a:b:c", "its repository is not valid");
        check("a:-b", "its tag is not valid");
        check("r.test:99999/a", "its registry is not valid");
        check("user@r.test/a", "its digest is not valid");
        check("a@sha256:abc", "its digest is not valid");
    }
}
