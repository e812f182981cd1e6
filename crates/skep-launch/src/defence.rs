//! Defences that a control experiment can leave out, one at a time.
//!
//! An attack that fails proves little if it would fail anywhere. The attack suite therefore
//! repeats each attack in a sandbox from which the defences it runs against are taken away, and
//! demands that it succeeds there. [`Defence`] names those defences.
//!
//! Nothing that configures a server leads here: no key of the configuration, no variable, no
//! flag and no field of the API becomes a [`Defence`]. Only code that builds a
//! [`crate::LaunchPlan`] can name one, the launcher takes plans from nobody but the process
//! that started it, and `skep serve` builds plans whose list is empty. Whoever could change
//! that runs code as root on the host, and needs no such list.

use serde::{Deserialize, Serialize};

/// A defence of the host, or of other sandboxes, against a sandbox.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Defence {
    /// The filter of system calls.
    Filter,
    /// Capabilities out of the bounding set.
    Capabilities,
    /// No namespaces inside.
    NamespaceLimits,
    /// Files of `/proc` that are about the host are covered.
    MaskedProc,
    /// Files of `/proc` that change the host are read-only.
    ReadOnlyProc,
    /// Only a few directories of `/sys`.
    MinimalSys,
    /// Only a few devices, and own shared memory.
    MinimalDev,
    /// In a build nothing is made in `/dev`.
    ReadOnlyDev,
    /// The host's files are mounted nowhere: the root is changed by `pivot_root`.
    OwnRoot,
    /// A pid namespace.
    OwnProcesses,
    /// An ipc namespace.
    OwnIpc,
    /// A cgroup namespace.
    OwnCgroups,
    /// A session keyring of its own.
    OwnKeyring,
    /// A crash writes nothing and starts nothing.
    NoCoreDumps,
    /// No IPv6 on the link.
    NoIpv6,
    /// The kernel keeps no copies of what was sent.
    NoCopies,
    /// Limits of the memory that the kernel keeps for a socket beside its queues.
    SocketLimits,
}
