//! Uploads: the query, `Content-Type`, `Content-Encoding` and metadata, one per line, then the
//! body.
//!
//! What is accepted is there, whole, and nothing else has changed. What is refused leaves every
//! file as it was, but for those of the same request that came whole before.

use std::path::Path;

use http::{HeaderValue, Request};
use serde_json::Value;

use crate::http_text::Message;
use crate::shape;
use crate::stage::{Answer, perform};
use crate::tree::{Tree, differences};

pub(super) fn check(data: &[u8]) {
    let Some(message) = read(data) else {
        return;
    };
    perform(move |stage| {
        let agent = stage.agent(false);
        let answer = stage.ask(&agent, message.request());
        shape::check(&message.parts, &answer);
        drop(agent);
        stage.compare(|before, after| {
            if answer.status.is_success() {
                accepted(&answer, before, after);
            } else {
                refused(&message, &answer, before, after);
            }
        });
    });
}

fn read(data: &[u8]) -> Option<Message> {
    let mut lines = data.splitn(5, |byte| *byte == b'\n');
    let query = std::str::from_utf8(lines.next()?).ok()?;
    let mut request = Request::post(format!("/files?{query}")).body(()).ok()?;
    for name in ["content-type", "content-encoding", "x-metadata-author"] {
        let value = lines.next()?;
        if !value.is_empty() {
            let value = HeaderValue::from_bytes(value).ok()?;
            request.headers_mut().insert(name, value);
        }
    }
    let body = lines.next()?;
    let (parts, ()) = request.into_parts();
    Some(Message {
        parts,
        body: bytes::Bytes::copy_from_slice(body),
    })
}

fn accepted(answer: &Answer, before: &Tree, after: &Tree) {
    let written: Value = serde_json::from_slice(&answer.body).expect("a list of files");
    let written: Vec<&str> = written
        .as_array()
        .expect("a list of files")
        .iter()
        .map(|file| file["path"].as_str().expect("a file has a path"))
        .collect();
    for path in &written {
        let found = std::fs::metadata(path).expect("what was written is there");
        assert!(found.is_file(), "{path} is a file");
    }
    for changed in differences(before, after) {
        let is_new_directory = !before.contains_key(changed) && after[changed].is_directory();
        let is_written = written
            .iter()
            .any(|path| std::fs::canonicalize(path).is_ok_and(|path| path == changed));
        assert!(
            is_written || is_new_directory,
            "{} changed beside {written:?}",
            changed.display()
        );
    }
}

fn refused(message: &Message, answer: &Answer, before: &Tree, after: &Tree) {
    let plain = !message.parts.headers.contains_key("content-encoding");
    for changed in differences(before, after) {
        let entry = after.get(changed).unwrap_or_else(|| panic!("{} is gone", changed.display()));
        if entry.is_directory() && !before.contains_key(changed) && leads_to_file(changed, after) {
            continue;
        }
        assert!(
            entry.is_file(),
            "{} became something else",
            changed.display()
        );
        // A part that came whole is followed by its boundary. What was compressed is not checked.
        assert!(
            !plain || has_part(&message.body, &entry.content),
            "{} is half a file: {answer:?}",
            changed.display()
        );
    }
}

/// Returns true if a new file is what this directory was made for.
fn leads_to_file(directory: &Path, after: &Tree) -> bool {
    after
        .iter()
        .any(|(path, entry)| entry.is_file() && path.starts_with(directory))
}

fn has_part(body: &[u8], content: &[u8]) -> bool {
    let part = [content, b"\r\n--"].concat();
    body.windows(part.len()).any(|window| window == part)
}
