//! The kernel and what is installed beside it.

use std::fs;
use std::path::Path;

use rustix::thread::CapabilitySet;

use skep_types::Check;

use super::ask_program;
use crate::cgroup::Cgroups;
use crate::config::HostConfig;
use crate::instance;

/// The first kernel with overlays on id-mapped layers.
const OLDEST_KERNEL: (u32, u32) = (5, 19);

pub(super) fn kernel() -> Check {
    let name = "kernel";
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    match version(&release) {
        Some(version) if version >= OLDEST_KERNEL => Check::good(name, release),
        Some(_) => Check::missing(
            name,
            format!("{release} cannot lay an overlay over id-mapped layers"),
            "use Linux 5.19 or newer",
        ),
        None => Check::limited(name, format!("`{release}` is no version I know"), None),
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

pub(super) fn privileges() -> Check {
    let name = "privileges";
    let held = rustix::thread::capabilities(None)
        .map(|sets| sets.effective)
        .unwrap_or(CapabilitySet::empty());
    let needed = [
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::SETUID, "CAP_SETUID"),
        (CapabilitySet::SETGID, "CAP_SETGID"),
        (CapabilitySet::CHOWN, "CAP_CHOWN"),
        (CapabilitySet::MKNOD, "CAP_MKNOD"),
        (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE"),
        (CapabilitySet::DAC_OVERRIDE, "CAP_DAC_OVERRIDE"),
        (CapabilitySet::KILL, "CAP_KILL"),
    ];
    let missing: Vec<_> = needed
        .iter()
        .filter(|(capability, _)| !held.contains(*capability))
        .map(|(_, name)| *name)
        .collect();
    if !missing.is_empty() {
        return Check::missing(
            name,
            format!("without {}", missing.join(", ")),
            "run as root, outside of containers that take capabilities away",
        );
    }
    if held.contains(CapabilitySet::SYS_RESOURCE) {
        Check::good(name, "root with every capability that is needed")
    } else {
        Check::limited(
            name,
            "without CAP_SYS_RESOURCE, sandboxes cannot open more files than this process may",
            "raise the limit of open files of the service (LimitNOFILE)",
        )
    }
}

pub(super) fn user_namespaces() -> Check {
    let name = "user namespaces";
    let limit = fs::read_to_string("/proc/sys/user/max_user_namespaces");
    match limit.as_deref().map(str::trim) {
        Ok("0") => Check::missing(
            name,
            "switched off",
            "sysctl user.max_user_namespaces=10000",
        ),
        Ok(limit) => Check::good(name, format!("up to {limit}")),
        Err(_) => Check::missing(
            name,
            "the kernel was built without them",
            "use a kernel with CONFIG_USER_NS",
        ),
    }
}

pub(super) fn user_ids() -> Check {
    let name = "user ids";
    let ours = instance::all_ids();
    let files = ["/etc/subuid", "/etc/subgid"];
    let taken: Vec<_> = files
        .iter()
        .flat_map(|file| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let taken: Vec<_> = ranges(&text)
                .filter(|(_, first, last)| *first <= *ours.end() && *last >= *ours.start())
                .map(|(user, first, last)| format!("{user} has {first}-{last} in {file}"))
                .collect();
            taken
        })
        .collect();
    if taken.is_empty() {
        return Check::good(name, format!("{}-{} are free", ours.start(), ours.end()));
    }
    Check::limited(
        name,
        taken.join("; "),
        "give those users ranges elsewhere: a sandbox could have the same ids as their containers",
    )
}

/// The lines of a file like `/etc/subuid`: user, first and last id.
fn ranges(text: &str) -> impl Iterator<Item = (&str, u32, u32)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let user = fields.next()?;
        let first: u32 = fields.next()?.trim().parse().ok()?;
        let count: u32 = fields.next()?.trim().parse().ok()?;
        Some((user, first, first.saturating_add(count.checked_sub(1)?)))
    })
}

pub(super) fn cgroups(config: &HostConfig) -> Check {
    let name = "cgroups";
    let parent = format!("skep-probe-{}", std::process::id());
    let opened = Cgroups::open(&config.cgroup_root, &parent);
    match &opened {
        Ok(cgroups) => {
            if let Err(error) = cgroups.remove_parent() {
                return Check::limited(name, format!("a group is left: {error}"), None);
            }
            match cgroups {
                Cgroups::V2(_) => Check::good(name, "v2: memory, pids, processor time, disk speed"),
                Cgroups::V1(_) => Check::limited(
                    name,
                    "v1: memory, pids, processor time, disk speed; what a sandbox writes to disk \
                     through the cache is not slowed down",
                    "boot with systemd.unified_cgroup_hierarchy=1 for v2",
                ),
            }
        }
        Err(error) => Check::missing(
            name,
            error.to_string(),
            "mount the cgroup hierarchies at /sys/fs/cgroup with memory, pids and cpu",
        ),
    }
}

pub(super) fn crash_handler() -> Check {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    crash_handler_of(pattern.trim())
}

