//! Files of one `COPY`, as an archive with a name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

/// Prefix of an upload's name: how it is made is part of it.
const KIND: &str = "skep-context-1";
/// Bytes that are read of a file at once.
const PIECE: usize = 64 << 10;

/// Files of one `COPY`, by the paths that they have in the archive.
#[derive(Debug, Clone)]
pub(super) struct Files {
    source: String,
    members: BTreeMap<String, Member>,
}

/// A member of the archive.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) mode: u32,
    pub(super) modified: u64,
    pub(super) content: Content,
}

/// Content of a member.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Directory,
    Link(PathBuf),
    /// A file of this host, and its size.
    File(PathBuf, u64),
    /// A file in an archive.
    Part(Part),
    /// A text of the Dockerfile.
    Text(String),
}

/// A part of a file that is open.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) file: Arc<File>,
    pub(super) at: u64,
    pub(super) bytes: u64,
}

impl Read for Part {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.bytes).map_or(into.len(), |bytes| bytes.min(into.len()));
        let length = self.file.read_at(&mut into[..most], self.at)?;
        self.at += length as u64;
        self.bytes -= length as u64;
        Ok(length)
    }
}

/// An archive that is ready to be uploaded.
#[derive(Debug)]
pub(super) struct Archive {
    pub(super) file: File,
    pub(super) bytes: u64,
}

impl Files {
    /// Files whose places below the destination are their paths.
    pub(super) fn together() -> Self {
        Self {
            source: ".".to_owned(),
            members: BTreeMap::new(),
        }
    }

    /// One file that becomes the destination.
    pub(super) fn single(name: String) -> Self {
        Self {
            source: name,
            members: BTreeMap::new(),
        }
    }

    /// Texts of a Dockerfile as files below a destination, or as the destination itself.
    pub(super) fn inline(documents: &[(String, String)], destination: &str) -> Self {
        let mut files = match documents {
            [(name, _)] if !destination.ends_with('/') => Self::single(name.clone()),
            _ => Self::together(),
        };
        for (name, text) in documents {
            let member = Member {
                mode: 0o644,
                modified: 0,
                content: Content::Text(text.clone()),
            };
            files.add(name, member);
        }
        files
    }

    pub(super) fn add(&mut self, path: &str, member: Member) {
        self.members.insert(path.to_owned(), member);
    }

    /// The source, as the server finds it in the archive.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Paths in the archive.
    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.members.values().map(|member| match &member.content {
            Content::File(_, bytes) => *bytes,
            Content::Part(part) => part.bytes,
            Content::Text(text) => text.len() as u64,
            Content::Directory | Content::Link(_) => 0,
        });
        bytes.sum()
    }

    /// The name of the upload: paths, modes and contents, and nothing that differs from one checkout
    /// to the next. Blocks.
    pub(super) fn hash(&self) -> io::Result<String> {
        let mut hash = Sha256::new();
        let part = |hash: &mut Sha256, bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(&mut hash, KIND.as_bytes());
        for (path, member) in &self.members {
            part(&mut hash, path.as_bytes());
            part(&mut hash, &member.mode.to_le_bytes());
            match &member.content {
                Content::Directory => part(&mut hash, b"directory"),
                Content::Link(target) => {
                    part(&mut hash, b"link");
                    part(&mut hash, target.as_os_str().as_encoded_bytes());
                }
                Content::Text(text) => {
                    part(&mut hash, b"file");
                    part(&mut hash, text.as_bytes());
                }
                Content::File(full, bytes) => {
                    part(&mut hash, b"file");
                    add_content(&mut hash, File::open(full)?, *bytes)?;
                }
                Content::Part(content) => {
                    part(&mut hash, b"file");
                    add_content(&mut hash, content.clone(), content.bytes)?;
                }
            }
        }
        Ok(hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect())
    }

    /// The archive. Blocks.
    pub(super) fn pack(&self) -> io::Result<Archive> {
        let file = tempfile::tempfile()?;
        let compressed = GzEncoder::new(file, Compression::fast());
        let mut builder = Builder::new(compressed);
        for (path, member) in &self.members {
            let mut header = Header::new_gnu();
            header.set_mode(member.mode);
            header.set_mtime(member.modified);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(0);
            match &member.content {
                Content::Directory => {
                    header.set_entry_type(EntryType::Directory);
                    builder.append_data(&mut header, path, io::empty())?;
                }
                Content::Link(target) => {
                    header.set_entry_type(EntryType::Symlink);
                    builder.append_link(&mut header, path, target)?;
                }
                Content::Text(text) => {
                    header.set_size(text.len() as u64);
                    builder.append_data(&mut header, path, text.as_bytes())?;
                }
                Content::Part(content) => {
                    header.set_size(content.bytes);
                    builder.append_data(&mut header, path, content.clone())?;
                }
                Content::File(full, bytes) => {
                    header.set_size(*bytes);
                    let mut content = File::open(full)?.take(*bytes);
                    builder.append_data(&mut header, path, &mut content)?;
                    if content.limit() > 0 {
                        let text = format!("`{}` became shorter while it was read", full.display());
                        return Err(io::Error::other(text));
                    }
                }
            }
        }
        let mut file = builder.into_inner()?.finish()?;
        let bytes = file.stream_position()?;
        file.rewind()?;
        Ok(Archive { file, bytes })
    }
}

/// Adds the length and the bytes of a file to a hash.
fn add_content(hash: &mut Sha256, content: impl Read, bytes: u64) -> io::Result<()> {
    hash.update(bytes.to_le_bytes());
    let mut content = content.take(bytes);
    let mut piece = vec![0; PIECE];
    loop {
        let length = content.read(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        hash.update(&piece[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    #[test]
    fn the_name_of_an_upload_is_of_what_is_in_it() {
        let hash = |documents: &[(String, String)]| {
            let files = Files::inline(documents, "/x/");
            files.hash().unwrap()
        };
        let one = hash(&[document("a", "1"), document("b", "2")]);
        assert_eq!(one.len(), 64);
        assert_eq!(one, hash(&[document("b", "2"), document("a", "1")]));
        assert_ne!(one, hash(&[document("a", "12"), document("b", "")]));
    }

    #[test]
    fn an_archive_has_what_was_added_at_its_path() {
        let files = Files::inline(&[document("a.sh", "echo")], "/bin/a.sh");
        assert_eq!((files.source(), files.bytes()), ("a.sh", 4));
        let archive = files.pack().unwrap();
        assert!(archive.bytes > 0);
        let reader = flate2::read::GzDecoder::new(archive.file);
        let mut reader = tar::Archive::new(reader);
        let names: Vec<_> = reader
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["a.sh"]);
    }
}
