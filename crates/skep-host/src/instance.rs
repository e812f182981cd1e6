//! Several servers on one host, each with a number of its own.
//!
//! The number decides every name and range that a server uses on the host, so two servers
//! cannot get into each other's way, and what is left by one is found by the next.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ipnet::Ipv4Net;
use rustix::fs::OFlags;

use crate::pool::PREFIX;

/// Number of servers that fit on one host.
pub(crate) const INSTANCES: u8 = 32;
/// Directory in which instance numbers are claimed; on a tmpfs, so that claims end with a reboot.
pub(crate) const CLAIMS: &str = "/run/skep";
/// File in which an installation remembers its number, below its data directory.
pub(crate) const REMEMBERED: &str = "instance";
/// The range that is set aside for tests of network equipment, and so used by nobody.
const ADDRESSES: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const ADDRESSES_PREFIX: u8 = 15;
/// A thirty-second of it for each server.
const SUBNET_PREFIX: u8 = 20;
/// The host's first user id that an egress proxy may have: each slot has one.
const FIRST_PROXY_ID: u32 = 0x0ff0_0000;
/// The host's first user id that what sends a sandbox's requests may have: each slot has one.
const FIRST_SENDER_ID: u32 = 0x0ff8_0000;
/// The host's first user id that a sandbox may have.
const FIRST_ID: u32 = 0x1000_0000;
/// Number of user ids that each sandbox has.
pub const IDS: u32 = 65_536;
/// Number of sandboxes that a server can have at a time: as many as there are ids for, in each of
/// the thirty-two parts of what is above [`FIRST_ID`].
pub const SLOTS: u16 = 1900;

/// Time for which a lock held by the remains of a killed server is waited for.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// A server's number on this host, while it holds it.
#[derive(Debug)]
pub(crate) struct Instance {
    number: u8,
    /// Directory of all claims.
    claims: PathBuf,
    /// Held for as long as the server lives; the kernel gives them back whatever happens.
    _claim: File,
    _data: File,
}

/// Failure to claim an instance number.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Another server uses the same data directory.
    #[error("another server uses `{}`", .0.display())]
    DataInUse(PathBuf),
    /// There are as many servers on this host as there can be.
    #[error("{INSTANCES} servers run on this host already")]
    AllTaken,
    /// A file could not be used.
    #[error("cannot use `{}`", path.display())]
    File {
        /// The file that could not be used.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
}

impl Instance {
    /// Claims a number for the installation in `data_dir`: the one it had, if nobody else has
    /// it now, else a free one. `in_use` says whether sandboxes of a number still live.
    pub(crate) fn claim(
        data_dir: &Path,
        in_use: impl Fn(u8) -> bool,
    ) -> Result<Self, InstanceError> {
        Self::claim_in(Path::new(CLAIMS), data_dir, in_use)
    }

    fn claim_in(
        claims: &Path,
        data_dir: &Path,
        in_use: impl Fn(u8) -> bool,
    ) -> Result<Self, InstanceError> {
        fs::create_dir_all(data_dir).map_err(file(data_dir))?;
        let remembered_at = data_dir.join(REMEMBERED);
        // Locked until the server ends: whoever holds this has the data directory for itself.
        let mut data = open_private(&remembered_at).map_err(file(&remembered_at))?;
        if !lock_in_time(&data).map_err(file(&remembered_at))? {
            return Err(InstanceError::DataInUse(data_dir.to_owned()));
        }
        fs::create_dir_all(claims).map_err(file(claims))?;
        let remembered: Option<u8> = read(&mut data)
            .map_err(file(&remembered_at))?
            .trim()
            .parse()
            .ok();
        let owner = fs::canonicalize(data_dir).map_err(file(data_dir))?;
        let candidates = remembered.into_iter().chain(0..INSTANCES);
        for number in candidates.filter(|number| *number < INSTANCES) {
            let path = claim_of(claims, number);
            let mut claim = open_private(&path).map_err(file(&path))?;
            // The number that was ours is worth waiting for: our sandboxes are found by it.
            let locked = if Some(number) == remembered {
                lock_in_time(&claim)
            } else {
                lock(&claim)
            };
            // An installation that was taken down a moment ago has removed the file.
            if !locked.map_err(file(&path))? || !is_at(&claim, &path).map_err(file(&path))? {
                continue;
            }
            let last_owner = read(&mut claim).map_err(file(&path))?;
            // Sandboxes that live are somebody's, also if the name of their owner is lost.
            if Path::new(&last_owner) != owner && in_use(number) {
                continue;
            }
            write(&mut claim, &owner.display().to_string()).map_err(file(&path))?;
            write(&mut data, &number.to_string()).map_err(file(&remembered_at))?;
            return Ok(Self {
                number,
                claims: claims.to_owned(),
                _claim: claim,
                _data: data,
            });
        }
        Err(InstanceError::AllTaken)
    }

