//! Description of one file, as callers get it.

use std::collections::BTreeMap;
use std::io;

use buffa_types::google::protobuf::Timestamp;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat};
use rustix::io::Errno;
use skep_wire::rpc::filesystem::{EntryInfo, FileType as WireType};

use super::FileError;
use crate::rootfs;
use crate::rootfs::{Directory, Location, Name};
use crate::sandbox::path;
use crate::sandbox::users::OwnerNames;

/// The extended attributes in which clients keep what they want to know about a file.
pub(crate) const METADATA_PREFIX: &str = "user.e2b.";

/// Describes what `path` names, without following it if it is a link.
pub(crate) fn describe(path: &str, names: &OwnerNames) -> Result<EntryInfo, FileError> {
    Location::find(path)
        .and_then(|found| describe_in(&found.directory, &found.name, path, names))
        .map_err(|source| FileError::io("stat", path, source))
}

/// Describes an entry of a directory, which is shown as `path`.
pub(crate) fn describe_in(
    directory: &Directory,
    name: &Name,
    path: &str,
    names: &OwnerNames,
) -> io::Result<EntryInfo> {
    let stat = directory.stat(name)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let link = (kind == FileType::Symlink).then(|| follow(directory, name, path));
    let shown = match &link {
        Some(Link { kind, .. }) => kind.map_or(WireType::FILE_TYPE_UNSPECIFIED, wire_type),
        None => wire_type(kind),
    };
    Ok(EntryInfo {
        name: path::base_name(path).to_owned(),
        r#type: shown.into(),
        path: path.to_owned(),
        size: stat.st_size,
        mode: stat.st_mode & 0o777,
        permissions: permissions(stat.st_mode),
        owner: names.user(stat.st_uid),
        group: names.group(stat.st_gid),
        modified_time: modified(&stat).into(),
        is_symlink: link.is_some(),
        metadata: if link.is_some() {
            BTreeMap::new()
        } else {
            metadata(directory, name)
        },
        symlink_target: link.map(|link| link.target),
    })
}

fn modified(stat: &Stat) -> Timestamp {
    let nanoseconds = i32::try_from(stat.st_mtime_nsec).unwrap_or_default();
    // A filesystem may hold times that the wire cannot; they are shown as the epoch.
    Timestamp::from_unix_checked(stat.st_mtime, nanoseconds).unwrap_or_default()
}

/// Final target of a symbolic link.
struct Link {
    target: String,
    /// `None` if there is nothing.
    kind: Option<FileType>,
}

/// Resolves a link. One that cannot be followed, or must not, is shown as if nothing were there.
fn follow(directory: &Directory, name: &Name, path: &str) -> Link {
    let resolved = || -> io::Result<Link> {
        let file = directory.open(name, OFlags::PATH, Mode::empty())?;
        let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
        Ok(Link {
            target: rootfs::name_of(&file)?,
            kind: Some(kind),
        })
    };
    resolved().unwrap_or_else(|_broken| {
        let written = directory.link_text(name).unwrap_or_default();
        let target = if written.starts_with('/') {
            path::clean(&written)
        } else {
            path::clean(&path::join(path::parent(path), &written))
        };
        Link { target, kind: None }
    })
}

fn wire_type(kind: FileType) -> WireType {
    match kind {
        FileType::RegularFile => WireType::FILE_TYPE_FILE,
        FileType::Directory => WireType::FILE_TYPE_DIRECTORY,
        FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => WireType::FILE_TYPE_UNSPECIFIED,
    }
}

/// The notation of Go's `FileMode`, which the clients show: `Lrwxrwxrwx`, `dtrwxrwxrwx`.
fn permissions(mode: u32) -> String {
    let mut text = String::with_capacity(12);
    match FileType::from_raw_mode(mode) {
        FileType::Directory => text.push('d'),
        FileType::Symlink => text.push('L'),
        FileType::Fifo => text.push('p'),
        FileType::Socket => text.push('S'),
        FileType::CharacterDevice => text.push_str("Dc"),
        FileType::BlockDevice => text.push('D'),
        FileType::RegularFile | FileType::Unknown => {}
    }
    for (bit, letter) in [(0o4000, 'u'), (0o2000, 'g'), (0o1000, 't')] {
        if mode & bit != 0 {
            text.push(letter);
        }
    }
    if text.is_empty() {
        text.push('-');
    }
    for (position, letter) in "rwxrwxrwx".chars().enumerate() {
        text.push(if mode & (0o400 >> position) != 0 {
            letter
        } else {
            '-'
        });
    }
    text
}

/// The metadata of a file. A filesystem without attributes has none.
pub(crate) fn metadata(directory: &Directory, name: &Name) -> BTreeMap<String, String> {
    let attributes = attribute_names(|buffer| directory.list_attributes(name, buffer));
    let mut metadata = BTreeMap::new();
    for attribute in attributes {
        let Some(key) = attribute.strip_prefix(METADATA_PREFIX) else {
            continue;
        };
        let mut value = vec![0; MAX_ATTRIBUTE];
        if let Ok(length) = directory.attribute(name, &attribute, value.as_mut_slice()) {
            value.truncate(length);
            metadata.insert(key.to_owned(), String::from_utf8_lossy(&value).into_owned());
        }
    }
    metadata
}

/// Larger than an attribute of ours can be; a larger one was set by somebody else.
const MAX_ATTRIBUTE: usize = 8 << 10;

/// The kernel's bound for a list of attributes.
const MAX_ATTRIBUTE_LIST: usize = 64 << 10;

/// Splits the list that the kernel gives.
pub(crate) fn attribute_names(read: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Vec<String> {
    let mut buffer = vec![0; 1 << 10];
    let length = match read(buffer.as_mut_slice()) {
        Err(Errno::RANGE) => {
            buffer.resize(MAX_ATTRIBUTE_LIST, 0);
            read(buffer.as_mut_slice())
        }
        answer => answer,
    };
    let listed = &buffer[..length.unwrap_or_default()];
    let names = listed
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    names
        .filter_map(|name| String::from_utf8(name.to_vec()).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_read_as_in_go() {
        assert_eq!(permissions(0o100_644), "-rw-r--r--");
        assert_eq!(permissions(0o040_755), "drwxr-xr-x");
        assert_eq!(permissions(0o120_777), "Lrwxrwxrwx");
        assert_eq!(permissions(0o041_777), "dtrwxrwxrwx");
        assert_eq!(permissions(0o104_755), "urwxr-xr-x");
    }

    #[test]
    fn a_link_shows_what_it_leads_to_and_a_broken_one_where_it_would() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir(at("real")).unwrap();
        std::os::unix::fs::symlink("real", at("link")).unwrap();
        std::os::unix::fs::symlink("link", at("chain")).unwrap();
        std::os::unix::fs::symlink("gone/./x", at("broken")).unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        let names = OwnerNames::default();
        let real = std::fs::canonicalize(at("real"))
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let chain = describe(&at("chain"), &names).unwrap();
        assert_eq!(chain.r#type, WireType::FILE_TYPE_DIRECTORY);
        assert_eq!((chain.symlink_target, chain.is_symlink), (Some(real), true));
        assert_eq!(chain.permissions, "Lrwxrwxrwx");
        let broken = describe(&at("broken"), &names).unwrap();
        assert_eq!(broken.r#type, WireType::FILE_TYPE_UNSPECIFIED);
        assert_eq!(broken.symlink_target, Some(at("gone/x")));
        let looping = describe(&at("loop"), &names).unwrap();
        assert_eq!(looping.r#type, WireType::FILE_TYPE_UNSPECIFIED);
    }
}
