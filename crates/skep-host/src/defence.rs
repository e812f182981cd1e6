//! Defences that a control experiment can leave out. Nothing that configures a server leads to
//! this list.

/// A defence of the host between a sandbox and the host, its neighbours or the operator's network.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defence {
    /// Packets of the sixth version are dropped.
    NoIpv6,
    /// Private ranges are not reached.
    DeniedRanges,
    /// Ranges that their owners deny are not reached.
    OwnersRules,
    /// Connections that a changed policy denies are cut.
    CutConnections,
    /// The host is not reached, except for names.
    ClosedHost,
    /// Other sandboxes are not reached.
    ClosedNeighbours,
    /// Packets have the sender's own addresses.
    CheckedSenders,
    /// Names do not lead into denied ranges.
    CheckedNames,
    /// Hosts are reached by their names only if a rule names them.
    NamedHosts,
    /// Requests to hosts that have rules are read and judged.
    InspectedRequests,
    /// Memory held by sockets is counted.
    CountedSockets,
    /// Questions for names leave nothing in the host's table of connections.
    UntrackedNames,
    /// The host's other networks do not reach each other through it because of us.
    ApartNetworks,
    /// The policy of the filter that iptables shares is not for sandboxes. It keeps nothing out; a
    /// control shows that without it nothing gets through.
    SharedFilter,
}
