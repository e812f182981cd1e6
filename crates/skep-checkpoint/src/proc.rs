//! Facts about processes from the host's `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Returns the fields of a process's or a thread's `status`.
pub(crate) fn status(path: &str) -> io::Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(format!("{path}/status"))?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    Ok(fields
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect())
}

/// Returns the number of a process in its own pid namespace.
pub(crate) fn inner_pid(pid: i32) -> io::Result<i32> {
    let status = status(&format!("/proc/{pid}"))?;
    let number = status
        .get("NSpid")
        .and_then(|all| all.split_whitespace().last())
        .and_then(|number| number.parse().ok());
    number.ok_or_else(|| io::Error::other("a process without a number"))
}

/// All processes of the pid namespace of a process, by their numbers on the host.
///
/// # Errors
///
/// If `/proc` cannot be read, or the process is gone.
pub fn tree_of(first: i32) -> io::Result<Vec<i32>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        all.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    of_tree(first, all)
}

/// Returns those of these processes that are in the pid namespace of `first`. A group may have others
/// in it for a moment, such as the launcher of what runs there.
///
/// # Errors
///
/// If `first` is gone.
pub fn of_tree(first: i32, processes: Vec<i32>) -> io::Result<Vec<i32>> {
    let own = fs::read_link(format!("/proc/{first}/ns/pid"))?;
    let is_own = |pid: &i32| {
        // One that has ended meanwhile is no longer there to be asked.
        fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|found| found == own)
    };
    Ok(processes.into_iter().filter(is_own).collect())
}

/// One mount of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) id: u64,
    pub(crate) root: String,
    pub(crate) device: String,
    pub(crate) point: String,
    pub(crate) kind: String,
}

/// Returns the mounts that a process sees, those below before those above them.
pub(crate) fn mounts(pid: i32) -> io::Result<Vec<Mount>> {
    let text = fs::read_to_string(format!("/proc/{pid}/mountinfo"))?;
    let mounts: Option<Vec<_>> = text.lines().map(mount).collect();
    mounts.ok_or_else(|| io::Error::other("unexpected contents of a list of mounts"))
}

fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ');
    let id = fields.next()?.parse().ok()?;
    let device = fields.nth(1)?.to_owned();
    let root = fields.next()?.to_owned();
    let point = fields.next()?.to_owned();
    let kind = after.split(' ').next()?.to_owned();
    Some(Mount {
        id,
        root,
        device,
        point,
        kind,
    })
}

/// The numbers of a process's descriptors.
pub(crate) fn descriptors(pid: i32) -> io::Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(numbers)
}

/// Mount and flags of an open descriptor.
pub(crate) fn descriptor_info(pid: &str, number: i32) -> io::Result<(u64, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}"))?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    let mount = field("mnt_id:").and_then(|value| value.parse().ok());
    let flags = field("flags:").and_then(|value| u32::from_str_radix(value, 8).ok());
    let both = mount.zip(flags);
    both.ok_or_else(|| io::Error::other("unexpected contents of a descriptor's file"))
}

/// Paths below `/proc` that lead to files a process has mapped, and its program.
pub(crate) fn mapped_files(pid: i32) -> io::Result<Vec<PathBuf>> {
    let mut paths = vec![PathBuf::from(format!("/proc/{pid}/exe"))];
    for entry in fs::read_dir(format!("/proc/{pid}/map_files"))? {
        paths.push(entry?.path());
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mounts_is_read_with_and_without_optional_fields() {
        for optional in ["", " shared:1 master:2"] {
            let line = format!("36 35 98:0 /null /dev/x rw,noatime{optional} - tmpfs none rw");
            let expected = Mount {
                id: 36,
                root: "/null".into(),
                device: "98:0".into(),
                point: "/dev/x".into(),
                kind: "tmpfs".into(),
            };
            assert_eq!(mount(&line), Some(expected));
        }
        assert_eq!(mount("36 35"), None);
    }

    #[test]
    fn this_process_has_mounts_descriptors_and_a_program() {
        let own = std::process::id().cast_signed();
        assert!(mounts(own).unwrap().iter().any(|mount| mount.point == "/"));
        let file = fs::File::open("/proc/self/status").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        assert!(descriptors(own).unwrap().contains(&number));
        assert_eq!(descriptor_info("self", number).unwrap().1 & 3, 0);
        assert!(mapped_files(own).unwrap().len() > 1);
    }
}
