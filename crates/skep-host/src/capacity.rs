//! Resources that the host has left for sandboxes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{Resource, getrlimit};
use skep_types::{Capacity, HostCapacity};

/// Every group that can limit memory has one of so many numbers, on the whole host.
const MEMORY_CGROUPS: u64 = 65_535;
/// Number of free cgroups above which dead ones need not be told from living ones.
const PLENTY_OF_CGROUPS: u64 = MEMORY_CGROUPS / 4;

/// Reads the host's resources for sandboxes in `data_dir`, slots excepted. Blocks for as long as
/// the file system takes to say how full it is.
///
/// # Errors
///
/// If the host does not say.
pub fn host_capacity(data_dir: &Path, cgroup_root: &Path) -> io::Result<HostCapacity> {
    let disk = rustix::fs::statvfs(data_dir)?;
    Ok(HostCapacity {
        memory: memory(Path::new("/proc/meminfo"), cgroup_root)?,
        disk: Capacity {
            total: disk.f_blocks * disk.f_frsize,
            available: disk.f_bavail * disk.f_frsize,
        },
        inodes: Capacity {
            total: disk.f_files,
            available: disk.f_favail,
        },
        processes: processes(cgroup_root)?,
        open_files: open_files()?,
        cgroups: memory_cgroups(cgroup_root)?,
        slots: Capacity::default(),
    })
}

/// Memory the kernel could give out without reclaiming any from others: that of the host, or that
/// of the cgroup the server itself is confined to, whichever is less.
fn memory(meminfo: &Path, cgroup_root: &Path) -> io::Result<Capacity> {
    let host = host_memory(meminfo)?;
    let groups = [
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
        ),
        ("memory.max", "memory.current", "memory.stat"),
    ]
    .map(|(limit, used, statistics)| {
        let number = |name| number_in(&cgroup_root.join(name));
        let limit = number(limit).filter(|limit| *limit < host.total)?;
        // Page cache that nobody has used lately is given back when it is asked for.
        let text = fs::read_to_string(cgroup_root.join(statistics)).unwrap_or_default();
        let names = ["total_inactive_file ", "inactive_file "];
        let cache = names.iter().find_map(|name| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok())
        });
        let used = number(used)?.saturating_sub(cache.unwrap_or_default());
        Some((limit, limit.saturating_sub(used)))
    });
    Ok(least(host, groups.into_iter().flatten()))
}

/// Available memory of the host as a whole, without regard to cgroups.
pub(crate) fn host_memory(meminfo: &Path) -> io::Result<Capacity> {
    let text = fs::read_to_string(meminfo)?;
    let kibibytes = |name: &str| {
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = value.and_then(|value| value.trim().strip_suffix(" kB"));
        number.and_then(|number| number.parse::<u64>().ok())
    };
    let unknown = || io::Error::other("unexpected contents of meminfo");
    Ok(Capacity {
        total: kibibytes("MemTotal").ok_or_else(unknown)? << 10,
        available: kibibytes("MemAvailable").ok_or_else(unknown)? << 10,
    })
}

/// Processes and threads: of the host, or of the group that the server itself is held in.
fn processes(cgroup_root: &Path) -> io::Result<Capacity> {
    let text = fs::read_to_string("/proc/loadavg")?;
    let running = text.split(' ').nth(3).and_then(|pair| pair.split_once('/'));
    let used: u64 = running
        .and_then(|(_, all)| all.parse().ok())
        .ok_or_else(|| io::Error::other("unexpected contents of loadavg"))?;
    let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"]
        .iter()
        .filter_map(|path| number_in(Path::new(path)));
    let total = limits.min().unwrap_or_default();
    let host = Capacity {
        total,
        available: total.saturating_sub(used),
    };
    let groups = ["pids/pids", "pids"].map(|name| {
        let number = |what| number_in(&cgroup_root.join(format!("{name}.{what}")));
        let limit = number("max")?;
        Some((limit, limit.saturating_sub(number("current")?)))
    });
    Ok(least(host, groups.into_iter().flatten()))
}

fn open_files() -> io::Result<Capacity> {
    let total = getrlimit(Resource::Nofile).current.unwrap_or_default();
    let directory = "/proc/self/fd";
    // Since Linux 6.2 the size of the directory is the number of its entries.
    let used = match fs::metadata(directory)?.len() {
        0 => u64::try_from(fs::read_dir(directory)?.count()).map_err(io::Error::other)?,
        count => count,
    };
    Ok(Capacity {
        total,
        available: total.saturating_sub(used),
    })
}

/// Numbers of memory cgroups. A group that was removed gives its number back, but is counted with
/// the others for as long as a page that it was the first to read stays in memory: for hours, if
/// the page is a template's. Emptying it would free it and take the template out of memory. So
/// when there seem to be many, those that live are counted.
fn memory_cgroups(cgroup_root: &Path) -> io::Result<Capacity> {
    let text = fs::read_to_string("/proc/cgroups")?;
    let line = text.lines().find_map(|line| line.strip_prefix("memory"));
    let used = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    // A kernel may not list the controllers of the second version here.
    let Some(used) = used else {
        return Ok(Capacity::default());
    };
    numbers_left(used, || living_groups(cgroup_root))
}

