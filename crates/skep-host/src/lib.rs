//! Resources that a host lends its sandboxes.
//!
//! An [`Installation`] is this server's part of the host: its instance number, packet filter,
//! gateway and DNS forwarder. From its [`Leases`] a backend gets a [`Lease`] for each sandbox: a
//! slot (an address, an interface, a range of user ids), a directory with a disk, cgroups with
//! their limits, a log. What runs in a lease is the backend's affair; nothing here knows any.
//!
//! Releasing works from any half-made state, so a failed launch, the end of a sandbox and a sweep
//! after a crash are one routine.

mod capacity;
mod cgroup;
mod config;
mod counters;
mod defence;
mod descriptor_tables;
mod directory;
mod disk;
mod disk_meter;
mod dns;
mod file_locks;
mod firewall;
mod footprint;
mod forgotten;
mod gateway;
mod installation;
mod instance;
mod kernel_settings;
mod lease;
mod leases;
mod leftovers;
mod log;
mod open_files;
mod pace;
mod page_out;
mod pool;
mod pools;
mod probe;
mod proxies;
mod queues;
mod record;
mod slots;
mod sweep;
mod trial;
mod watchers;

pub use capacity::host_capacity;
pub use cgroup::{JoinFds, Settings, Subgroup};
pub use config::{HostConfig, ProxyCommand, resolvers_in};
#[doc(hidden)]
pub use defence::Defence;
pub use disk::{Capture, CopyReservation, DiskSource};
pub use firewall::FirewallError;
pub use footprint::{Footprint, Item, Kind, OtherInstallation, RunningServer, footprint};
pub use installation::{Installation, StartError};
pub use instance::{IDS, InstanceError, SLOTS, Slot};
pub use kernel_settings::{ChangedSetting, KeptSetting, raise_inotify_limits};
pub use lease::{LastLook, Lease, Link, Parts, ReleaseError};
pub use leases::{CgroupSource, LeaseError, Leases, ReacquireError, Terms};
pub use log::LogHolder;
pub use page_out::PageOut;
pub use pools::Launching;
pub use probe::{checks_of_host, checks_of_limits, checks_of_network, checks_of_tiers};
pub use record::LeaseRecord;
pub use slots::{KeptRun, Run, TakenSlot};
pub use trial::TrialLease;
