//! `read_file`, `write_file` and `list_files`

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skep_client::{EntryKind, Sandbox};

use super::Call;
use crate::answer::Answer;
use crate::clean::pictured;
use crate::failure::Failure;
use crate::resources::{Content, link, read_content, uri};

/// Number of lines that are read unless more are asked for.
const USUAL_LINES: usize = 1000;
/// Number of characters that are read at once.
const MOST_CHARACTERS: usize = 48_000;
/// Number of entries that are listed.
const MOST_ENTRIES: usize = 500;
/// Deepest listing.
const DEEPEST: u32 = 5;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadArguments {
    /// Path; a relative one begins in /home/user.
    path: String,
    /// Number of lines to skip.
    #[serde(default)]
    offset: usize,
    /// Number of lines to read.
    #[serde(default)]
    limit: Option<usize>,
    /// ID or name of the sandbox; without it the usual one is used.
    #[serde(default)]
    sandbox: Option<String>,
}

/// A file.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReadOutput {
    /// ID of the sandbox that has it.
    sandbox: String,
    /// Its whole path.
    path: String,
    /// Its size in bytes.
    size: u64,
    /// The lines that were read, of a text.
    text: Option<String>,
    /// Number of the first line after them, if there are more.
    next_offset: Option<usize>,
}

pub(crate) async fn read(
    call: &Call<'_>,
    arguments: ReadArguments,
) -> Result<CallToolResult, Failure> {
    let found = call
        .session
        .sandbox(call.client, arguments.sandbox.as_deref())
        .await?;
    let sandbox = &found.sandbox;
    let entry = sandbox
        .files()
        .stat(&arguments.path)
        .await
        .map_err(absent)?;
    if entry.kind == EntryKind::Directory {
        return Err(Failure::new(
            format!("`{}` is a directory", entry.path),
            "Use list_files.",
        ));
    }
    let mut answer = Answer::default();
    let mut output = ReadOutput {
        sandbox: sandbox.id().to_owned(),
        path: entry.path.clone(),
        size: entry.size,
        text: None,
        next_offset: None,
    };
    match read_content(sandbox, &entry.path).await? {
        Content::Text(text) => {
            let limit = arguments.limit.unwrap_or(USUAL_LINES);
            let (part, next) = lines(&text, arguments.offset, limit);
            answer.say(if part.is_empty() {
                "[nothing there]".to_owned()
            } else {
                pictured(&part)
            });
            if let Some(next) = next {
                answer.say(format!("[there is more: read on with offset {next}]"));
            }
            output.text = Some(part);
            output.next_offset = next;
        }
        Content::Image(bytes, mime_type) => {
            answer.say(format!("[{}, {} bytes]", entry.path, entry.size));
            answer.show(&STANDARD.encode(&bytes), mime_type);
        }
        Content::Bytes(bytes) => {
            answer.say(format!(
                "[{}, {} bytes that are no text]",
                entry.path, entry.size
            ));
            let blob =
                ResourceContents::blob(STANDARD.encode(&bytes), uri(sandbox.id(), &entry.path));
            answer.add(ContentBlock::resource(
                blob.with_mime_type("application/octet-stream"),
            ));
        }
    }
    Ok(answer.with(&output))
}

/// Lines of a text from `offset` on, and the number of the first that is left out.
fn lines(text: &str, offset: usize, limit: usize) -> (String, Option<usize>) {
    let mut part = String::new();
    let lines = text.split_inclusive('\n').enumerate().skip(offset);
    for (count, (number, line)) in lines.enumerate() {
        let is_full = count == limit || (count > 0 && part.len() + line.len() > MOST_CHARACTERS);
        if is_full {
            return (part, Some(number));
        }
        if line.len() > MOST_CHARACTERS {
            let end = line.floor_char_boundary(MOST_CHARACTERS);
            part.push_str(&line[..end]);
            part.push_str("[… the line is cut]\n");
        } else {
            part.push_str(line);
        }
    }
    (part, None)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteArguments {
    /// Path; a relative one begins in /home/user.
    path: String,
    /// Content of the file.
    content: String,
    /// Encoding of `content`.
    #[serde(default)]
    encoding: Encoding,
    /// ID or name of the sandbox; without it the usual one is used.
    #[serde(default)]
    sandbox: Option<String>,
}

/// Encoding of a content.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
enum Encoding {
    #[default]
    Text,
    Base64,
}

/// A file that was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WriteOutput {
    /// ID of the sandbox that has it.
    sandbox: String,
    /// Its whole path.
    path: String,
    /// Its size in bytes.
    size: u64,
}