    /// Forgets that the number was ever ours. For an installation that is taken down.
    pub(crate) fn forget(mut self) -> io::Result<()> {
        write(&mut self._data, "")?;
        fs::remove_file(claim_of(&self.claims, self.number))
    }

    /// Returns true if another installation on this host has a running server, or running sandboxes
    /// as told by `in_use`.
    pub(crate) fn has_company(&self, in_use: impl Fn(u8) -> bool) -> io::Result<bool> {
        for number in (0..INSTANCES).filter(|number| *number != self.number) {
            match File::open(claim_of(&self.claims, number)) {
                Ok(claim) if !lock(&claim)? => return Ok(true),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(_) | Err(_) if in_use(number) => return Ok(true),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(false)
    }

    pub(crate) fn naming(&self) -> Naming {
        Naming {
            number: self.number,
        }
    }
}

/// The names and ranges of one server on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Naming {
    number: u8,
}

impl Naming {
    pub(crate) fn of(number: u8) -> Self {
        Self { number }
    }

    /// The group below which every sandbox has its own.
    pub(crate) fn cgroup(self) -> String {
        format!("skep-{}", self.number)
    }

    /// The table of the packet filter.
    pub(crate) fn table(self) -> String {
        format!("skep{}", self.number)
    }

    /// The interface that holds the gateway's address.
    pub(crate) fn gateway_interface(self) -> String {
        format!("skepgw{}", self.number)
    }

    /// Prefix that the interfaces of all its sandboxes share.
    pub(crate) fn interface_prefix(self) -> String {
        format!("skep{}-", self.number)
    }

    pub(crate) fn subnet(self) -> Ipv4Net {
        let first = ADDRESSES + (u32::from(self.number) << (32 - SUBNET_PREFIX));
        Ipv4Net::new_assert(Ipv4Addr::from(first), SUBNET_PREFIX)
    }

    /// Address of the default gateway of sandboxes, at which the DNS forwarder listens.
    pub(crate) fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.subnet().network()) + 1)
    }

    pub(crate) fn slot(self, number: u16) -> Slot {
        Slot {
            naming: self,
            number,
        }
    }

    /// The slot an interface of the host belongs to, if it is one of ours.
    pub(crate) fn slot_of_interface(self, name: &str) -> Option<Slot> {
        let number = name.strip_prefix(&self.interface_prefix())?.parse().ok()?;
        (number < SLOTS).then(|| self.slot(number))
    }

    /// The slots whose ids a user namespace has, by its map of ids as the host sees it. The
    /// host's own namespace has none of its own.
    pub(crate) fn slots_in_map(self, map: &str) -> Vec<Slot> {
        let ranges: Vec<_> = map
            .lines()
            .filter_map(|line| {
                let mut numbers = line.split_whitespace().map(str::parse::<u32>);
                match (numbers.next()?, numbers.next()?, numbers.next()?) {
                    (Ok(_), Ok(first), Ok(count)) => Some(first..first.saturating_add(count)),
                    _ => None,
                }
            })
            .filter(|range| range.start >= FIRST_ID)
            .collect();
        (0..SLOTS)
            .map(|number| self.slot(number))
            .filter(|slot| ranges.iter().any(|range| range.contains(&slot.first_id())))
            .collect()
    }
}

/// Addresses of all servers on all hosts: no sandbox may talk to any of them.
pub(crate) fn all_subnets() -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::from(ADDRESSES), ADDRESSES_PREFIX)
}

/// The host's user ids that any sandbox of any server may have.
pub(crate) fn all_ids() -> RangeInclusive<u32> {
    let last = Naming::of(INSTANCES - 1).slot(SLOTS - 1);
    FIRST_ID..=last.first_id() + (IDS - 1)
}

/// One sandbox's share of the host's numbered resources: an address, an interface, a range of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    naming: Naming,
    number: u16,
}

impl Slot {
    /// Its number among those of its server.
    pub fn number(self) -> u16 {
        self.number
    }

    /// Address of the sandbox.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.naming.gateway()) + 1 + u32::from(self.number))
    }

    /// User id of the sandbox's egress proxy, which is nobody else's.
    pub(crate) fn proxy_user(self) -> u32 {
        FIRST_PROXY_ID + self.place()
    }

    /// User id of the process that sends the sandbox's requests, which is nobody else's.
    pub(crate) fn sender_user(self) -> u32 {
        FIRST_SENDER_ID + self.place()
    }

    /// Its place among the slots of all servers.
    fn place(self) -> u32 {
        u32::from(self.naming.number) * u32::from(SLOTS) + u32::from(self.number)
    }

    /// Name of the interface at the host's end of its link.
    pub fn interface(self) -> String {
        format!("{}{}", self.naming.interface_prefix(), self.number)
    }

    /// The host's id for user and group 0 of the sandbox.
    pub fn first_id(self) -> u32 {
        let slots_before =
            u32::from(self.naming.number) * u32::from(SLOTS) + u32::from(self.number);
        FIRST_ID + slots_before * IDS
    }
}

