//! The members of a layer's archive, checked before anybody acts on them.

use std::io::{self, Read};

use tar::{Archive, Entry, EntryType};

const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;
const DEEPEST_PATH: usize = 256;
const LONGEST_ATTRIBUTE: usize = 64 << 10;
/// Key of an extended attribute in an archive, before its name.
const ATTRIBUTE: &str = "SCHILY.xattr.";
/// Prefix of the name of a member that removes another.
const REMOVED: &[u8] = b".wh.";
/// Prefix of names that belong to the format.
const RESERVED: &[u8] = b".wh..wh.";
/// Name of a member that hides what is in its directory in lower layers.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Change that a member of an archive makes to the layer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Something is there.
    Add(Member),
    /// Something of a lower layer is gone.
    Remove(LayerPath),
    /// All that lower layers have in a directory is gone.
    Hide(LayerPath),
    /// A device, which a layer does not get.
    Device,
}

/// A file, directory or link.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) path: LayerPath,
    pub(super) kind: Kind,
    /// Permission bits, those for set-id and sticky included.
    pub(super) mode: u32,
    pub(super) user: u32,
    pub(super) group: u32,
    /// Seconds since 1970.
    pub(super) modified: i64,
    /// Extended attributes that a layer may have.
    pub(super) attributes: Vec<(String, Vec<u8>)>,
}

/// Kinds of members.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
    Fifo,
    /// A symbolic link; its target is any text.
    Symlink(Vec<u8>),
    /// One more name for a file of the same layer.
    HardLink(LayerPath),
}

/// A path from the root of a layer: its names, none of which is empty or leads upwards.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct LayerPath(Vec<Vec<u8>>);

/// Receiver of the members of an archive.
pub(super) trait Sink {
    /// Takes a change, and the content of the file if it is one.
    fn change(&mut self, change: Change, content: &mut dyn Read) -> io::Result<()>;
}

/// Hands over all members, in their order.
pub(super) fn read_members(reader: impl Read, sink: &mut impl Sink) -> io::Result<()> {
    let mut archive = Archive::new(reader);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if let Some(change) = change(&mut entry)? {
            sink.change(change, &mut entry)?;
        }
    }
    Ok(())
}

/// Reads the change that a member makes; `None` if it says something about the archive.
fn change<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<Option<Change>> {
    let kind = entry.header().entry_type();
    if matches!(
        kind,
        EntryType::XGlobalHeader
            | EntryType::XHeader
            | EntryType::GNULongName
            | EntryType::GNULongLink
    ) {
        return Ok(None);
    }
    let bytes = entry.path_bytes();
    let path = LayerPath::read(&bytes)?;
    // An old archive marks a directory by its name only.
    let is_directory = kind == EntryType::Directory || bytes.ends_with(b"/");
    drop(bytes);
    if let Some((parent, name)) = path.split() {
        if name == OPAQUE {
            return Ok(Some(Change::Hide(parent)));
        }
        if name.starts_with(RESERVED) {
            return Ok(None);
        }
        if let Some(removed) = name.strip_prefix(REMOVED) {
            return Ok(Some(Change::Remove(parent.join(removed)?)));
        }
    }
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "kinds of archives that are not ours, and every other byte"
    )]
    let kind = match kind {
        EntryType::Directory => Kind::Directory,
        EntryType::Regular | EntryType::Continuous if is_directory => Kind::Directory,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => Kind::File,
        EntryType::Fifo => Kind::Fifo,
        EntryType::Symlink => Kind::Symlink(target(entry)?),
        EntryType::Link => Kind::HardLink(LayerPath::read(&target(entry)?)?),
        EntryType::Char | EntryType::Block => return Ok(Some(Change::Device)),
        other => {
            let byte = other.as_byte();
            return Err(refused(format!(
                "`{}` is of unknown kind {byte}",
                path.text()
            )));
        }
    };
    if path.0.is_empty() && kind != Kind::Directory {
        return Err(refused("its root is no directory".to_owned()));
    }
    let attributes = attributes(entry)?;
    let header = entry.header();
    let number = |found: io::Result<u64>| {
        let found = found?;
        // The largest number means "leave it as it is" to the kernel.
        let id = u32::try_from(found).ok().filter(|id| *id != u32::MAX);
        id.ok_or_else(|| refused(format!("`{}` has an impossible owner", path.text())))
    };
    Ok(Some(Change::Add(Member {
        kind,
        mode: header.mode()? & 0o7777,
        user: number(header.uid())?,
        group: number(header.gid())?,
        modified: i64::try_from(header.mtime()?).unwrap_or(0),
        attributes,
        path,
    })))
}

fn target<R: Read>(entry: &Entry<'_, R>) -> io::Result<Vec<u8>> {
    let target = entry.link_name_bytes().unwrap_or_default().into_owned();
    let is_valid = !target.is_empty() && target.len() <= LONGEST_PATH && !target.contains(&0);
    if is_valid {
        Ok(target)
    } else {
        Err(refused("a link in it has no valid target".to_owned()))
    }
}

/// Attributes that a layer may have: capabilities of programs, and what users set. Those of the
/// overlay decide what lower layers show, and the rest is for the host that made the archive.
fn attributes<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    let Some(extensions) = entry.pax_extensions()? else {
        return Ok(found);
    };
    for extension in extensions {
        let extension = extension?;
        let name = extension
            .key()
            .ok()
            .and_then(|key| key.strip_prefix(ATTRIBUTE));
        let Some(name) = name else { continue };
        let is_kept = name == "security.capability"
            || name.starts_with("user.") && !name.starts_with("user.overlay.");
        let value = extension.value_bytes();
        if is_kept
            && value.len() <= LONGEST_ATTRIBUTE
            && name.len() <= LONGEST_NAME
            && !name.contains('\0')
        {
            found.push((name.to_owned(), value.to_vec()));
        }
    }
    Ok(found)
}

impl LayerPath {
    /// Reads a path of an archive: `a/b`, `./a/b` and `/a/b` are the same.
    pub(super) fn read(bytes: &[u8]) -> io::Result<Self> {
        let shown = || String::from_utf8_lossy(&bytes[..bytes.len().min(256)]).into_owned();
        let names: Vec<Vec<u8>> = bytes
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty() && *name != b".")
            .map(<[u8]>::to_vec)
            .collect();
        if names.iter().any(|name| name == b"..") {
            return Err(refused(format!("`{}` leads upwards", shown())));
        }
        let is_valid = bytes.len() <= LONGEST_PATH
            && names.len() <= DEEPEST_PATH
            && names
                .iter()
                .all(|name| name.len() <= LONGEST_NAME && !name.contains(&0));
        if is_valid {
            Ok(Self(names))
        } else {
            Err(refused(format!("`{}` is no valid path", shown())))
        }
    }

    /// The directory and the name in it; `None` for the root.
    pub(super) fn split(&self) -> Option<(Self, &[u8])> {
        let (name, parent) = self.0.split_last()?;
        Some((Self(parent.to_vec()), name))
    }

    pub(super) fn names(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// The path as a system call takes it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        if self.0.is_empty() {
            return b".".to_vec();
        }
        self.0.join(&b'/')
    }

    /// The path for people.
    pub(super) fn text(&self) -> String {
        format!("/{}", String::from_utf8_lossy(&self.0.join(&b'/')))
    }

    pub(super) fn join(mut self, name: &[u8]) -> io::Result<Self> {
        if name.is_empty() || name == b"." || name == b".." {
            return Err(refused("it removes what has no name".to_owned()));
        }
        self.0.push(name.to_vec());
        Ok(self)
    }
}

pub(super) fn refused(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
