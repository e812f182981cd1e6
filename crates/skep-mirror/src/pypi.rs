//! The index of Python projects (PEP 503, 658, 691).

mod page;

use std::sync::Arc;

use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::Access;
use crate::digest::Digest;
use crate::error::FetchError;
use crate::fetch::{Fetcher, FileOrder, Found, IndexOrder, Malformed};
use crate::names::{FileName, ProjectName};
use crate::store::Stored;
use crate::upstream::Upstream;

/// Content type of an index in JSON.
pub(crate) const JSON: &str = "application/vnd.pypi.simple.v1+json";
const ACCEPT: &str = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

/// The files of a project, as they are kept.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Project {
    versions: Vec<String>,
    files: Vec<Distribution>,
}

/// A file of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Distribution {
    name: String,
    url: String,
    sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requires_python: Option<String>,
    /// The reason, perhaps empty, if it was yanked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    yanked: Option<String>,
    /// Digest of its metadata, if they can be had alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upload_time: Option<String>,
}

/// The page of a registry in JSON.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    versions: Vec<String>,
    /// Each is read alone, so that one with something new in it does not hide the others.
    #[serde(borrow)]
    files: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PageFile {
    filename: String,
    url: String,
    hashes: Hashes,
    #[serde(default)]
    requires_python: Option<String>,
    #[serde(default)]
    yanked: Value,
    #[serde(default)]
    core_metadata: Value,
    #[serde(default)]
    dist_info_metadata: Value,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    upload_time: Option<String>,
}

#[derive(Deserialize)]
struct Hashes {
    #[serde(default)]
    sha256: Option<String>,
}

impl Project {
    fn read(stored: &Stored) -> Result<Self, FetchError> {
        let content = stored.read_all()?;
        serde_json::from_slice(&content).map_err(|_| FetchError::Malformed)
    }

    /// The page in JSON, with files of the mirror.
    pub(crate) fn to_json(&self, project: &ProjectName) -> Vec<u8> {
        let files: Vec<Value> = (self.files.iter())
            .map(|file| {
                let mut shown = json!({
                    "filename": file.name,
                    "url": file.place(project),
                    "hashes": {"sha256": file.sha256},
                });
                let mut set = |key: &str, value: Option<Value>| {
                    if let Some(value) = value {
                        shown[key] = value;
                    }
                };
                set(
                    "requires-python",
                    file.requires_python.clone().map(Value::from),
                );
                let yanked = |reason: &String| match reason.as_str() {
                    "" => Value::Bool(true),
                    reason => Value::from(reason),
                };
                set("yanked", file.yanked.as_ref().map(yanked));
                let metadata = file
                    .metadata
                    .as_ref()
                    .map(|digest| json!({"sha256": digest}));
                set("core-metadata", metadata.clone());
                set("dist-info-metadata", metadata);
                set("size", file.size.map(Value::from));
                set("upload-time", file.upload_time.clone().map(Value::from));
                shown
            })
            .collect();
        let is_complete =
            !self.versions.is_empty() && self.files.iter().all(|file| file.size.is_some());
        let mut page = json!({
            "meta": {"api-version": if is_complete { "1.1" } else { "1.0" }},
            "name": project.as_str(),
            "files": files,
        });
        if is_complete {
            page["versions"] = self.versions.clone().into();
        }
        page.to_string().into_bytes()
    }

    /// The page in HTML.
    pub(crate) fn to_html(&self, project: &ProjectName) -> Vec<u8> {
        let links = self.files.iter().map(|file| page::Link {
            text: file.name.clone(),
            target: format!("{}#sha256={}", file.place(project), file.sha256),
            requires_python: file.requires_python.clone(),
            yanked: file.yanked.clone(),
            metadata: file
                .metadata
                .as_ref()
                .map(|digest| format!("sha256={digest}")),
        });
        page::render(project.as_str(), links).into_bytes()
    }

    fn find(&self, name: &str, sha256: &str) -> Option<&Distribution> {
        let mut files = self.files.iter();
        files.find(|file| file.name == name && file.sha256 == sha256)
    }
}

