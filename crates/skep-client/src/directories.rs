//! Directories of a sandbox, and what is known of their entries.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::ClientError;
use crate::files::Files;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Last part of its path.
    pub name: String,
    /// Kind of what is there; of a link, the kind of what it leads to.
    #[serde(rename = "type", default)]
    pub kind: EntryKind,
    /// Whole path.
    pub path: String,
    /// Length in bytes. The wire writes it as text.
    #[serde(default, deserialize_with = "number")]
    pub size: u64,
    /// Rights as `ls` writes them.
    #[serde(default)]
    pub permissions: String,
    /// Name of its owner.
    #[serde(default)]
    pub owner: String,
    /// Name of its group.
    #[serde(default)]
    pub group: String,
    /// Time of the last change, as text (RFC 3339).
    #[serde(default)]
    pub modified_time: Option<String>,
    /// Target of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symlink_target: Option<String>,
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A device, a socket, or anything else.
    #[default]
    #[serde(rename(serialize = "other", deserialize = "FILE_TYPE_UNSPECIFIED"))]
    Other,
    /// A file.
    #[serde(rename(serialize = "file", deserialize = "FILE_TYPE_FILE"))]
    File,
    /// A directory.
    #[serde(rename(serialize = "directory", deserialize = "FILE_TYPE_DIRECTORY"))]
    Directory,
    /// A link that leads nowhere.
    #[serde(rename(serialize = "symlink", deserialize = "FILE_TYPE_SYMLINK"))]
    Symlink,
}

/// Reads a number that may be written as text, as protobuf's JSON does with long ones.
fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
    }
    match Written::deserialize(deserializer)? {
        Written::Number(number) => Ok(number),
        Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
    }
}

#[derive(Deserialize)]
struct Listing {
    #[serde(default)]
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Described {
    entry: Entry,
}

impl Files {
    /// The entries of a directory.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such directory.
    pub async fn list(&self, path: &str) -> Result<Vec<Entry>, ClientError> {
        self.list_to_depth(path, 1).await
    }

    /// The entries of a directory and of those below it, down to this depth; 1 is the directory
    /// alone.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such directory.
    pub async fn list_to_depth(&self, path: &str, depth: u32) -> Result<Vec<Entry>, ClientError> {
        let body = json!({ "path": path, "depth": depth });
        let listing: Listing = self
            .filesystem(&format!("list `{path}`"), "ListDir", &body)
            .await?;
        Ok(listing.entries)
    }

    /// Returns the entry of a file or a directory.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is nothing.
    pub async fn stat(&self, path: &str) -> Result<Entry, ClientError> {
        let operation = format!("look at `{path}`");
        let body = json!({ "path": path });
        let described: Described = self.filesystem(&operation, "Stat", &body).await?;
        Ok(described.entry)
    }

    /// Makes a directory, and those above it.
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if it is there already.
    pub async fn make_directory(&self, path: &str) -> Result<Entry, ClientError> {
        let operation = format!("make directory `{path}`");
        let body = json!({ "path": path });
        let described: Described = self.filesystem(&operation, "MakeDir", &body).await?;
        Ok(described.entry)
    }

    /// Removes a file, or a directory with everything in it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn remove(&self, path: &str) -> Result<(), ClientError> {
        let operation = format!("remove `{path}`");
        let body = json!({ "path": path });
        let _nothing: serde_json::Value = self.filesystem(&operation, "Remove", &body).await?;
        Ok(())
    }

    /// Makes a call of the agent's filesystem service.
    async fn filesystem<T: serde::de::DeserializeOwned>(
        &self,
        operation: &str,
        method: &str,
        body: &serde_json::Value,
    ) -> Result<T, ClientError> {
        let path = format!("/filesystem.Filesystem/{method}");
        let port = self.port();
        let mut request = port.request(Method::POST, &path).await?.json(body);
        if let Some(user) = self.user() {
            request = request.basic_auth(user, Some(""));
        }
        port.call_built(operation, request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_the_agent_writes_it() {
        let text = r#"{"name":"a","type":"FILE_TYPE_FILE","path":"/home/user/a","size":"7",
            "mode":420,"permissions":"-rw-r--r--","owner":"user","group":"user",
            "modifiedTime":"2026-01-02T03:04:05Z"}"#;
        let entry: Entry = serde_json::from_str(text).unwrap();
        assert_eq!((entry.kind, entry.size), (EntryKind::File, 7));
        let shown = serde_json::to_value(&entry).unwrap();
        assert_eq!(shown["type"], "file");
        // Protobuf leaves out what is zero.
        let empty: Entry = serde_json::from_str(r#"{"name":"d","path":"/d"}"#).unwrap();
        assert_eq!((empty.kind, empty.size), (EntryKind::Other, 0));
    }
}
