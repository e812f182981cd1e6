//! Defences that a control experiment can leave out; see [`skep_launch::Defence`], whose promise
//! holds here, too: nothing that configures a server leads to this list.

/// A defence between a sandbox and the host, its neighbours or the operator's network.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Defence {
    /// One of those that the launcher puts up.
    Launch(skep_launch::Defence),
    /// A range of user ids of its own.
    OwnUsers,
    /// A network namespace of its own.
    OwnNetwork,
    /// Private ranges are not reached.
    DeniedRanges,
    /// The host is not reached, except for names.
    ClosedHost,
    /// Other sandboxes are not reached.
    ClosedNeighbours,
    /// Packets have the sender's own addresses.
    CheckedSenders,
    /// Naming do not lead into denied ranges.
    CheckedNames,
    /// Memory held by sockets is counted.
    CountedSockets,
    /// Questions for names leave nothing in the host's table of connections.
    UntrackedNames,
    /// The host's other networks do not reach each other through it because of us.
    ApartNetworks,
}
