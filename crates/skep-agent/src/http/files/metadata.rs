//! Metadata that clients attach to a file, kept in its extended attributes.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use http::HeaderMap;
use rustix::fs::{XattrFlags, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;

use crate::filesystem::entry::{METADATA_PREFIX, attribute_names};

const HEADER_PREFIX: &str = "x-metadata-";
const MAX_KEY: usize = 246;
const MAX_TOTAL: usize = 4096;

/// Reasons to refuse metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum MetadataError {
    #[error("invalid metadata: key '{0}' is empty or longer than {MAX_KEY} bytes")]
    Key(String),
    #[error("invalid metadata: value of '{0}' is not printable ASCII")]
    Value(String),
    #[error("invalid metadata: more than {MAX_TOTAL} bytes in total")]
    Total,
}

/// Reads `X-Metadata-<key>: value` headers.
pub(super) fn from_headers(headers: &HeaderMap) -> Result<BTreeMap<String, String>, MetadataError> {
    let mut metadata = BTreeMap::new();
    let mut total = 0;
    for (name, value) in headers {
        // Header names arrive in lower case.
        let Some(key) = name.as_str().strip_prefix(HEADER_PREFIX) else {
            continue;
        };
        if key.is_empty() || key.len() > MAX_KEY {
            return Err(MetadataError::Key(key.to_owned()));
        }
        let printable = value
            .as_bytes()
            .iter()
            .all(|byte| (b' '..=b'~').contains(byte));
        let Some(value) = value.to_str().ok().filter(|_| printable) else {
            return Err(MetadataError::Value(key.to_owned()));
        };
        total += METADATA_PREFIX.len() + key.len() + value.len();
        metadata.insert(key.to_owned(), value.to_owned());
    }
    if total > MAX_TOTAL {
        Err(MetadataError::Total)
    } else {
        Ok(metadata)
    }
}

/// Makes `metadata` the whole metadata of a file.
///
/// A file that has none and gets none is not touched: watchers would see a change. A filesystem
/// without attributes keeps none.
pub(super) fn replace(file: impl AsFd, metadata: &BTreeMap<String, String>) -> io::Result<()> {
    let attributes = attribute_names(|buffer| flistxattr(&file, buffer));
    for name in attributes {
        if name
            .strip_prefix(METADATA_PREFIX)
            .is_some_and(|key| !metadata.contains_key(key))
        {
            supported(fremovexattr(&file, name.as_str()))?;
        }
    }
    for (key, value) in metadata {
        let name = format!("{METADATA_PREFIX}{key}");
        supported(fsetxattr(
            &file,
            name.as_str(),
            value.as_bytes(),
            XattrFlags::empty(),
        ))?;
    }
    Ok(())
}

fn supported(answer: Result<(), Errno>) -> io::Result<()> {
    match answer {
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn read(headers: &[(&str, &[u8])]) -> Result<BTreeMap<String, String>, MetadataError> {
        let headers = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_bytes(value).unwrap())
        });
        from_headers(&headers.collect())
    }

    #[test]
    fn keys_are_what_follows_the_prefix() {
        let metadata = read(&[("X-Metadata-Author", b"mish"), ("X-Other", b"x")]).unwrap();
        assert_eq!(
            metadata,
            BTreeMap::from([("author".to_owned(), "mish".to_owned())])
        );
    }

    #[test]
    fn what_an_attribute_cannot_hold_is_refused() {
        assert_eq!(
            read(&[("x-metadata-a", "ü".as_bytes())]),
            Err(MetadataError::Value("a".to_owned()))
        );
        assert_eq!(
            read(&[("x-metadata-", b"x")]),
            Err(MetadataError::Key(String::new()))
        );
        let long = format!("x-metadata-{}", "k".repeat(247));
        assert!(matches!(read(&[(&long, b"x")]), Err(MetadataError::Key(_))));
        assert_eq!(
            read(&[("x-metadata-a", &[b'v'; 4096])]),
            Err(MetadataError::Total)
        );
    }
}