/// Memory cgroups left when `used` are counted, dead ones included. Only if those are few is
/// `living` called, which counts the others by walking the tree.
fn numbers_left(used: u64, living: impl FnOnce() -> io::Result<u64>) -> io::Result<Capacity> {
    let left = |used| MEMORY_CGROUPS.saturating_sub(used);
    let available = if left(used) >= PLENTY_OF_CGROUPS {
        left(used)
    } else {
        left(living()?.min(used))
    };
    Ok(Capacity {
        total: MEMORY_CGROUPS,
        available,
    })
}

/// Counts the cgroups that exist on the host.
fn living_groups(cgroup_root: &Path) -> io::Result<u64> {
    match fs::read_to_string(cgroup_root.join("cgroup.stat")) {
        Ok(text) => {
            let mut lines = text.lines();
            let count = lines
                .find_map(|line| line.strip_prefix("nr_descendants "))
                .and_then(|count| count.parse::<u64>().ok());
            count
                .map(|below| below + 1)
                .ok_or_else(|| io::Error::other("unexpected contents of cgroup.stat"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            directories_in(&cgroup_root.join("memory")).map(|below| below + 1)
        }
        Err(error) => Err(error),
    }
}

/// Counts the directories below a directory of cgroupfs, at any depth. Reads only those that have
/// some: a directory has a link from each directory in it, and two more.
fn directories_in(directory: &Path) -> io::Result<u64> {
    let mut count = 0;
    let mut unread = vec![directory.to_owned()];
    while let Some(directory) = unread.pop() {
        // One that is removed meanwhile has none.
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                continue;
            }
            count += 1;
            if entry.metadata().is_ok_and(|found| found.nlink() != 2) {
                unread.push(entry.path());
            }
        }
    }
    Ok(count)
}

/// The tightest of the host and the groups around the server.
fn least(host: Capacity, groups: impl Iterator<Item = (u64, u64)>) -> Capacity {
    groups.fold(host, |least, (total, available)| Capacity {
        total: least.total.min(total),
        available: least.available.min(available),
    })
}

/// The number in a file; `None` if it is not there, or says that there is no limit.
fn number_in(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_what_it_has() {
        let directory = tempfile::tempdir().unwrap();
        let host = host_capacity(directory.path(), Path::new("/sys/fs/cgroup")).unwrap();
        for capacity in [host.memory, host.disk, host.processes, host.open_files] {
            assert!(capacity.total > 0, "{host:?}");
            assert!(capacity.available <= capacity.total, "{host:?}");
        }
    }

    #[test]
    fn dead_groups_hold_no_numbers_and_the_living_are_counted_only_if_it_matters() {
        let uncounted = || -> io::Result<u64> { panic!("there are plenty") };
        let left = numbers_left(1000, uncounted).unwrap();
        assert_eq!((left.total, left.available), (65_535, 64_535));
        let left = numbers_left(65_000, || Ok(200)).unwrap();
        assert_eq!(left.available, 65_335);
        // Groups that came since then are not dead ones.
        let left = numbers_left(65_000, || Ok(65_100)).unwrap();
        assert_eq!(left.available, 535);
        assert_eq!(numbers_left(70_000, || Ok(65_535)).unwrap().available, 0);
    }

    #[test]
    fn groups_within_groups_are_counted_and_removed_ones_are_not() {
        let root = Path::new("/sys/fs/cgroup");
        let v1 = root.join("memory");
        let parent = if v1.exists() { v1 } else { root.to_owned() };
        let parent = parent.join(format!("skep-test-count-{}", std::process::id()));
        let groups = ["", "one", "one/below", "two"].map(|name| parent.join(name));
        for group in &groups {
            fs::create_dir(group).unwrap();
        }
        let before = directories_in(&parent).unwrap();
        fs::remove_dir(groups[2].as_path()).unwrap();
        let after = directories_in(&parent).unwrap();
        for group in [&groups[3], &groups[1], &groups[0]] {
            fs::remove_dir(group).unwrap();
        }
        assert_eq!((before, after), (3, 2));
        assert!(living_groups(root).unwrap() > 0);
    }

    #[test]
    fn a_server_in_a_container_has_no_more_than_the_container() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write(
            "meminfo",
            "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    800 kB\n",
        );
        let meminfo = directory.path().join("meminfo");
        let found = || memory(&meminfo, directory.path()).unwrap();
        let kibibytes = |total: u64, available: u64| Capacity {
            total: total << 10,
            available: available << 10,
        };
        assert_eq!(found(), kibibytes(1000, 800));
        write("memory.max", "max\n");
        assert_eq!(found(), kibibytes(1000, 800));
        write("memory.max", "512000\n");
        write("memory.current", "409600\n");
        write("memory.stat", "anon 1\ninactive_file 102400\n");
        assert_eq!(found(), kibibytes(500, 200));
    }
}
