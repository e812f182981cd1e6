//! The registry of npm: documents of packages, and their archives.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use reqwest::Url;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::Access;
use crate::digest::Digest;
use crate::error::FetchError;
use crate::fetch::{Fetcher, FileOrder, Found, IndexOrder, Malformed};
use crate::names::{FileName, PackageName};
use crate::store::Stored;
use crate::upstream::Upstream;

/// Content type of a document that has only what an installation needs.
pub(crate) const ABBREVIATED: &str = "application/vnd.npm.install-v1+json";
const FULL: &str = "application/json";

/// Part of a document that a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The part that an installation needs.
    Abbreviated,
    /// All of it.
    Full,
}

impl Extent {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Abbreviated => ABBREVIATED,
            Self::Full => FULL,
        }
    }
}

/// A document, member by member: most of it is passed on as it is.
type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

#[derive(Deserialize)]
struct Archives<'a> {
    /// Each is read alone, so that one with something new in it does not hide the others.
    #[serde(borrow, default)]
    versions: Members<'a>,
}

#[derive(Deserialize)]
struct Version<'a> {
    #[serde(borrow, default)]
    dist: Option<Archive<'a>>,
}

/// An archive of a package.
#[derive(Deserialize)]
struct Archive<'a> {
    #[serde(borrow)]
    tarball: Cow<'a, str>,
    #[serde(borrow, default)]
    integrity: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    shasum: Option<Cow<'a, str>>,
}

impl Archive<'_> {
    /// Name of its file, if it has one that a sandbox can ask for.
    fn file_name(&self) -> Option<FileName> {
        let path = self.tarball.split(['?', '#']).next()?;
        FileName::parse(path.rsplit('/').next()?)
    }

    fn digest(&self) -> Option<Digest> {
        let strong = self.integrity.as_deref().and_then(Digest::of_integrity);
        strong.or_else(|| Digest::sha1(self.shasum.as_deref()?))
    }
}

/// The document of a package, in which archives lead to `mirror`, the URL of this part of it.
pub(crate) async fn document(
    fetcher: &Arc<Fetcher>,
    upstream: &Arc<Upstream>,
    (package, extent): (&PackageName, Extent),
    mirror: String,
    access: Access,
) -> Result<Vec<u8>, FetchError> {
    let stored = index(fetcher, upstream, (package, extent), access).await?;
    let package = package.as_str().to_owned();
    let writing = tokio::task::spawn_blocking(move || {
        let content = stored.read_all()?;
        let place = format!("{mirror}/{package}/-/");
        led_to(&place, &content).map_err(|Malformed| FetchError::Malformed)
    });
    writing.await.map_err(|_| FetchError::Stopping)?
}

/// An archive of a package.
pub(crate) async fn archive(
    fetcher: &Arc<Fetcher>,
    upstream: &Arc<Upstream>,
    (package, name): (&PackageName, &FileName),
    access: Access,
) -> Result<Found, FetchError> {
    let stored = index(fetcher, upstream, (package, Extent::Abbreviated), access).await?;
    let name = name.clone();
    let looking = tokio::task::spawn_blocking(move || find(&stored.read_all()?, &name));
    let (url, digest) = looking.await.map_err(|_| FetchError::Stopping)??;
    let order = FileOrder {
        upstream: Arc::clone(upstream),
        url,
        digest: Some(digest),
        anew: false,
    };
    fetcher.file(order, access).await
}

async fn index(
    fetcher: &Arc<Fetcher>,
    upstream: &Arc<Upstream>,
    (package, extent): (&PackageName, Extent),
    access: Access,
) -> Result<Stored, FetchError> {
    let order = IndexOrder {
        upstream: Arc::clone(upstream),
        // The separator of a scope is a part of the name.
        url: upstream.at([package.as_str()]),
        accept: Some(extent.content_type()),
        read: |_, _, content| {
            // Only what can be read later is kept.
            led_to("", content).map(|_| None)
        },
    };
    fetcher.index(order, access).await
}

