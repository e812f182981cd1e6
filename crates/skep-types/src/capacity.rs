//! Capacity of a host for sandboxes, and admission by what is left of it.

use std::fmt;

use crate::Resources;

const MIB: u64 = 1 << 20;

/// A resource that a host has a limited amount of, for all sandboxes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostResource {
    /// Memory, in bytes.
    Memory,
    /// The file system that holds the disks of sandboxes, in bytes.
    Disk,
    /// The files that this file system can still have.
    Inodes,
    /// Processes and threads.
    Processes,
    /// Descriptors of the server.
    OpenFiles,
    /// Control groups that can limit memory.
    Cgroups,
    /// Places: an address and a range of user ids each.
    Slots,
}

impl HostResource {
    /// All resources, in the order in which they are checked.
    pub const ALL: [Self; 7] = [
        Self::Memory,
        Self::Disk,
        Self::Inodes,
        Self::Processes,
        Self::OpenFiles,
        Self::Cgroups,
        Self::Slots,
    ];

    /// The stable name of the resource.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Inodes => "inodes",
            Self::Processes => "processes",
            Self::OpenFiles => "open_files",
            Self::Cgroups => "cgroups",
            Self::Slots => "slots",
        }
    }
}

impl fmt::Display for HostResource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Total and available amount of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capacity {
    /// All of it. Zero if the host does not count it, which is no bound.
    pub total: u64,
    /// The part that is not in use now.
    pub available: u64,
}

/// Capacity of a host, of every resource, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCapacity {
    /// Capacity for [`HostResource::Memory`].
    pub memory: Capacity,
    /// Capacity for [`HostResource::Disk`].
    pub disk: Capacity,
    /// Capacity for [`HostResource::Inodes`].
    pub inodes: Capacity,
    /// Capacity for [`HostResource::Processes`].
    pub processes: Capacity,
    /// Capacity for [`HostResource::OpenFiles`].
    pub open_files: Capacity,
    /// Capacity for [`HostResource::Cgroups`].
    pub cgroups: Capacity,
    /// Capacity for [`HostResource::Slots`].
    pub slots: Capacity,
}

impl HostCapacity {
    /// Returns the capacity of one resource.
    pub fn of(&self, resource: HostResource) -> Capacity {
        match resource {
            HostResource::Memory => self.memory,
            HostResource::Disk => self.disk,
            HostResource::Inodes => self.inodes,
            HostResource::Processes => self.processes,
            HostResource::OpenFiles => self.open_files,
            HostResource::Cgroups => self.cgroups,
            HostResource::Slots => self.slots,
        }
    }
}

/// The part of a resource that is kept from sandboxes, for the host and for those that run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reserve {
    /// An absolute number of bytes.
    Bytes(u64),
    /// This part of all there is, from 0 to 100.
    Percent(f64),
    /// This part of all there is, or so many bytes if that is less: a large disk need not keep
    /// more than a small one.
    Least {
        /// The part, from 0 to 100.
        percent: f64,
        /// Upper bound of the reserve, in bytes.
        bytes: u64,
    },
}

impl Reserve {
    /// The reserve of a resource of which there is so much.
    pub fn of(self, total: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a part of a whole, and a float that is too large becomes the largest number"
            )]
            Self::Percent(percent) => (total as f64 * percent / 100.0) as u64,
            Self::Least { percent, bytes } => Self::Percent(percent).of(total).min(bytes),
        }
    }
}

