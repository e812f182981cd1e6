//! The trait every isolation backend implements.
//!
//! Above this crate nobody knows how a sandbox is held: by namespaces, by gVisor or by a
//! virtual machine. The agent is reached over TCP in every tier.

mod contract;
mod fake;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use skep_types::{
    Egress, ExecutionId, HostCapacity, Redacted, Resources, SandboxId, TenantId, Usage,
};

pub use contract::{ContractSubject, check_contract};
pub use fake::FakeIsolation;

/// Strength of the isolation, from the always available to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Linux namespaces, cgroups, seccomp and id-mapped users.
    Native,
    /// A user-space kernel.
    Gvisor,
    /// A virtual machine of its own.
    MicroVm,
}

/// Everything a backend needs to know about one sandbox.
#[derive(Debug, Clone)]
pub struct LaunchRequest {
    /// Id of the sandbox; the backend may use it in paths, cgroups and interface names as it is.
    pub id: SandboxId,
    /// The execution, which is new with every launch.
    pub execution: ExecutionId,
    /// Read-only layers of its root, the lowest first.
    pub layers: Vec<PathBuf>,
    /// Tenant with whose sandboxes it may share a process or a namespace; with no other's.
    pub tenant: TenantId,
    /// Limits, in force before the first untrusted instruction.
    pub resources: Resources,
    /// Destinations that it may reach.
    pub egress: Egress,
    /// Configuration that the agent reads at its start, from a descriptor nobody else holds. Opaque
    /// here.
    pub agent_config: Redacted<Vec<u8>>,
}

/// A backend's record by which it finds a living sandbox again after the server was restarted.
///
/// Opaque above the backend; kept in the database as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchRecord(pub String);

/// The end of a sandbox's first process, as far as anybody could see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It is gone, and was not our child (the server was restarted in between).
    Unknown,
}

/// A sandbox that runs.
pub trait Sandbox: fmt::Debug + Send + Sync {
    /// Address at which its agent and its own services are reached.
    fn address(&self) -> IpAddr;

    /// The record that [`Isolation::adopt`] will need.
    fn record(&self) -> LaunchRecord;

    /// Waits until the first process is gone. Level-triggered: any number of callers, any
    /// number of times, also after the end.
    fn exited(&self) -> BoxFuture<'_, Exit>;

    /// Resource usage so far.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the counters are gone, which they are after [`Sandbox::destroy`].
    fn usage(&self) -> BoxFuture<'_, Result<Usage, UsageError>>;

    /// Kills every process of the sandbox and removes everything it held on the host:
    /// processes, cgroups, mounts, links, rules, files. Returns what it had used.
    ///
    /// The processes are killed before anything else is done, and it takes no longer than the
    /// backend's deadline whatever becomes of them. Safe to call twice and from two tasks; each
    /// call returns when all is gone, or something cannot be removed.
    ///
    /// # Errors
    ///
    /// [`DestroyError`] names what is left. As long as a process lives, what it was launched
    /// with is nobody else's. Calling again tries again.
    fn destroy(&self) -> BoxFuture<'_, Result<Usage, DestroyError>>;

    /// Destroys it as [`Sandbox::destroy`] does, for a caller who will not ask again: what is left
    /// when it returns is the backend's to report and to try again.
    fn dispose(&self) -> BoxFuture<'_, ()>;
}

/// A handle to a sandbox that runs.
pub type Launched = Arc<dyn Sandbox>;

/// A way to hold sandboxes.
pub trait Isolation: fmt::Debug + Send + Sync {
    /// Strength of this backend's isolation.
    fn tier(&self) -> Tier;

