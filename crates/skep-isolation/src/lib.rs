//! The trait every isolation backend implements.
//!
//! Above this crate nobody knows how a sandbox is held: by namespaces, by gVisor or by a
//! virtual machine. The agent is reached over TCP in every tier.

mod contract;
mod fake;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture};
use skep_types::{
    Capabilities, Capability, Checkpoint, Connections, Egress, ExecutionId, HostCapacity,
    ImageKind, ImagePurpose, LoggedRequest, Mount, Obstacle, Redacted, Resources, SandboxId,
    TenantId, Unsupported, Usage, VolumeId,
};

pub use contract::{ContractSubject, check_contract};
pub use fake::FakeIsolation;

/// Strength of the isolation. A stronger backend adds its own, after this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Linux namespaces, cgroups, seccomp and id-mapped users.
    Native,
}

impl Tier {
    /// The stable name of the tier.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
        }
    }
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
    /// Volumes that are shown in it; a backend without [`Capability::Mounts`] refuses any.
    pub mounts: Vec<Mount>,
    /// True if its changes are to become a layer: only of such a one can they be copied by
    /// [`Sandbox::copy_changes`].
    pub becomes_layer: bool,
    /// Configuration that the agent reads at its start, from a descriptor nobody else holds. Opaque
    /// here.
    pub agent_config: Redacted<Vec<u8>>,
}

/// Keeper of the volumes on this host.
pub trait VolumeMounts: fmt::Debug + Send + Sync {
    /// A mount of a volume for one sandbox. Blocks.
    ///
    /// # Errors
    ///
    /// If there is no such volume, or it cannot be mounted.
    fn mount(&self, volume: VolumeId) -> Result<VolumeMount, VolumeSource>;
}

/// Error of a volume.
pub type VolumeSource = Box<dyn std::error::Error + Send + Sync>;

/// A mount of a volume, attached nowhere yet.
#[derive(Debug)]
pub struct VolumeMount {
    /// The mount.
    pub mount: OwnedFd,
    /// Directory of it that is the volume.
    pub directory: String,
}

/// A directory of a sandbox's root whose changes are copied to a place of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    /// Name of the directory, in the root itself.
    pub name: &'static str,
    /// An empty directory for its changes. It is removed if they cannot be copied, or are more than the
    /// limit; that is no error.
    pub into: PathBuf,
    /// Most bytes that are copied.
    pub limit: u64,
}

/// A sandbox to be made of a checkpoint.
#[derive(Debug, Clone)]
pub struct RestoreRequest {
    /// Image that it is made of. It stays as it is.
    pub checkpoint: Checkpoint,
    /// The parts of the image to use. [`ImageKind::Filesystem`] starts it anew on the files of
    /// either kind of image.
    pub kind: ImageKind,
    /// The sandbox that it becomes.
    pub target: RestoreTarget,
}

/// The sandbox that a checkpoint becomes.
#[derive(Debug, Clone)]
pub enum RestoreTarget {
    /// The sandbox that the image was taken of goes on: its tokens, its environment, its limits
    /// and its volumes are those in the image, of whatever kind that is.
    Same {
        /// Id of the sandbox.
        id: SandboxId,
        /// The execution, which is new.
        execution: ExecutionId,
        /// Destinations that it may reach.
        egress: Egress,
    },
    /// A sandbox goes on with the files, and the memory if there is one, of an image that may have
    /// been taken of another sandbox of its owner's. Everything else is its own: its tokens, its
    /// environment, its limits and its volumes.
    RollBack {
        /// Id of the sandbox.
        id: SandboxId,
        /// The execution, which is new.
        execution: ExecutionId,
        /// Destinations that it may reach.
        egress: Egress,
        /// An image of the sandbox itself, which says what is its own and is left as it is.
        own: Checkpoint,
    },
    /// Another sandbox begins as a copy, with an identity of its own. Its layers are those of the
    /// image.
    Copy(Box<LaunchRequest>),
}

