//! Isolation by namespaces, cgroups, overlay and seccomp.
//!
//! [`Native`] makes and removes what a sandbox needs of the host: a slot (an address, an
//! interface, a range of user ids), a disk, a cgroup. The launcher does what happens inside.
//! Removing works from any half-made state, so a failed launch, the end of a sandbox and a
//! sweep after a crash are one routine.

mod capacity;
mod cgroup;
mod config;
mod counters;
mod defence;
mod disk;
mod disk_meter;
mod dns;
mod file_locks;
mod firewall;
mod footprint;
mod forgotten;
mod gateway;
mod host;
mod instance;
mod kernel_settings;
mod leftovers;
mod log;
mod native;
mod plan;
mod pool;
mod probe;
mod process;
mod queues;
mod record;
mod sandbox;
mod slots;
mod watch;
mod zygote;

pub use capacity::host_capacity;
pub use config::{NativeConfig, ZygoteConfig, resolvers_in};
#[doc(hidden)]
pub use defence::Defence;
pub use firewall::FirewallError;
pub use footprint::{Footprint, Item, Kind, OtherInstallation, RunningServer, footprint};
pub use host::LaunchCounts;
pub use instance::InstanceError;
pub use kernel_settings::{ChangedSetting, KeptSetting};
pub use native::{Native, StartError};
pub use probe::{Check, CheckStatus, probe};
pub use zygote::{ZygoteCounts, has_zygote};
