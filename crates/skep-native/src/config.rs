//! Configuration of the native backend.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::Ipv4Net;
use skep_launch::Launcher;

use crate::Defence;

/// Configuration of the native backend. Everything is decided by the caller; nothing is read from
/// the environment.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// The directory for the sandboxes' disks and for the remembered number of this installation.
    /// On a filesystem whose mounts can be id-mapped (ext4, XFS, btrfs).
    pub data_dir: PathBuf,
    /// The executable and arguments that start the launcher.
    pub launcher: Launcher,
    /// The executable that is the first process of every sandbox.
    pub agent: PathBuf,
    /// Arguments of the agent, the zeroth included; `--config-fd`, `--ready-fd`, `--log-fd`,
    /// `--work-cgroup-fds`, `--kill-count-fd` and `--kernel-cgroup-fds` with their values are
    /// added.
    pub agent_arguments: Vec<String>,
    /// Time limit for an agent to start listening.
    pub agent_deadline: Duration,
    /// Time limit for the processes of a sandbox to die. Only one that waits for broken hardware
    /// takes longer than milliseconds.
    pub kill_deadline: Duration,
    /// Mount point of the cgroup hierarchies, usually `/sys/fs/cgroup`.
    pub cgroup_root: PathBuf,
    /// Limit on one sandbox's reads from the host's disk, and on its writes to it; `None` is no
    /// limit. v1 does not limit what is written through the cache.
    pub disk_bytes_per_second: Option<u64>,
    /// Number of parts of each kind kept ready for the next sandboxes: mounted disks of a size that
    /// is in demand, and cgroups with limits that are.
    pub ready_parts: usize,
    /// Private ranges that sandboxes with internet may reach all the same, for example of a
    /// package mirror.
    pub allowed_ranges: Vec<Ipv4Net>,
    /// Upstream DNS resolvers for sandboxes, in the order in which they are tried.
    pub resolvers: Vec<SocketAddr>,
    /// Settings for forking kernels into sandboxes; with `None`, kernels are started there instead.
    pub zygotes: Option<ZygoteConfig>,
    /// Defences that are left out, so that the attack suite can show what each of them holds.
    #[doc(hidden)]
    pub without: Vec<Defence>,
}

impl NativeConfig {
    /// The usual settings for an installation in `data_dir` that runs `executable` both as the
    /// launcher (`launch`) and as the agent (`agent`).
    pub fn new(data_dir: impl Into<PathBuf>, executable: impl Into<PathBuf>) -> Self {
        let executable = executable.into();
        Self {
            data_dir: data_dir.into(),
            launcher: Launcher::new(&executable, ["launch"]),
            agent: executable,
            agent_arguments: vec!["skep".into(), "agent".into()],
            agent_deadline: Duration::from_secs(10),
            kill_deadline: Duration::from_secs(10),
            cgroup_root: PathBuf::from("/sys/fs/cgroup"),
            disk_bytes_per_second: None,
            ready_parts: 0,
            allowed_ranges: Vec::new(),
            resolvers: Vec::new(),
            zygotes: None,
            without: Vec::new(),
        }
    }

    /// Returns true unless this defence is left out, which only controls of the attack suite do.
    pub(crate) fn has(&self, defence: Defence) -> bool {
        !self.without.contains(&defence)
    }
}

/// Settings for the fork servers of kernels.
#[derive(Debug, Clone)]
pub struct ZygoteConfig {
    /// Limit on the number of zygotes, for all templates and tenants together; up to
    /// [`Self::MOST`]. When there are so many, the one goes that was used longest ago and has no
    /// sandboxes; if all have some, further sandboxes start their kernels themselves.
    pub most: u16,
    /// Number of sandboxes that one zygote serves. It is born with ids for so many.
    pub sandboxes: u16,
    /// Age at which a zygote gets no new sandboxes any more: all kernels forked from one share
    /// their address layout and their hash seed.
    pub rotate_after: Duration,
    /// Time after which a zygote that answers no request is ended. On a busy host a fork waits
    /// for others, so this is longer than anybody waits for one.
    pub give_up_after: Duration,
    /// Time that a zygote without sandboxes is kept.
    pub idle_after: Duration,
}

impl ZygoteConfig {
    /// More would share the host's ids so that each serves hardly any sandbox.
    pub const MOST: u16 = 64;
}

impl Default for ZygoteConfig {
    fn default() -> Self {
        Self {
            most: 8,
            sandboxes: 127,
            rotate_after: Duration::from_secs(3600),
            give_up_after: Duration::from_secs(30),
            idle_after: Duration::from_mins(30),
        }
    }
}

/// The resolvers that a file like `/etc/resolv.conf` names.
pub fn resolvers_in(text: &str) -> Vec<SocketAddr> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .filter_map(|address| address.trim().parse().ok())
        .map(|address| SocketAddr::new(address, crate::dns::PORT))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_resolvers_are_read() {
        let text = "# made by hand\nsearch example.test\nnameserver 192.0.2.53\nnameserver ::1\nnameserver nonsense\n";
        let expected: [SocketAddr; 2] = [
            "192.0.2.53:53".parse().unwrap(),
            "[::1]:53".parse().unwrap(),
        ];
        assert_eq!(resolvers_in(text), expected);
    }
}