/// Rules by which a host has room for another sandbox.
///
/// Sandboxes rarely use what they may. So what counts is what the host really has left,
/// against what a new sandbox is expected to need; and beside that, how much was promised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdmissionPolicy {
    /// False to refuse nothing.
    pub enabled: bool,
    /// Memory that sandboxes do not get.
    pub memory_reserve: Reserve,
    /// Memory that a new sandbox is expected to need, in MiB, if its limit is not less.
    pub memory_per_sandbox_mib: u32,
    /// Largest ratio of the memory limits of all sandboxes to the host's memory.
    pub memory_overcommit: f64,
    /// Disk that sandboxes do not get; of its files the same part.
    pub disk_reserve: Reserve,
    /// Disk space that a new sandbox is expected to write, in MiB, if its limit is not less.
    pub disk_per_sandbox_mib: u32,
    /// Largest ratio of the disk limits of all sandboxes to the size of the file system.
    pub disk_overcommit: f64,
    /// Processes that sandboxes do not get; of descriptors and groups the same part.
    pub process_reserve: Reserve,
}

impl Default for AdmissionPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            memory_reserve: Reserve::Percent(5.0),
            memory_per_sandbox_mib: 32,
            memory_overcommit: 50.0,
            disk_reserve: Reserve::Least {
                percent: 5.0,
                bytes: 2 << 30,
            },
            disk_per_sandbox_mib: 32,
            disk_overcommit: 100.0,
            process_reserve: Reserve::Percent(5.0),
        }
    }
}

/// Resources promised to sandboxes: the sums of their limits, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Promised {
    /// Sum of the memory limits.
    pub memory: u64,
    /// Sum of the disk limits.
    pub disk: u64,
}

impl Promised {
    /// Returns the promise to a sandbox of these limits.
    pub fn to(resources: Resources) -> Self {
        Self {
            memory: u64::from(resources.memory_mib) * MIB,
            disk: u64::from(resources.disk_mib) * MIB,
        }
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            disk: self.disk.saturating_add(other.disk),
        }
    }

    /// The rest without `other`, which is part of it.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_sub(other.memory),
            disk: self.disk.saturating_sub(other.disk),
        }
    }
}

impl AdmissionPolicy {
    /// Returns the amount of a resource that a new sandbox of these limits is expected to take.
    fn need(&self, resource: HostResource, resources: Resources) -> u64 {
        match resource {
            HostResource::Memory => {
                u64::from(self.memory_per_sandbox_mib.min(resources.memory_mib)) * MIB
            }
            HostResource::Disk => {
                u64::from(self.disk_per_sandbox_mib.min(resources.disk_mib)) * MIB
            }
            HostResource::Inodes => 8,
            HostResource::Processes | HostResource::OpenFiles | HostResource::Cgroups => 16,
            HostResource::Slots => 1,
        }
    }

    /// Returns the amount of a resource, of which there is so much, that sandboxes do not get.
    fn reserve(&self, resource: HostResource, total: u64) -> u64 {
        match (resource, self.disk_reserve, self.process_reserve) {
            (HostResource::Memory, _, _) => self.memory_reserve.of(total),
            (
                HostResource::Inodes,
                Reserve::Percent(percent) | Reserve::Least { percent, .. },
                _,
            ) => Reserve::Percent(percent).of(total),
            (HostResource::Disk, reserve, _)
            | (
                HostResource::Processes | HostResource::OpenFiles | HostResource::Cgroups,
                _,
                reserve,
            ) => reserve.of(total),
            (HostResource::Inodes, Reserve::Bytes(_), _) | (HostResource::Slots, _, _) => 0,
        }
    }

    /// Returns the amount of a resource that sandboxes may still take; `None` if the host does not
    /// count it.
    fn left(&self, resource: HostResource, host: &HostCapacity) -> Option<u64> {
        let Capacity { total, available } = host.of(resource);
        let left = available.saturating_sub(self.reserve(resource, total));
        (total > 0).then_some(left)
    }