impl Distribution {
    /// Path of the file at the mirror.
    fn place(&self, project: &ProjectName) -> String {
        use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
        let name = utf8_percent_encode(&self.name, NON_ALPHANUMERIC);
        format!("/pypi/files/{}/{}/{name}", project.as_str(), self.sha256)
    }

    /// A file that can be verified; others are left out.
    fn new(base: &Url, name: &str, url: &str, sha256: Option<&str>) -> Option<Self> {
        FileName::parse(name)?;
        let sha256 = sha256?.to_ascii_lowercase();
        Digest::sha256(&sha256)?;
        let mut url = base.join(url).ok()?;
        url.set_fragment(None);
        ["http", "https"].contains(&url.scheme()).then_some(())?;
        Some(Self {
            name: name.to_owned(),
            url: url.into(),
            sha256,
            requires_python: None,
            yanked: None,
            metadata: None,
            size: None,
            upload_time: None,
        })
    }
}

/// The files of a project.
pub(crate) async fn project(
    fetcher: &Arc<Fetcher>,
    upstream: &Arc<Upstream>,
    name: &ProjectName,
    access: Access,
) -> Result<Project, FetchError> {
    let order = IndexOrder {
        upstream: Arc::clone(upstream),
        url: upstream.at([name.as_str(), ""]),
        accept: Some(ACCEPT),
        read,
    };
    let stored = fetcher.index(order, access).await?;
    let reading = tokio::task::spawn_blocking(move || Project::read(&stored));
    reading.await.map_err(|_| FetchError::Stopping)?
}

/// A file of a project, or its metadata.
pub(crate) async fn file(
    fetcher: &Arc<Fetcher>,
    upstream: &Arc<Upstream>,
    (project_name, sha256, name): (&ProjectName, &str, &FileName),
    access: Access,
) -> Result<Found, FetchError> {
    let project = project(fetcher, upstream, project_name, access).await?;
    let name = name.as_str();
    let metadata = name.strip_suffix(".metadata").and_then(|name| {
        let file = project.find(name, sha256)?;
        Some((format!("{}.metadata", file.url), file.metadata.clone()?))
    });
    let plain = || {
        let file = project.find(name, sha256)?;
        Some((file.url.clone(), file.sha256.clone()))
    };
    let (url, digest) = metadata.or_else(plain).ok_or(FetchError::Unknown)?;
    let order = FileOrder {
        upstream: Arc::clone(upstream),
        url: Url::parse(&url).map_err(|_| FetchError::Malformed)?,
        digest: Some(Digest::sha256(&digest).ok_or(FetchError::Malformed)?),
        anew: false,
    };
    fetcher.file(order, access).await
}

/// Reads the page of a registry.
fn read(base: &Url, content_type: &str, content: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    let project = match kind {
        JSON | "application/json" => read_json(base, content)?,
        "text/html" | "application/vnd.pypi.simple.v1+html" => read_html(base, content)?,
        _ => return Err(Malformed),
    };
    let kept = serde_json::to_vec(&project).map_err(|_| Malformed)?;
    Ok(Some(kept))
}

fn read_json(base: &Url, content: &[u8]) -> Result<Project, Malformed> {
    let page: Page<'_> = serde_json::from_slice(content).map_err(|_| Malformed)?;
    let read_file = |file: &&RawValue| {
        let file: PageFile = serde_json::from_str(file.get()).ok()?;
        let hash = file.hashes.sha256.as_deref();
        let mut own = Distribution::new(base, &file.filename, &file.url, hash)?;
        own.requires_python = file.requires_python;
        own.yanked = match file.yanked {
            Value::Bool(true) => Some(String::new()),
            Value::String(reason) => Some(reason),
            Value::Null
            | Value::Bool(false)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        };
        let digest = |value: &Value| {
            let digest = value.get("sha256")?.as_str()?.to_ascii_lowercase();
            Digest::sha256(&digest).map(|_| digest)
        };
        own.metadata = digest(&file.core_metadata).or_else(|| digest(&file.dist_info_metadata));
        own.size = file.size;
        own.upload_time = file.upload_time;
        Some(own)
    };
    Ok(Project {
        versions: page.versions,
        files: page.files.iter().filter_map(read_file).collect(),
    })
}

