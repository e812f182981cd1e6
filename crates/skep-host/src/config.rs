//! Configuration of what a host lends.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ipnet::Ipv4Net;
use skep_egress::Inspection;
use skep_types::Reserve;

use crate::{Defence, PageOut};

/// Configuration of what a host lends. Everything is decided by the caller; nothing is read from
/// the environment.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// The directory for the sandboxes' disks and for the remembered number of this installation.
    /// On a filesystem whose mounts can be id-mapped (ext4, XFS, btrfs).
    pub data_dir: PathBuf,
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
    /// Part of the file system of the disks that copies of disks leave free; `None` if they take
    /// all there is.
    pub disk_reserve: Option<Reserve>,
    /// Private ranges that sandboxes with internet may reach all the same, for example of a
    /// package mirror.
    pub allowed_ranges: Vec<Ipv4Net>,
    /// Upstream DNS resolvers for sandboxes, in the order in which they are tried.
    pub resolvers: Vec<SocketAddr>,
    /// Ports at the gateway that every sandbox may connect to, beside the one for names. Whoever listens
    /// there knows a sandbox by its address.
    pub gateway_ports: Vec<u16>,
    /// The program of egress proxies; without it no host is reached by its name.
    pub egress_proxy: Option<ProxyCommand>,
    /// Means to look into requests. Filled when the server has all of them; until then requests
    /// that rules look into are refused.
    pub inspection: Arc<OnceLock<Inspection>>,
    /// Rule for the memory of sandboxes that stand.
    pub page_out: PageOut,
    /// Defences that are left out, so that the attack suite can show what each of them holds.
    #[doc(hidden)]
    pub without: Vec<Defence>,
}

impl HostConfig {
    /// The usual settings for an installation in `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            kill_deadline: Duration::from_secs(10),
            cgroup_root: PathBuf::from("/sys/fs/cgroup"),
            disk_bytes_per_second: None,
            ready_parts: 0,
            disk_reserve: None,
            allowed_ranges: Vec::new(),
            resolvers: Vec::new(),
            gateway_ports: Vec::new(),
            egress_proxy: None,
            inspection: Arc::default(),
            page_out: PageOut::default(),
            without: Vec::new(),
        }
    }

    /// Returns true unless this defence is left out, which only controls of the attack suite do.
    pub(crate) fn has(&self, defence: Defence) -> bool {
        !self.without.contains(&defence)
    }
}

/// The program of egress proxies: an executable that, started with these arguments, calls
/// [`skep_egress::run`] with those that follow them.
#[derive(Debug, Clone)]
pub struct ProxyCommand {
    /// The file that is executed.
    pub executable: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<OsString>,
}

impl ProxyCommand {
    /// The program of this executable.
    pub fn new(executable: impl Into<PathBuf>) -> Self {
        Self {
            executable: executable.into(),
            arguments: vec![skep_egress::EGRESS_PROXY.into()],
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