/// The fate of a sandbox of which a checkpoint has been taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterCheckpoint {
    /// It is as it was, as if nothing had happened: it goes on, or stands if it was frozen. The
    /// image shares nothing with it that either could change.
    Continue(ImagePurpose),
    /// It stands, as one that is frozen: its owner writes the image down and then destroys it, so
    /// that it is never lost in between. If it goes on instead, the image is worth nothing: it may
    /// be the sandbox's own disk. Such an image is restored once, as the same sandbox.
    Stand,
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

    /// Lets every process of the sandbox stand, until [`Sandbox::thaw`]. One that stands can be
    /// destroyed and checkpointed. Freezing twice is no error.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; it runs on.
    fn freeze(&self) -> BoxFuture<'_, Result<(), ChangeError>> {
        unsupported(Capability::Freeze)
    }

    /// Brings memory of a sandbox that stands to where it costs the host less, if there is such a place,
    /// until it goes on or is written to an image. Returns the bytes that were looked at. Takes long; the
    /// sandbox can be thawed meanwhile.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; its memory is where it was.
    fn page_out(&self) -> BoxFuture<'_, Result<u64, ChangeError>> {
        future::ready(Ok(0)).boxed()
    }

    /// Lets the processes go on. One that does not stand is no error.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; it stands as it did.
    fn thaw(&self) -> BoxFuture<'_, Result<(), ChangeError>> {
        unsupported(Capability::Freeze)
    }

    /// Takes note of the configuration that its agent has been given since the launch: it belongs
    /// to every image that is made from now on.
    ///
    /// # Errors
    ///
    /// If it would not be there after a restart of the server.
    fn reconfigured(&self, agent_config: Redacted<Vec<u8>>) -> BoxFuture<'_, io::Result<()>> {
        drop(agent_config);
        future::ready(Ok(())).boxed()
    }

    /// Writes the sandbox to an image, running or frozen. It takes no longer than the backend's
    /// deadline, and returns when the image would survive the host.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; there is no image, and the sandbox is as it was, whatever was to become
    /// of it afterwards. With [`ChangeError::Damaged`] its files are.
    fn checkpoint(
        &self,
        kind: ImageKind,
        after: AfterCheckpoint,
    ) -> BoxFuture<'_, Result<Checkpoint, ChangeError>> {
        let _ = after;
        unsupported(Capability::of_image(kind))
    }

    /// Copies what it has changed of its root into an empty directory, in the form of a layer, and
    /// returns the bytes that were written. Its processes stand from then on, and it is good for
    /// nothing but to be destroyed.
    ///
    /// The files that every launch writes (`/etc/hosts` and the like) are left out, and so are
    /// sockets and pipes. Nothing is written beyond `limit` bytes. What was changed in a directory that
    /// is kept `apart` is no part of the layer.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; what is in the directory then is no layer. If there is more than the limit the
    /// source is an [`io::Error`] of the kind [`io::ErrorKind::FileTooLarge`].
    fn copy_changes(
        &self,
        into: PathBuf,
        limit: u64,
        apart: Option<Apart>,
    ) -> BoxFuture<'_, Result<u64, ChangeError>> {
        drop((into, limit, apart));
        unsupported(Capability::of_image(ImageKind::Filesystem))
    }

    /// Changes the destinations that it may reach, for all that begins from now on.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; the old policy holds.
    fn set_egress(
        &self,
        egress: Egress,
        connections: Connections,
    ) -> BoxFuture<'_, Result<(), ChangeError>> {
        drop((egress, connections));
        unsupported(Capability::EgressChange)
    }

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

    /// Abilities of this backend beyond launching and destroying. Without one, the verbs that
    /// need it answer [`Unsupported`].
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Starts a sandbox and returns when its agent accepts connections.
    ///
    /// # Cancel safety
    ///
    /// None: the caller owns the launch and drives it to its end. A driver task does, and so does
    /// the task that makes spares; nobody else is to be added who may go away.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]; nothing of the sandbox is left.
    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<Launched, LaunchError>>;

    /// Makes a sandbox of a checkpoint and returns when its agent accepts connections. Owned by
    /// its caller as a launch is. Several may be made of one image at the same time.
    ///
    /// What user code had started stands in a sandbox with memory until [`Sandbox::thaw`], if the
    /// backend can freeze at all: who is killed before that has changed nothing, and the image is as
    /// good as it was.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]; nothing of the sandbox is left, and the image is as it was.
    fn restore(&self, request: RestoreRequest) -> BoxFuture<'_, Result<Launched, LaunchError>> {
        let unsupported = Unsupported(Capability::of_image(request.kind));
        future::ready(Err(unsupported.into())).boxed()
    }

    /// Makes a second image of what is in one, which shares nothing with it that could change: a
    /// snapshot of a sandbox that is paused without a process.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; there is one image, as before.
    fn copy_checkpoint(
        &self,
        checkpoint: Checkpoint,
    ) -> BoxFuture<'_, Result<Checkpoint, ChangeError>> {
        unsupported(Capability::of_image(checkpoint.kind))
    }

    /// Makes the image of a checkpoint smaller, if that can be done. Nobody restores or copies it
    /// meanwhile; afterwards it is as good as before, and restored a little later.
    ///
    /// # Errors
    ///
    /// If it cannot be written. The image is whole.
    fn compress_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, io::Result<()>> {
        drop(checkpoint);
        future::ready(Ok(())).boxed()
    }

    /// Deletes the image of a checkpoint. One that is not there is no error.
    ///
    /// # Errors
    ///
    /// If it is there and cannot be removed.
    fn forget_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, io::Result<()>> {
        drop(checkpoint);
        future::ready(Ok(())).boxed()
    }

    /// Returns true if the image of a checkpoint is there.
    ///
    /// # Errors
    ///
    /// If that cannot be told.
    fn has_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, io::Result<bool>> {
        drop(checkpoint);
        future::ready(Ok(false)).boxed()
    }

    /// Deletes every image but these: a server that was killed may have left some that nobody knows.
    /// Called once at start, after adoption.
    ///
    /// # Errors
    ///
    /// If one cannot be removed.
    fn retain_checkpoints(&self, kept: Vec<Checkpoint>) -> BoxFuture<'_, io::Result<()>> {
        drop(kept);
        future::ready(Ok(())).boxed()
    }

    /// Warms what a tenant's sandboxes of these layers share, if it is not there, and waits until
    /// it is, or will not be: a zygote, for instance. A spare is launched after it, so that it
    /// can use it; a caller who waits for a sandbox does not wait for this.
    fn warm<'a>(&'a self, layers: &'a [PathBuf], tenant: &'a TenantId) -> BoxFuture<'a, ()>;

    /// Returns true if there would be something to warm for these layers, so that the first sandbox of
    /// them starts slower than others. Blocks for a look at files.
    fn has_warmth(&self, _layers: &[PathBuf]) -> bool {
        false
    }

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

    /// Finds a sandbox that was launched by an earlier server, running or frozen.
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

    /// The last requests of a sandbox to hosts that it reaches by name, the oldest first. Empty if it
    /// does not run.
    fn requests(&self, id: SandboxId) -> BoxFuture<'_, Vec<LoggedRequest>>;

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
    /// A volume cannot be where it was asked for. Its caller can choose another place.
    #[error("volume '{volume}' cannot be mounted at '{path}': {obstacle}")]
    VolumePlace {
        /// Name of the volume.
        volume: String,
        /// The place.
        path: String,
        /// Thing in the way of it, in words.
        obstacle: &'static str,
    },
    /// The sandbox came up but its agent never answered.
    #[error("agent did not answer within {} s", .0.as_secs_f32())]
    AgentSilent(std::time::Duration),
    /// The first process ended before it answered.
    #[error("agent ended before it answered: {0:?}")]
    AgentEnded(Exit),
    /// The backend has no such ability.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