fn read_html(base: &Url, content: &[u8]) -> Result<Project, Malformed> {
    let text = std::str::from_utf8(content).map_err(|_| Malformed)?;
    let read_link = |link: page::Link| {
        let (url, fragment) = link.target.split_once('#')?;
        let digest = fragment
            .split('&')
            .find_map(|part| part.strip_prefix("sha256="));
        let mut own = Distribution::new(base, link.text.trim(), url, digest)?;
        own.requires_python = link.requires_python;
        own.yanked = link.yanked;
        let metadata = link.metadata.as_deref();
        let digest = metadata
            .and_then(|metadata| metadata.strip_prefix("sha256="))
            .map(str::to_ascii_lowercase);
        own.metadata = digest.filter(|digest| Digest::sha256(digest).is_some());
        Some(own)
    };
    Ok(Project {
        versions: Vec::new(),
        files: page::links(text).filter_map(read_link).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "https://index.test/simple/six/";

    fn kept(content_type: &str, content: &str) -> Project {
        let base = Url::parse(BASE).unwrap();
        let kept = read(&base, content_type, content.as_bytes())
            .unwrap()
            .unwrap();
        serde_json::from_slice(&kept).unwrap()
    }

    fn sha256(digit: &str) -> String {
        digit.repeat(64)
    }

    #[test]
    fn a_page_of_either_kind_means_the_same_files() {
        let (file, metadata) = (sha256("a"), sha256("b"));
        let json = json!({
            "meta": {"api-version": "1.0"}, "name": "six",
            "files": [
                {"filename": "six-1.whl", "url": "../../six-1.whl", "hashes": {"sha256": file},
                 "requires-python": ">=3", "yanked": "broken", "core-metadata": {"sha256": metadata}},
                {"filename": "six-2.whl", "url": "https://files.test/six-2.whl", "hashes": {"md5": "x"}},
                {"filename": "../six.whl", "url": "https://files.test/x", "hashes": {"sha256": file}},
                {"filename": "six-3.whl", "url": "file:///etc/passwd", "hashes": {"sha256": file}},
                {"unknown": true},
            ],
        });
        let html = format!(
            "<!doctype html><a href='../../six-1.whl#sha256={file}' data-requires-python='&gt;=3' \
             data-yanked=\"broken\" data-core-metadata=sha256={metadata}> six-1.whl\n</a>\
             <a href=\"https://files.test/six-2.whl\">six-2.whl</a><a href>"
        );
        let from_json = kept(JSON, &json.to_string());
        let from_html = kept("text/html; charset=utf-8", &html);
        assert_eq!(from_json.files, from_html.files);
        let [only] = from_json.files.as_slice() else {
            panic!("{from_json:?}");
        };
        assert_eq!(only.url, "https://index.test/six-1.whl");
        assert_eq!(only.metadata.as_deref(), Some(metadata.as_str()));
        assert_eq!(only.yanked.as_deref(), Some("broken"));
    }

    #[test]
    fn what_a_sandbox_is_shown_leads_to_the_mirror_alone() {
        let json = json!({"files": [
            {"filename": "six-1+cpu.whl", "url": "https://user:word@files.test/six-1.whl", "hashes": {"sha256": sha256("a")}},
        ]});
        let project = kept(JSON, &json.to_string());
        let name = ProjectName::parse("six").unwrap();
        let place = format!("/pypi/files/six/{}/six%2D1%2Bcpu%2Ewhl", sha256("a"));
        for page in [project.to_json(&name), project.to_html(&name)] {
            let page = String::from_utf8(page).unwrap();
            assert!(page.contains(&place), "{page}");
            assert!(
                !page.contains("files.test") && !page.contains("word"),
                "{page}"
            );
        }
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let base = Url::parse(BASE).unwrap();
        for (kind, content) in [
            (JSON, "{}"),
            (JSON, "[]"),
            (JSON, "{\"files\": 1}"),
            ("image/png", "{\"files\": []}"),
            ("", "{\"files\": []}"),
        ] {
            assert!(
                read(&base, kind, content.as_bytes()).is_err(),
                "{kind} {content}"
            );
        }
    }
}
