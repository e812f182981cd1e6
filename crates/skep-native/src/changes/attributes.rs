//! Extended attributes of what a sandbox has changed.

use std::ffi::CStr;
use std::io;
use std::path::Path;

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr};
use rustix::io::Errno;

/// Most bytes of names or of one value, by the kernel's own limit.
const LONGEST: usize = 64 << 10;

const CAPABILITY: &str = "security.capability";
const LISTS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];
/// An overlay's mark of a directory that hides what is below it.
const OPAQUE: &str = "trusted.overlay.opaque";

/// Length of capabilities without the id of a root user, which is what a layer has.
const CAPABILITY_LENGTH: usize = 20;
/// Revision of those without the id, in the place of the one with it.
const CAPABILITY_REVISION: u8 = 2;

/// Copies the attributes that a layer may have, with the ids that it has on the disk.
pub(super) fn copy(from: &Path, to: &Path, first_user: u32, first_group: u32) -> io::Result<()> {
    let mut names = vec![0; LONGEST];
    let length = match llistxattr(from, &mut names) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for name in names[..length].split_inclusive(|byte| *byte == 0) {
        let Some(name) = CStr::from_bytes_with_nul(name)
            .ok()
            .and_then(|name| name.to_str().ok())
        else {
            continue;
        };
        let mut value = vec![0; LONGEST];
        let length = match lgetxattr(from, name, &mut value) {
            Ok(length) => length,
            Err(Errno::NODATA) => continue,
            Err(error) => return Err(error.into()),
        };
        value.truncate(length);
        if let Some(value) = of_layer(name, value, first_user, first_group) {
            lsetxattr(to, name, &value, XattrFlags::empty())?;
        }
    }
    Ok(())
}

/// The value that an attribute has in a layer; `None` if it has no place there.
fn of_layer(name: &str, mut value: Vec<u8>, first_user: u32, first_group: u32) -> Option<Vec<u8>> {
    // The other attributes of an overlay are about these very layers, and those of this name that
    // users can write are lies.
    let is_of_user = name.starts_with("user.") && !name.starts_with("user.overlay.");
    if is_of_user || name == OPAQUE {
        return Some(value);
    }
    if name == CAPABILITY {
        if value.len() > CAPABILITY_LENGTH {
            value.truncate(CAPABILITY_LENGTH);
            value[3] = CAPABILITY_REVISION;
        }
        return Some(value);
    }
    if LISTS.contains(&name) {
        // A version of four bytes, then tag, rights and id of each entry.
        for entry in value.get_mut(4..)?.chunks_exact_mut(8) {
            let first = match u16::from_le_bytes([entry[0], entry[1]]) {
                0x02 => first_user,
                0x08 => first_group,
                _ => continue,
            };
            let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
            entry[4..8].copy_from_slice(&id.checked_sub(first)?.to_le_bytes());
        }
        return Some(value);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_lose_the_root_user_of_the_sandbox() {
        let mut value = vec![7; 24];
        value[..4].copy_from_slice(&[1, 0, 0, 3]);
        let kept = of_layer(CAPABILITY, value, 0, 0).unwrap();
        assert_eq!((kept.len(), &kept[..4]), (20, &[1, 0, 0, 2][..]));
    }

    #[test]
    fn ids_in_lists_are_those_on_the_disk() {
        let mut value = vec![2, 0, 0, 0];
        value.extend([2, 0, 7, 0]);
        value.extend(101_000_u32.to_le_bytes());
        let kept = of_layer(LISTS[0], value, 100_000, 0).unwrap();
        assert_eq!(kept[8..], 1000_u32.to_le_bytes());
    }

    #[test]
    fn marks_of_an_overlay_are_not_taken_from_users() {
        assert_eq!(of_layer("user.overlay.opaque", vec![b'y'], 0, 0), None);
        assert_eq!(of_layer("trusted.overlay.redirect", vec![], 0, 0), None);
        assert_eq!(of_layer(OPAQUE, vec![b'y'], 0, 0), Some(vec![b'y']));
        assert_eq!(of_layer("user.mine", vec![1], 0, 0), Some(vec![1]));
    }
}
