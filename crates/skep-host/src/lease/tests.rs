use std::path::Path;

use skep_types::Resources;
use tempfile::TempDir;

use super::*;
use crate::cgroup::Cgroups;
use crate::config::HostConfig;
use crate::instance::Naming;
use crate::leases::{CgroupSource, LeaseError, ReacquireError, Terms};
use crate::log::LogHolder;

/// The last number that a server of this host would get, whose links are therefore not there.
const NUMBER: u8 = 31;

/// Leases on the real cgroups of this host, with a parent that nobody else uses.
struct Bench {
    data: TempDir,
    leases: Arc<Leases>,
}

impl Bench {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let parent = format!("skep-test-{}", SandboxId::random());
        let cgroups = Cgroups::open(Path::new("/sys/fs/cgroup"), &parent).unwrap();
        let leases = leases(&data, cgroups);
        Self { data, leases }
    }

    /// The leases of a server that follows on this one.
    fn next_server(&self) -> Arc<Leases> {
        leases(&self.data, self.leases.cgroups.clone())
    }

    fn terms(&self, id: &SandboxId) -> Terms {
        Terms {
            disk: crate::DiskSource::Empty,
            id: id.clone(),
            slot: self.leases.take_slot().unwrap(),
            egress: Egress::closed(),
            resources: Resources {
                disk_mib: 32,
                ..Resources::default()
            },
            cgroups: CgroupSource::New,
        }
    }

    /// Number of sandboxes with a directory, with a cgroup, and with a slot.
    fn left(&self) -> (usize, usize, usize) {
        let directories = std::fs::read_dir(self.data.path().join("sandboxes")).unwrap();
        let (total, free) = self.leases.slots.count();
        let groups = self.leases.cgroups.list().unwrap().len();
        (directories.count(), groups, total - free)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let removed = self.leases.cgroups.remove_parent();
        removed.expect("every test releases its leases");
    }
}

fn leases(data: &TempDir, cgroups: Cgroups) -> Arc<Leases> {
    let config = HostConfig::new(data.path());
    let boot = "this run".to_owned();
    Arc::new(Leases::open(config, Naming::of(NUMBER), cgroups, boot).unwrap())
}

/// This process, whose descriptor of that number is no log.
fn nobody() -> LogHolder {
    LogHolder {
        pid: std::process::id().cast_signed(),
        fd: 0,
    }
}

#[test]
fn a_lease_is_given_back_when_it_is_dropped() {
    let bench = Bench::new();
    let id = SandboxId::random();
    let (lease, parts) = bench.leases.acquire(bench.terms(&id)).unwrap();
    assert_eq!(bench.left(), (1, 1, 1));
    drop(parts);
    drop(lease);
    assert_eq!(bench.left(), (0, 0, 0));
    assert!(!bench.leases.is_leased(&id));
}

#[test]
fn a_second_lease_of_a_sandbox_is_refused_and_the_first_is_whole() {
    let bench = Bench::new();
    let id = SandboxId::random();
    let (lease, _parts) = bench.leases.acquire(bench.terms(&id)).unwrap();
    let second = bench.leases.acquire(bench.terms(&id));
    assert!(matches!(second, Err(LeaseError::Leased)));
    assert_eq!(bench.left(), (1, 1, 1));
    lease.usage().unwrap();
}

#[test]
fn a_lease_that_cannot_be_whole_leaves_nothing() {
    let bench = Bench::new();
    let id = SandboxId::random();
    // An empty disk of this size is a directory, so no disk can be copied from it.
    let empty = bench.data.path().join("disks/empty-32.ext4");
    std::fs::create_dir_all(empty).unwrap();
    let error = bench.leases.acquire(bench.terms(&id)).unwrap_err();
    assert_eq!(error.to_string(), "cannot make the sandbox's disk");
    assert_eq!(bench.left(), (0, 0, 0));
}

#[test]
fn a_lease_that_is_kept_is_acquired_again_from_its_record_and_given_back() {
    let bench = Bench::new();
    let id = SandboxId::random();
    let (lease, parts) = bench.leases.acquire(bench.terms(&id)).unwrap();
    let (record, slot) = (lease.record().unwrap(), lease.slot());
    lease.keep();
    drop((lease, parts));
    assert_eq!(bench.left(), (1, 1, 0), "only the server has forgotten it");

    let next = bench.next_server();
    assert!(next.is_of_this_boot(&record));
    let lease = next.reacquire(&record, nobody()).unwrap();
    assert_eq!((lease.id(), lease.slot()), (&id, slot));
    let twice = next.reacquire(&record, nobody());
    assert!(matches!(twice, Err(ReacquireError::SlotTaken)));
    assert_eq!(next.sweep().unwrap(), [], "it belongs to somebody");
    lease
        .release(Instant::now() + lease.kill_deadline())
        .unwrap();
    lease.release(Instant::now()).unwrap();
    assert_eq!(bench.left(), (0, 0, 0));
}

#[test]
fn a_lease_that_nobody_acquires_again_is_swept() {
    let bench = Bench::new();
    let id = SandboxId::random();
    let (lease, parts) = bench.leases.acquire(bench.terms(&id)).unwrap();
    lease.keep();
    drop((lease, parts));
    assert_eq!(bench.next_server().sweep().unwrap(), [id]);
    assert_eq!(bench.left(), (0, 0, 0));
}