pub(crate) async fn write(
    call: &Call<'_>,
    arguments: WriteArguments,
) -> Result<CallToolResult, Failure> {
    let content = match arguments.encoding {
        Encoding::Text => arguments.content.into_bytes(),
        Encoding::Base64 => STANDARD.decode(arguments.content.trim()).map_err(|error| {
            Failure::new(
                format!("`content` is not base64: {error}"),
                "Leave `encoding` out for text.",
            )
        })?,
    };
    let found = call
        .session
        .sandbox(call.client, arguments.sandbox.as_deref())
        .await?;
    let files = found.sandbox.files();
    files.write(&arguments.path, content).await?;
    let entry = files.stat(&arguments.path).await?;
    let mut answer = Answer::text(format!("[wrote {} bytes to {}]", entry.size, entry.path));
    answer.say(
        found
            .note
            .map(|note| format!("[{note}]"))
            .unwrap_or_default(),
    );
    answer.add(ContentBlock::resource_link(link(&found.sandbox, &entry)));
    Ok(answer.with(&WriteOutput {
        sandbox: found.sandbox.id().to_owned(),
        path: entry.path,
        size: entry.size,
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArguments {
    /// Path of the directory; without it /home/user.
    #[serde(default)]
    path: Option<String>,
    /// Number of levels to list.
    #[serde(default)]
    #[schemars(range(min = 1, max = 5))]
    depth: Option<u32>,
    /// ID or name of the sandbox; without it the usual one is used.
    #[serde(default)]
    sandbox: Option<String>,
}

/// A directory.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListOutput {
    /// ID of the sandbox that has it.
    sandbox: String,
    /// Entries of the directory and of those below it, to the depth that was asked for.
    entries: Vec<EntryOutput>,
    /// True if there are more.
    truncated: bool,
}

/// An entry of a directory.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct EntryOutput {
    /// Its whole path.
    path: String,
    /// `file`, `directory`, `symlink` or `other`.
    kind: &'static str,
    /// Its size in bytes.
    size: u64,
    /// Time of the last change.
    modified: Option<String>,
}

pub(crate) async fn list(
    call: &Call<'_>,
    arguments: ListArguments,
) -> Result<CallToolResult, Failure> {
    let found = call
        .session
        .sandbox(call.client, arguments.sandbox.as_deref())
        .await?;
    let output = listing(
        &found.sandbox,
        arguments.path.as_deref().unwrap_or("."),
        arguments.depth.unwrap_or(1).clamp(1, DEEPEST),
    )
    .await?;
    let mut answer = Answer::default();
    for entry in &output.entries {
        let sign = if entry.kind == "directory" { "/" } else { "" };
        answer.say(format!("{}{sign}\t{}", entry.path, entry.size));
    }
    if output.entries.is_empty() {
        answer.say("[an empty directory]");
    }
    if output.truncated {
        answer.say(format!("[only the first {MOST_ENTRIES} are listed]"));
    }
    Ok(answer.with(&output))
}

async fn listing(sandbox: &Sandbox, path: &str, depth: u32) -> Result<ListOutput, Failure> {
    let entries = sandbox
        .files()
        .list_to_depth(path, depth)
        .await
        .map_err(absent)?;
    let truncated = entries.len() > MOST_ENTRIES;
    let entries = entries
        .into_iter()
        .take(MOST_ENTRIES)
        .map(|entry| EntryOutput {
            path: entry.path,
            kind: match entry.kind {
                EntryKind::File => "file",
                EntryKind::Directory => "directory",
                EntryKind::Symlink => "symlink",
                EntryKind::Other => "other",
            },
            size: entry.size,
            modified: entry.modified_time,
        });
    Ok(ListOutput {
        sandbox: sandbox.id().to_owned(),
        entries: entries.collect(),
        truncated,
    })
}

fn absent(error: skep_client::ClientError) -> Failure {
    let is_absent = error.is_not_found();
    let failure = Failure::from(error);
    if is_absent {
        return failure.advise("list_files shows what is there.");
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_in_parts() {
        let text = "a\nb\nc";
        assert_eq!(lines(text, 0, 10), ("a\nb\nc".to_owned(), None));
        assert_eq!(lines(text, 0, 2), ("a\nb\n".to_owned(), Some(2)));
        assert_eq!(lines(text, 2, 1), ("c".to_owned(), None));
        assert_eq!(lines(text, 9, 1), (String::new(), None));
        let long = "é".repeat(MOST_CHARACTERS);
        let (part, next) = lines(&long, 0, 10);
        assert!(part.ends_with("the line is cut]\n") && next.is_none());
    }
}
