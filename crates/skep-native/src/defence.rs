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
    /// The policy of the filter that iptables shares is not for sandboxes.
    SharedFilter,
    /// Restored tasks are looked at before they run.
    InspectedTasks,
}

impl Defence {
    /// The defence, if it is the launcher that puts it up.
    pub(crate) fn of_launcher(self) -> Option<skep_launch::Defence> {
        match self {
            Self::Launch(defence) => Some(defence),
            Self::OwnUsers
            | Self::OwnNetwork
            | Self::DeniedRanges
            | Self::OwnersRules
            | Self::CutConnections
            | Self::ClosedHost
            | Self::ClosedNeighbours
            | Self::CheckedSenders
            | Self::CheckedNames
            | Self::NamedHosts
            | Self::InspectedRequests
            | Self::CountedSockets
            | Self::UntrackedNames
            | Self::ApartNetworks
            | Self::SharedFilter
            | Self::InspectedTasks => None,
        }
    }

    /// The defence, if it is one of the host.
    pub(crate) fn of_host(self) -> Option<skep_host::Defence> {
        match self {
            Self::Launch(skep_launch::Defence::NoIpv6) => Some(skep_host::Defence::NoIpv6),
            Self::Launch(_) | Self::OwnUsers | Self::OwnNetwork | Self::InspectedTasks => None,
            Self::DeniedRanges => Some(skep_host::Defence::DeniedRanges),
            Self::OwnersRules => Some(skep_host::Defence::OwnersRules),
            Self::CutConnections => Some(skep_host::Defence::CutConnections),
            Self::ClosedHost => Some(skep_host::Defence::ClosedHost),
            Self::ClosedNeighbours => Some(skep_host::Defence::ClosedNeighbours),
            Self::CheckedSenders => Some(skep_host::Defence::CheckedSenders),
            Self::CheckedNames => Some(skep_host::Defence::CheckedNames),
            Self::NamedHosts => Some(skep_host::Defence::NamedHosts),
            Self::InspectedRequests => Some(skep_host::Defence::InspectedRequests),
            Self::CountedSockets => Some(skep_host::Defence::CountedSockets),
            Self::UntrackedNames => Some(skep_host::Defence::UntrackedNames),
            Self::ApartNetworks => Some(skep_host::Defence::ApartNetworks),
            Self::SharedFilter => Some(skep_host::Defence::SharedFilter),
        }
    }
}