/// The archive of this name, and its digest. One without a digest cannot be had.
fn find(content: &[u8], name: &FileName) -> Result<(Url, Digest), FetchError> {
    let document: Archives<'_> =
        serde_json::from_slice(content).map_err(|_| FetchError::Malformed)?;
    let mut archives = document.versions.values().filter_map(|version| {
        let version: Version<'_> = serde_json::from_str(version.get()).ok()?;
        version.dist
    });
    let archive = archives
        .find(|archive| archive.file_name().as_ref() == Some(name))
        .ok_or(FetchError::Unknown)?;
    let url = Url::parse(&archive.tarball).map_err(|_| FetchError::Malformed)?;
    Ok((url, archive.digest().ok_or(FetchError::Malformed)?))
}

/// The document with archives below `place`. Versions whose archives cannot be had are left out.
fn led_to(place: &str, content: &[u8]) -> Result<Vec<u8>, Malformed> {
    let malformed = |_| Malformed;
    let mut document: Members<'_> = serde_json::from_slice(content).map_err(malformed)?;
    let versions = document.get("versions").ok_or(Malformed)?;
    let versions: Members<'_> = serde_json::from_str(versions.get()).map_err(malformed)?;
    let mut led = BTreeMap::new();
    for (number, version) in versions {
        if let Some(version) = version_led_to(place, version) {
            led.insert(number, version);
        }
    }
    let led = to_raw_value(&led).map_err(malformed)?;
    document.insert("versions".into(), &led);
    serde_json::to_vec(&document).map_err(malformed)
}

fn version_led_to(place: &str, version: &RawValue) -> Option<Box<RawValue>> {
    let mut members: Members<'_> = serde_json::from_str(version.get()).ok()?;
    let dist = members.get("dist")?;
    let archive: Archive<'_> = serde_json::from_str(dist.get()).ok()?;
    let name = archive.file_name()?;
    archive.digest()?;
    let mut dist: Members<'_> = serde_json::from_str(dist.get()).ok()?;
    let url = to_raw_value(&format!("{place}{}", name.as_str())).ok()?;
    dist.insert("tarball".into(), &url);
    let dist = to_raw_value(&dist).ok()?;
    members.insert("dist".into(), &dist);
    to_raw_value(&members).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn document() -> Value {
        let sha1 = "0a".repeat(20);
        json!({
            "name": "@a/b", "dist-tags": {"latest": "1.0.0"}, "extra": [1, {"x": null}],
            "versions": {
                "1.0.0": {"name": "@a/b", "dist": {"tarball": "https://r.test/@a/b/-/b-1.0.0.tgz?x=y", "shasum": sha1}},
                "2.0.0": {"name": "@a/b", "dist": {"tarball": "https://r.test/@a/b/-/b-2.0.0.tgz"}},
                "3.0.0": {"name": "@a/b", "dist": {"tarball": "https://r.test/..", "shasum": sha1}},
                "4.0.0": {"name": "@a/b"},
                "5.0.0": 7,
            },
        })
    }

    #[test]
    fn archives_lead_to_the_mirror_and_the_rest_of_a_document_stays() {
        let content = document().to_string();
        let led = led_to("http://mirror.test/npm/@a/b/-/", content.as_bytes()).unwrap();
        let led: Value = serde_json::from_slice(&led).unwrap();
        let versions = led["versions"].as_object().unwrap();
        assert_eq!(versions.keys().collect::<Vec<_>>(), ["1.0.0"]);
        assert_eq!(
            versions["1.0.0"]["dist"]["tarball"],
            "http://mirror.test/npm/@a/b/-/b-1.0.0.tgz"
        );
        assert_eq!(led["extra"], document()["extra"]);
        let find = |name: &str| find(content.as_bytes(), &FileName::parse(name).unwrap());
        let (url, _) = find("b-1.0.0.tgz").unwrap();
        assert_eq!(url.as_str(), "https://r.test/@a/b/-/b-1.0.0.tgz?x=y");
        assert!(matches!(find("b-2.0.0.tgz"), Err(FetchError::Malformed)));
        assert!(matches!(find("b-9.0.0.tgz"), Err(FetchError::Unknown)));
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for wrong in ["", "[]", "{}", "{\"versions\": 1}", "{\"versions\": {}"] {
            assert!(led_to("", wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