/// Returns true if a server of this number has left sandboxes, as far as cgroups tell.
pub(crate) fn sandboxes_live(root: &Path, number: u8) -> bool {
    let parent = Naming::of(number).cgroup();
    // The first hierarchy that a group is made in, and the only one.
    [root.join("memory").join(&parent), root.join(&parent)]
        .iter()
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        // What was kept ready for sandboxes is none.
        .any(|entry| !entry.file_name().to_string_lossy().starts_with(PREFIX))
}

/// Names this run of the host.
pub(crate) fn boot() -> io::Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim().to_owned())
}

/// Path of the file by which a number is claimed.
pub(crate) fn claim_of(claims: &Path, number: u8) -> PathBuf {
    claims.join(format!("instance-{number}"))
}

/// Opens a file, made if it is missing, that nobody else reads or locks.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

/// Returns true if this open file is still the one at `path`.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (open, named) = (file.metadata()?, fs::symlink_metadata(path));
    match named {
        Ok(named) => Ok((open.dev(), open.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub(crate) fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Waits a little for a lock. A server that was killed while it started another program leaves
/// a copy of its locks there, until that program is executed.
pub(crate) fn lock_in_time(file: &File) -> io::Result<bool> {
    let start = Instant::now();
    loop {
        if lock(file)? {
            return Ok(true);
        }
        if start.elapsed() > LOCK_TIMEOUT {
            return Ok(false);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "called where blocking is allowed, and a lock cannot be waited for with a deadline"
        )]
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn read(file: &mut File) -> io::Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

pub(crate) fn write(file: &mut File, text: &str) -> io::Result<()> {
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> InstanceError {
    let path = path.to_owned();
    move |source| InstanceError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_slots_of_any_two_servers_share_anything() {
        let mut last = None;
        for number in 0..INSTANCES {
            for slot in [0, 1, SLOTS - 1] {
                let slot = Naming::of(number).slot(slot);
                let subnet = Naming::of(number).subnet();
                assert!(subnet.contains(&slot.address()));
                assert!(slot.address() < subnet.broadcast());
                assert!(all_subnets().contains(&subnet));
                assert!(slot.first_id().checked_add(IDS).is_some());
                assert!(slot.proxy_user() < FIRST_SENDER_ID && slot.sender_user() < FIRST_ID);
                assert!(last < Some((slot.address(), slot.first_id())));
                last = Some((slot.address(), slot.first_id()));
                assert!(slot.interface().len() <= 15);
                let name = slot.interface();
                assert_eq!(Naming::of(number).slot_of_interface(&name), Some(slot));
            }
        }
        assert_eq!(Naming::of(3).slot_of_interface("skep31-7"), None);
        assert_eq!(Naming::of(3).slot_of_interface("skepgw3"), None);
    }

    #[test]
    fn a_map_of_ids_tells_the_slots() {
        let naming = Naming::of(3);
        let of_one = format!("         0 {:10} {IDS:10}\n", naming.slot(7).first_id());
        assert_eq!(naming.slots_in_map(&of_one), [naming.slot(7)]);
        let of_three = format!("0 {} {}\n", naming.slot(5).first_id(), 3 * IDS);
        assert_eq!(
            naming.slots_in_map(&of_three),
            [5, 6, 7].map(|number| naming.slot(number))
        );
        assert_eq!(Naming::of(2).slots_in_map(&of_one), []);
        assert_eq!(naming.slots_in_map("nonsense\n0 1"), []);
        let of_the_host = "         0          0 4294967295\n";
        assert_eq!(naming.slots_in_map(of_the_host), []);
    }

    #[test]
    fn a_data_directory_has_one_server_and_keeps_its_number() {
        let host = tempfile::tempdir().unwrap();
        let directory = |name: &str| host.path().join(name);
        let claim = |name: &str| Instance::claim_in(&directory("run"), &directory(name), |_| false);
        let first = claim("first").unwrap();
        assert!(matches!(claim("first"), Err(InstanceError::DataInUse(_))));
        let second = claim("second").unwrap();
        let numbers = (first.number, second.number);
        assert_ne!(numbers.0, numbers.1);
        drop((first, second));
        let (second, first) = (claim("second").unwrap(), claim("first").unwrap());
        assert_eq!((first.number, second.number), numbers);
    }

    #[test]
    fn a_number_whose_sandboxes_still_live_is_not_taken_from_its_owner() {
        let host = tempfile::tempdir().unwrap();
        let directory = |name: &str| host.path().join(name);
        let claim = |name: &str, living: Option<u8>| {
            Instance::claim_in(&directory("run"), &directory(name), |number| {
                Some(number) == living
            })
        };
        let crashed = claim("crashed", None).unwrap();
        let number = crashed.number;
        drop(crashed);
        let second = claim("second", Some(number)).unwrap();
        assert_ne!(second.number, number);
        let back = claim("crashed", Some(number)).unwrap();
        assert_eq!(back.number, number);
        back.forget().unwrap();
        let third = claim("third", None).unwrap();
        assert_eq!(third.number, number, "what is forgotten is free");
    }
}