/// Checks where the kernel sends crashes of sandboxes. A sandbox's limit on core dumps keeps the
/// kernel from writing a file and from starting a program, but not from connecting to a socket
/// (since Linux 6.16).
fn crash_handler_of(pattern: &str) -> Check {
    let name = "crash handler";
    if pattern.starts_with('@') {
        return Check::limited(
            name,
            format!("crashes in sandboxes are sent to `{pattern}`, whatever their limit says"),
            "sysctl kernel.core_pattern=core",
        );
    }
    Check::good(name, format!("`{pattern}` hears of no crash in a sandbox"))
}

/// Checks that the kernel does not list processes in its log when a sandbox is out of memory.
pub(super) fn kernel_log() -> Check {
    let name = "kernel log";
    let setting = fs::read_to_string("/proc/sys/vm/oom_dump_tasks");
    match setting.as_deref().map(str::trim) {
        Ok("0") => Check::good(name, "does not list the processes of sandboxes"),
        Ok(_) => Check::good(
            name,
            "lists processes of sandboxes that are out of memory; the server switches that off",
        ),
        Err(error) => Check::limited(
            name,
            format!("cannot tell if it lists processes of sandboxes: {error}"),
            "sysctl vm.oom_dump_tasks=0",
        ),
    }
}

pub(super) fn disk_tool() -> Check {
    let name = "disk images";
    if !Path::new("/dev/loop-control").exists() {
        return Check::missing(name, "no loop devices", "modprobe loop");
    }
    match ask_program("mkfs.ext4", &["-V"]) {
        Ok(Some(version)) => Check::good(name, format!("loop devices and {version}")),
        Ok(None) => Check::missing(name, "no mkfs.ext4", "install the package e2fsprogs"),
        Err(error) => Check::missing(name, error.to_string(), "install the package e2fsprogs"),
    }
}

/// Quotas are not used: a disk image holds a sandbox on every filesystem. They are told
/// because they would be cheaper.
pub(super) fn disk_quota(data_dir: &Path) -> Check {
    let name = "project quota";
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = mounts
        .lines()
        .filter_map(mount_point_and_options)
        .filter(|(point, _)| data_dir.starts_with(point))
        .max_by_key(|(point, _)| point.len());
    match mount {
        Some((point, options)) if options.split(',').any(|option| option == "prjquota") => {
            Check::good(
                name,
                format!("on {point}, not needed: sandboxes have disk images"),
            )
        }
        _ => Check::good(name, "none, not needed: sandboxes have disk images"),
    }
}

/// Mount point and filesystem options of a line of `mountinfo`.
fn mount_point_and_options(line: &str) -> Option<(&str, &str)> {
    let (mount, filesystem) = line.split_once(" - ")?;
    Some((mount.split(' ').nth(4)?, filesystem.split(' ').nth(2)?))
}

/// Tells where the memory of paused sandboxes can go. A host without swap lacks nothing.
pub(super) fn page_out() -> Check {
    page_out_to(&fs::read_to_string("/proc/swaps").unwrap_or_default())
}

fn page_out_to(swaps: &str) -> Check {
    let name = "swap for paused sandboxes";
    let swaps: Vec<_> = (swaps.lines().skip(1))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    if swaps.is_empty() {
        return Check::good(
            name,
            "none: they stay in memory until they are written to the disk (zram would take them)",
        );
    }
    Check::good(name, format!("{} takes their memory", swaps.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_for_memory_of_paused_sandboxes_is_named() {
        let heading = "Filename Type Size Used Priority\n";
        let said = |swaps: &str| page_out_to(&format!("{heading}{swaps}")).detail;
        assert!(said("").starts_with("none"));
        let zram = "/dev/zram0 partition 1048572 0 100\n";
        assert_eq!(said(zram), "/dev/zram0 takes their memory");
    }

    #[test]
    fn a_kernels_version_is_read_from_its_release() {
        assert_eq!(version("6.18.44-fc-v445"), Some((6, 18)));
        assert_eq!(version("5.4-rc1"), Some((5, 4)));
        assert_eq!(version("unknown"), None);
    }

    #[test]
    fn a_crash_handler_that_no_limit_stops_is_named() {
        use skep_types::CheckStatus;
        let status = |pattern| crash_handler_of(pattern).status;
        assert_eq!(status("core"), CheckStatus::Good);
        assert_eq!(status("|/usr/share/apport/apport %p"), CheckStatus::Good);
        assert_eq!(status("@/run/crashes.socket"), CheckStatus::Limited);
        assert_eq!(status("@@/run/crashes.socket"), CheckStatus::Limited);
    }

    #[test]
    fn ranges_of_other_users_are_read() {
        let text = "alice:100000:65536\nbroken\nbob:300000000:1\nempty:5:0\n";
        let read: Vec<_> = ranges(text).collect();
        assert_eq!(
            read,
            [
                ("alice", 100_000, 165_535),
                ("bob", 300_000_000, 300_000_000)
            ]
        );
    }

    #[test]
    fn a_mount_is_read_with_the_options_of_its_filesystem() {
        let line = "26 1 8:1 / /var rw,relatime shared:1 - xfs /dev/sda1 rw,prjquota";
        assert_eq!(mount_point_and_options(line), Some(("/var", "rw,prjquota")));
    }
}
