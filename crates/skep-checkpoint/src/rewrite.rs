//! Other ids, cgroups and another address for the processes of an image.
//!
//! Credentials in images are ids of the tree's user namespace, so only the map of that namespace
//! names ids of the host; cgroups are named in one file, and addresses in the list of open files. All the rest is
//! the same in every copy.

mod sockets;

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::message::{Field, Value, read, write};

/// Ids, cgroup and address of a restored tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPlace<'a> {
    /// The host's id for the tree's 0.
    pub first_id: u32,
    /// Name of its group when the image was made.
    pub old_group: &'a str,
    /// Name of its group now, below the same parents.
    pub new_group: &'a str,
    /// Its address when the image was made, and now.
    pub addresses: Option<(Ipv4Addr, Ipv4Addr)>,
}

/// Failure to rewrite an image. It must not be restored.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// A file cannot be read or written.
    #[error("cannot {operation} `{}`", path.display())]
    File {
        /// The operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file is not what CRIU writes.
    #[error("cannot understand `{}`", .0.display())]
    Content(PathBuf),
}

/// Writes the files of an image that name ids, cgroups or addresses of the host anew, in a directory that is
/// the reader's own.
///
/// # Errors
///
/// [`RewriteError`].
pub fn rewrite(directory: &Path, place: &NewPlace<'_>) -> Result<(), RewriteError> {
    let failed = |operation, path: &Path| {
        let path = path.to_owned();
        move |source| RewriteError::File {
            operation,
            path,
            source,
        }
    };
    let mut users = 0;
    for entry in fs::read_dir(directory).map_err(failed("list", directory))? {
        let path = entry.map_err(failed("list", directory))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let edit: &dyn Fn(&[u8]) -> Option<Vec<u8>> = match name {
            Some("cgroup.img") => &|message| edit_cgroups(message, place),
            Some("files.img") => match place.addresses {
                Some(addresses) => &move |message| sockets::edit(message, addresses),
                None => continue,
            },
            Some(name) if name.starts_with("userns-") => {
                users += 1;
                &|message| edit_users(message, place.first_id)
            }
            _ => continue,
        };
        let image = fs::read(&path).map_err(failed("read", &path))?;
        let edited =
            edit_entries(&image, edit).ok_or_else(|| RewriteError::Content(path.clone()))?;
        // Never in place: the original may be the same file.
        let new = path.with_extension("new");
        fs::write(&new, edited).map_err(failed("write", &new))?;
        fs::rename(&new, &path).map_err(failed("rename", &new))?;
    }
    if users == 0 {
        return Err(RewriteError::Content(directory.join("userns-*.img")));
    }
    Ok(())
}

/// Edits the messages of an image: two numbers that say what it is, then each with its length.
fn edit_entries(image: &[u8], edit: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    const HEADER: usize = 8;
    let (header, mut rest) = image.split_at_checked(HEADER)?;
    let mut edited = header.to_vec();
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (message, after) = after.split_at_checked(length)?;
        let message = edit(message)?;
        edited.extend(u32::try_from(message.len()).ok()?.to_le_bytes());
        edited.extend(message);
        rest = after;
    }
    Some(edited)
}

/// `userns_entry`: `uid_map = 1`, `gid_map = 2`, each an extent with `first = 1`,
/// `lower_first = 2`, `count = 3`.
fn edit_users(message: &[u8], first_id: u32) -> Option<Vec<u8>> {
    let mut fields = read(message)?;
    let mut maps = 0;
    for field in &mut fields {
        let (1 | 2, Value::Bytes(extent)) = (field.number, &mut field.value) else {
            continue;
        };
        let mut parts = read(extent)?;
        // One range that begins with 0 is all that a sandbox has.
        let number = |parts: &[Field], wanted: u64| {
            let part = parts.iter().find(|part| part.number == wanted)?;
            match part.value {
                Value::Varint(value) => Some(value),
                Value::Fixed64(_) | Value::Bytes(_) | Value::Fixed32(_) => None,
            }
        };
        if number(&parts, 1)? != 0 {
            return None;
        }
        let lower = parts.iter_mut().find(|part| part.number == 2)?;
        lower.value = Value::Varint(u64::from(first_id));
        *extent = write(&parts);
        maps += 1;
    }
    (maps == 2).then(|| write(&fields))
}

/// `cgroup_entry`: `sets = 1` { `id = 1`, `ctls = 2` { `name = 1`, `path = 2`, `cgns_prefix = 3` } },
/// `controllers = 2` { `cnames = 1`, `dirs = 2` { `dir_name = 1`, `children = 2`, … } }.
fn edit_cgroups(message: &[u8], place: &NewPlace<'_>) -> Option<Vec<u8>> {
    edit_nested(message, &mut |number, bytes| match number {
        1 => edit_nested(bytes, &mut |number, bytes| match number {
            2 => edit_paths(bytes, place),
            _ => Some(bytes.to_vec()),
        }),
        2 => edit_nested(bytes, &mut |number, bytes| match number {
            2 => edit_directory(bytes, place),
            _ => Some(bytes.to_vec()),
        }),
        _ => Some(bytes.to_vec()),
    })
}