impl LaunchError {
    /// Returns true if the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::NoRoom(_) | Self::AgentSilent(_) => true,
            Self::Host { .. }
            | Self::Step { .. }
            | Self::VolumePlace { .. }
            | Self::AgentEnded(_)
            | Self::Unsupported(_) => false,
        }
    }
}

/// Failure to change a sandbox, which is as it was unless it says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The backend has no such ability.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// It holds what is in no image.
    #[error("cannot {operation}: it has {obstacle}")]
    Unwritable {
        /// The operation, with its object.
        operation: String,
        /// The part that is in no image.
        obstacle: Obstacle,
        /// Reports about it.
        source: Source,
    },
    /// The host did not do it this time.
    #[error("cannot {operation}")]
    Failed {
        /// The operation, with its object.
        operation: String,
        /// The error of the system.
        source: Source,
    },
    /// Its processes are not what they were. They stand, if they did before, and an image of the files can still be
    /// made; of one that ran they are gone.
    #[error("cannot {operation}, and its processes are lost")]
    Damaged {
        /// The operation, with its object.
        operation: String,
        /// Reason of that.
        source: Source,
    },
}

/// The answer of a backend without an ability.
fn unsupported<T: Send + 'static>(
    capability: Capability,
) -> BoxFuture<'static, Result<T, ChangeError>> {
    future::ready(Err(Unsupported(capability).into())).boxed()
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