    /// Returns the resource that is too scarce for one more sandbox of these limits, while
    /// `starting` others take their part and `promised` is given away; `None` if the host has room.
    pub fn shortage(
        &self,
        host: &HostCapacity,
        promised: Promised,
        starting: u32,
        resources: Resources,
    ) -> Option<HostResource> {
        if !self.enabled {
            return None;
        }
        let lacks = |resource: &HostResource| {
            let need = self.need(*resource, resources);
            let wanted = need.saturating_mul(u64::from(starting) + 1);
            self.left(*resource, host).is_some_and(|left| left < wanted)
        };
        let found = HostResource::ALL.into_iter().find(lacks);
        found.or_else(|| self.broken_promise(host, promised.plus(Promised::to(resources))))
    }

    /// Returns a resource of which more is promised than may be.
    fn broken_promise(&self, host: &HostCapacity, promised: Promised) -> Option<HostResource> {
        let exceeds = |total: u64, overcommit: f64, promised: u64| {
            #[expect(
                clippy::cast_precision_loss,
                reason = "exact to a few bytes in a tebibyte"
            )]
            let (total, promised) = (total as f64, promised as f64);
            total > 0.0 && promised > total * overcommit
        };
        if exceeds(host.memory.total, self.memory_overcommit, promised.memory) {
            return Some(HostResource::Memory);
        }
        exceeds(host.disk.total, self.disk_overcommit, promised.disk).then_some(HostResource::Disk)
    }

    /// Returns true if sandboxes have taken all that they may of a resource.
    pub fn is_exhausted(&self, resource: HostResource, host: &HostCapacity) -> bool {
        self.left(resource, host) == Some(0)
    }

    /// The resources of which sandboxes have taken all that they may: nothing new fits, and
    /// what is only kept ready has to give way.
    pub fn exhausted(&self, host: &HostCapacity) -> Vec<HostResource> {
        let mut all = HostResource::ALL.to_vec();
        all.retain(|resource| self.is_exhausted(*resource, host));
        all
    }

    /// About how many more sandboxes of these limits fit, and what runs out first.
    pub fn room(
        &self,
        host: &HostCapacity,
        promised: Promised,
        resources: Resources,
    ) -> (u64, HostResource) {
        let by_use = HostResource::ALL.into_iter().filter_map(|resource| {
            let left = self.left(resource, host)?;
            Some((left / self.need(resource, resources).max(1), resource))
        });
        let each = Promised::to(resources);
        let by_promise = [
            (
                host.memory.total,
                self.memory_overcommit,
                promised.memory,
                each.memory,
                HostResource::Memory,
            ),
            (
                host.disk.total,
                self.disk_overcommit,
                promised.disk,
                each.disk,
                HostResource::Disk,
            ),
        ]
        .into_iter()
        .filter(|(total, ..)| *total > 0)
        .map(|(total, overcommit, promised, each, resource)| {
            let may = Reserve::Percent(overcommit * 100.0).of(total);
            (may.saturating_sub(promised) / each.max(1), resource)
        });
        by_use
            .chain(by_promise)
            .min_by_key(|(count, _)| *count)
            .unwrap_or((u64::MAX, HostResource::Slots))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn host(memory: u64, disk: u64) -> HostCapacity {
        let of = |total: u64, available: u64| Capacity { total, available };
        HostCapacity {
            memory: of(24 * GIB, memory),
            disk: of(250 * GIB, disk),
            inodes: of(16_000_000, 12_000_000),
            processes: of(32_768, 30_000),
            open_files: of(20_000, 19_000),
            cgroups: of(65_535, 65_000),
            slots: of(1900, 1900),
        }
    }

    fn check(host: HostCapacity, starting: u32, expected: Option<HostResource>) {
        let policy = AdmissionPolicy::default();
        let found = policy.shortage(&host, Promised::default(), starting, Resources::default());
        assert_eq!(found, expected);
    }

    #[test]
    fn a_sandbox_needs_room_beyond_the_reserve_and_beside_those_that_start() {
        check(host(20 * GIB, 60 * GIB), 0, None);
        check(host(20 * GIB, 60 * GIB), 599, None);
        check(host(20 * GIB, 60 * GIB), 602, Some(HostResource::Memory));
        check(host(GIB, 60 * GIB), 0, Some(HostResource::Memory));
        check(host(20 * GIB, 2 * GIB), 0, Some(HostResource::Disk));
    }

    #[test]
    fn everything_that_runs_out_is_named() {
        let whole = host(20 * GIB, 60 * GIB);
        let none = Capacity {
            total: 1000,
            available: 3,
        };
        let lacking = |change: fn(&mut HostCapacity, Capacity)| {
            let mut host = whole;
            change(&mut host, none);
            host
        };
        check(
            lacking(|host, none| host.inodes = none),
            0,
            Some(HostResource::Inodes),
        );
        check(
            lacking(|host, none| host.processes = none),
            0,
            Some(HostResource::Processes),
        );
        check(
            lacking(|host, none| host.open_files = none),
            0,
            Some(HostResource::OpenFiles),
        );
        check(
            lacking(|host, none| host.cgroups = none),
            0,
            Some(HostResource::Cgroups),
        );
        check(
            lacking(|host, none| host.slots = none),
            3,
            Some(HostResource::Slots),
        );
    }

    #[test]
    fn a_large_disk_keeps_no_more_than_is_useful_and_a_small_one_no_more_than_it_can() {
        let reserve = AdmissionPolicy::default().disk_reserve;
        assert_eq!(reserve.of(1000 * GIB), 2 * GIB);
        assert_eq!(reserve.of(20 * GIB), GIB);
    }

    #[test]
    fn what_a_machine_does_not_count_is_no_bound() {
        let mut host = host(20 * GIB, 60 * GIB);
        host.inodes = Capacity::default();
        check(host, 0, None);
    }

    #[test]
    fn a_thousand_idle_sandboxes_of_the_default_size_are_no_broken_promise() {
        let policy = AdmissionPolicy::default();
        let resources = Resources::default();
        let each = Promised::to(resources);
        let promised = Promised {
            memory: each.memory * 999,
            disk: each.disk * 999,
        };
        let host = host(12 * GIB, 50 * GIB);
        assert_eq!(policy.shortage(&host, promised, 0, resources), None);
    }

    #[test]
    fn an_operator_may_promise_no_more_than_there_is() {
        let policy = AdmissionPolicy {
            memory_overcommit: 1.0,
            ..AdmissionPolicy::default()
        };
        let resources = Resources::default();
        let host = host(20 * GIB, 60 * GIB);
        let promised = |count: u64| Promised {
            memory: count * GIB,
            disk: 0,
        };
        let shortage = |count| policy.shortage(&host, promised(count), 0, resources);
        assert_eq!(shortage(23), None);
        assert_eq!(shortage(24), Some(HostResource::Memory));
        let room = policy.room(&host, promised(20), resources);
        assert_eq!(room, (4, HostResource::Memory));
    }

    #[test]
    fn nothing_is_refused_where_admission_is_off() {
        let policy = AdmissionPolicy {
            enabled: false,
            ..AdmissionPolicy::default()
        };
        let host = host(0, 0);
        let resources = Resources::default();
        assert_eq!(
            policy.shortage(&host, Promised::default(), 0, resources),
            None
        );
    }

    #[test]
    fn a_resource_is_exhausted_when_only_the_reserve_is_left() {
        let policy = AdmissionPolicy::default();
        assert!(policy.exhausted(&host(20 * GIB, 3 * GIB)).is_empty());
        let exhausted = policy.exhausted(&host(GIB, 2 * GIB));
        assert_eq!(exhausted, [HostResource::Memory, HostResource::Disk]);
    }

    #[test]
    fn what_runs_out_first_says_how_many_fit() {
        let policy = AdmissionPolicy::default();
        let host = host(GIB * 24 / 20 + 320 * MIB, 60 * GIB);
        let room = policy.room(&host, Promised::default(), Resources::default());
        assert_eq!(room, (10, HostResource::Memory));
    }
}