fn edit_paths(message: &[u8], place: &NewPlace<'_>) -> Option<Vec<u8>> {
    let mut fields = read(message)?;
    let path = fields.iter().find_map(|field| match &field.value {
        Value::Bytes(path) if field.number == 2 => Some(path.clone()),
        Value::Bytes(_) | Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32(_) => None,
    })?;
    for field in &mut fields {
        match (field.number, &mut field.value) {
            (2, Value::Bytes(path)) => *path = renamed(path, place)?,
            // Number of bytes of the path that are above the tree's own namespace.
            (3, Value::Varint(length)) => {
                let above = path.get(..usize::try_from(*length).ok()?)?;
                *length = renamed(above, place)?.len() as u64;
            }
            _ => {}
        }
    }
    Some(write(&fields))
}

fn edit_directory(message: &[u8], place: &NewPlace<'_>) -> Option<Vec<u8>> {
    edit_nested(message, &mut |number, bytes| match number {
        1 => renamed(bytes, place),
        2 => edit_directory(bytes, place),
        _ => Some(bytes.to_vec()),
    })
}

/// Edit of one field, by its number and content; `None` if it is not what it should be.
type EditField<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Option<Vec<u8>>;

fn edit_nested(message: &[u8], edit: EditField<'_>) -> Option<Vec<u8>> {
    let mut fields = read(message)?;
    for field in &mut fields {
        if let Value::Bytes(bytes) = &mut field.value {
            *bytes = edit(field.number, bytes)?;
        }
    }
    Some(write(&fields))
}

/// A path of cgroups in which the component of the old group is the new one.
fn renamed(path: &[u8], place: &NewPlace<'_>) -> Option<Vec<u8>> {
    let path = str::from_utf8(path).ok()?;
    let components = path.split('/').map(|component| {
        if component == place.old_group {
            place.new_group
        } else {
            component
        }
    });
    Some(components.collect::<Vec<_>>().join("/").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(number: u64, content: impl Into<Vec<u8>>) -> Field {
        let value = Value::Bytes(content.into());
        Field { number, value }
    }

    fn varint(number: u64, value: u64) -> Field {
        let value = Value::Varint(value);
        Field { number, value }
    }

    fn image(message: &[u8]) -> Vec<u8> {
        let mut image = vec![1, 2, 3, 4, 5, 6, 7, 8];
        image.extend(u32::try_from(message.len()).unwrap().to_le_bytes());
        image.extend(message);
        image
    }

    fn extent(lower: u64) -> Vec<u8> {
        write(&[varint(1, 0), varint(2, lower), varint(3, 65_536)])
    }

    fn place() -> NewPlace<'static> {
        NewPlace {
            first_id: 900_000,
            old_group: "iold",
            new_group: "inewer",
            addresses: None,
        }
    }

    #[test]
    fn ids_and_groups_are_those_of_the_new_place_and_the_rest_stays() {
        let directory = tempfile::tempdir().unwrap();
        let users = |lower| {
            let map = [bytes(1, extent(lower)), bytes(2, extent(lower))];
            image(&write(&[&map[..], &[varint(9, 5)]].concat()))
        };
        let cgroups = |name: &str| {
            let top = format!("/skep-0/{name}");
            let above = varint(3, top.len() as u64);
            let control = write(&[bytes(1, "memory"), bytes(2, format!("{top}/work")), above]);
            let set = write(&[varint(1, 1), bytes(2, control)]);
            let child = write(&[bytes(1, "work"), bytes(3, "property")]);
            let parent = write(&[bytes(1, format!("/skep-0/{name}")), bytes(2, child)]);
            let controller = write(&[bytes(1, "memory"), bytes(2, parent)]);
            image(&write(&[bytes(1, set), bytes(2, controller)]))
        };
        let path = |name: &str| directory.path().join(name);
        fs::write(path("userns-12.img"), users(100_000)).unwrap();
        fs::write(path("cgroup.img"), cgroups("iold")).unwrap();
        fs::write(path("core-1.img"), "iold").unwrap();
        rewrite(directory.path(), &place()).unwrap();
        assert_eq!(fs::read(path("userns-12.img")).unwrap(), users(900_000));
        assert_eq!(fs::read(path("cgroup.img")).unwrap(), cgroups("inewer"));
        assert_eq!(fs::read(path("core-1.img")).unwrap(), b"iold");
    }

    #[test]
    fn an_image_without_a_map_of_one_range_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        rewrite(directory.path(), &place()).unwrap_err();
        let odd = write(&[varint(1, 5), varint(2, 1), varint(3, 1)]);
        for message in [
            write(&[bytes(1, extent(1))]),
            write(&[bytes(1, odd.clone()), bytes(2, odd)]),
            vec![0xff],
        ] {
            fs::write(directory.path().join("userns-1.img"), image(&message)).unwrap();
            rewrite(directory.path(), &place()).unwrap_err();
        }
    }
}
