//! Files of sandboxes as resources: `skep://<sandbox>/files/<path>`.

use bytes::BytesMut;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::model::{Resource, ResourceTemplate};
use skep_client::{Entry, EntryKind, Sandbox};

use crate::clean::pictured;
use crate::failure::Failure;

/// Largest file that is read whole.
const LARGEST_FILE: usize = 8 << 20;
/// Largest file that is no text and no picture.
const LARGEST_BLOB: usize = 480 << 10;
/// Number of resources in the list.
const MOST_LISTED: usize = 200;
const SCHEME: &str = "skep://";
/// Characters that stand for themselves in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Content of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Text(String),
    /// An image of a kind that clients show.
    Image(Vec<u8>, &'static str),
    Bytes(Vec<u8>),
}

/// URI of a file by its whole path.
pub(crate) fn uri(sandbox: &str, path: &str) -> String {
    let path = utf8_percent_encode(path.trim_start_matches('/'), PATH);
    format!("{SCHEME}{sandbox}/files/{path}")
}

/// The sandbox and the path that a URI names. The path is one in that sandbox, whatever is in it.
pub(crate) fn parse_uri(uri: &str) -> Option<(String, String)> {
    let rest = uri.strip_prefix(SCHEME)?;
    let (sandbox, path) = rest.split_once("/files/")?;
    // Queries and fragments are no part of a path; a file with such a sign has it encoded.
    if path.contains(['?', '#']) {
        return None;
    }
    let sandbox = percent_decode_str(sandbox).decode_utf8().ok()?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    let is_plain = !sandbox.is_empty() && !sandbox.contains(['/', '\0']) && !path.contains('\0');
    is_plain.then(|| (sandbox.into_owned(), format!("/{path}")))
}

pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new("skep://{sandbox}/files/{+path}", "file")
        .with_title("File of a sandbox")
        .with_description("A file by the ID or name of its sandbox and its whole path.")
}

/// The files in the home of a sandbox.
pub(crate) async fn list(sandbox: &Sandbox) -> Result<Vec<Resource>, Failure> {
    let entries = sandbox.files().list_to_depth(".", 3).await?.into_iter();
    let files = entries.filter(|entry| entry.kind == EntryKind::File && !is_hidden(&entry.path));
    Ok(files
        .take(MOST_LISTED)
        .map(|entry| link(sandbox, &entry))
        .collect())
}

fn is_hidden(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with('.'))
}

pub(crate) fn link(sandbox: &Sandbox, entry: &Entry) -> Resource {
    Resource::new(uri(sandbox.id(), &entry.path), pictured(&entry.name))
        .with_description(pictured(&entry.path))
        .with_size(entry.size)
}

/// Reads a file, unless it is too large.
pub(crate) async fn read_content(sandbox: &Sandbox, path: &str) -> Result<Content, Failure> {
    let mut stream = sandbox.files().download(path).await?;
    let mut bytes = BytesMut::new();
    while let Some(piece) = stream.next().await? {
        if bytes.len() + piece.len() > LARGEST_FILE {
            return Err(too_large(path));
        }
        bytes.extend_from_slice(&piece);
    }
    let content = content(bytes.to_vec());
    if let Content::Bytes(bytes) = &content
        && bytes.len() > LARGEST_BLOB
    {
        return Err(too_large(path));
    }
    Ok(content)
}

fn too_large(path: &str) -> Failure {
    Failure::new(
        format!("`{path}` is too large to be read whole"),
        "Read parts of it with run_command (head, tail, grep) or run_code.",
    )
}

/// Judges a content by what it is, and not by what its file is called.
fn content(bytes: Vec<u8>) -> Content {
    let image = match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    };
    if let Some(mime_type) = image {
        return Content::Image(bytes, mime_type);
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Content::Text(text),
        Ok(text) => Content::Bytes(text.into_bytes()),
        Err(error) => Content::Bytes(error.into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_file_of_one_sandbox() {
        let parsed = |uri: &str| parse_uri(uri);
        let expected = |sandbox: &str, path: &str| Some((sandbox.to_owned(), path.to_owned()));
        let path = "/home/user/a b?#%2F.txt";
        assert_eq!(parsed(&uri("i1", path)), expected("i1", path));
        assert_eq!(
            parsed("skep://i1/files/etc/passwd"),
            expected("i1", "/etc/passwd")
        );
        // Another path in the same sandbox is what its user may read anyway.
        assert_eq!(parsed("skep://i1/files/../x"), expected("i1", "/../x"));
    }

    #[test]
    fn what_is_no_file_of_a_sandbox_is_refused() {
        for uri in [
            "file:///etc/passwd",
            "/etc/passwd",
            "skep://i1",
            "skep:///files/x",
            "skep://i1/logs",
            "skep://i1%2F..%2Fi2/files/x",
            "skep://i1/../i2/files/x",
            "skep://i1/files/x?sandbox=i2",
            "skep://i1/files/x#y",
            "skep://i1/files/x%00",
            "skep://i1/files/%ff",
            "http://evil.example/files/x",
        ] {
            assert_eq!(parse_uri(uri), None, "{uri}");
        }
    }

    #[test]
    fn a_content_is_what_its_bytes_say() {
        assert_eq!(content(b"a\n".to_vec()), Content::Text("a\n".to_owned()));
        assert_eq!(content(b"a\0".to_vec()), Content::Bytes(b"a\0".to_vec()));
        assert_eq!(content(vec![0xff, 0xfe]), Content::Bytes(vec![0xff, 0xfe]));
        let png = vec![0x89, b'P', b'N', b'G', 0];
        assert_eq!(content(png.clone()), Content::Image(png, "image/png"));
    }
}