    /// Starts a sandbox and returns when its agent accepts connections.
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves nothing behind: what was acquired is released in the background.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]; nothing of the sandbox is left.
    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<Launched, LaunchError>>;

    /// Warms what a tenant's sandboxes of these layers share, if it is not there, and waits until
    /// it is, or will not be: a zygote, for instance. A spare is launched after it, so that it
    /// can use it; a caller who waits for a sandbox does not wait for this.
    fn warm<'a>(&'a self, layers: &'a [PathBuf], tenant: &'a TenantId) -> BoxFuture<'a, ()>;

    /// Resources that the host has for sandboxes now. Takes a few system calls.
    ///
    /// # Errors
    ///
    /// If the host does not say.
    fn capacity(&self) -> BoxFuture<'_, io::Result<HostCapacity>>;

    /// Allows or forbids the pools of parts of sandboxes; at first they are allowed. What is in
    /// them is let go when they are forbidden.
    fn allow_pools(&self, allowed: bool) -> BoxFuture<'_, ()>;

    /// The sandboxes whose disk has lost something that was written to it, because the
    /// host's own disk is full. Takes longer the more there are.
    fn damaged(&self) -> BoxFuture<'_, Vec<SandboxId>>;

    /// The sandboxes that hold more of the host's memory than they may, in ways that their
    /// limits do not count. To be asked several times a second: the backend decides what is
    /// worth a look.
    fn hoarding(&self) -> BoxFuture<'_, Vec<SandboxId>>;

    /// Finds a sandbox that was launched by an earlier server.
    ///
    /// # Errors
    ///
    /// [`AdoptError`]: it is gone. [`Isolation::sweep`] removes what it left.
    fn adopt(&self, record: LaunchRecord) -> BoxFuture<'_, Result<Launched, AdoptError>>;

    /// Log of a sandbox for its owner: lines of JSON, the oldest first. Kept beyond its end, unless
    /// it ended while there was no server. Empty if there is nothing.
    ///
    /// # Errors
    ///
    /// If it is there and cannot be read.
    fn log(&self, id: SandboxId) -> BoxFuture<'_, io::Result<Vec<u8>>>;

    /// The logs of ended sandboxes that are kept, and their sizes in bytes.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    fn kept_logs(&self) -> BoxFuture<'_, io::Result<Vec<(SandboxId, u64)>>>;

    /// Deletes the log of an ended sandbox.
    ///
    /// # Errors
    ///
    /// If it is there and cannot be removed.
    fn forget_log(&self, id: SandboxId) -> BoxFuture<'_, io::Result<()>>;

    /// Removes what belongs to this installation and to no sandbox that was launched or
    /// adopted by this server. Called once at start, after adoption.
    ///
    /// # Errors
    ///
    /// [`DestroyError`] names the first thing that could not be removed; the rest is removed, and
    /// the backend tries again what is left of sandboxes.
    fn sweep(&self) -> BoxFuture<'_, Result<Swept, DestroyError>>;
}

/// Remains that [`Isolation::sweep`] found and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Names of the sandboxes of which something was left.
    pub sandboxes: Vec<SandboxId>,
}

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Failure to launch a sandbox. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The host has no room for another sandbox: no free slot, address or id range.
    #[error("no free {0} for another sandbox")]
    NoRoom(&'static str),
    /// Something on the host could not be made ready.
    #[error("cannot {operation}")]
    Host {
        /// The operation, with its object.
        operation: String,
        /// The error of the system.
        source: Source,
    },
    /// The launcher gave up inside the new namespaces and said where.
    #[error("launcher failed while {step}")]
    Step {
        /// The step it was at.
        step: String,
        /// The error of the system.
        source: Source,
    },
    /// The sandbox came up but its agent never answered.
    #[error("agent did not answer within {} s", .0.as_secs_f32())]
    AgentSilent(std::time::Duration),
    /// The first process ended before it answered.
    #[error("agent ended before it answered: {0:?}")]
    AgentEnded(Exit),
}

impl LaunchError {
    /// Returns true if the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::NoRoom(_) | Self::AgentSilent(_) => true,
            Self::Host { .. } | Self::Step { .. } | Self::AgentEnded(_) => false,
        }
    }
}

/// Failure to take over a sandbox of an earlier server.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The record was not written by this backend.
    #[error("cannot read the launch record")]
    Record(#[source] Source),
    /// The first process is gone. What it had used is known as far as its counters are there.
    #[error("first process is gone")]
    Gone(Usage),
    /// It was launched before the host was last booted.
    #[error("host was restarted")]
    HostRestarted,
}

/// The counters of a sandbox could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {what}")]
pub struct UsageError {
    /// Name of the counter.
    pub what: String,
    /// The error of the system.
    pub source: Source,
}

/// Something of a sandbox could not be removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove {what}")]
pub struct DestroyError {
    /// Description of what is left.
    pub what: String,
    /// The error of the system.
    pub source: Source,
}
