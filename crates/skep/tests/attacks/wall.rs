//! The names of defences in the heads of programs and in the table.

use skep_launch::Defence as Launch;
use skep_native::Defence;

const NAMES: [(&str, Defence); 24] = [
    ("own users", Defence::OwnUsers),
    ("own network", Defence::OwnNetwork),
    ("denied ranges", Defence::DeniedRanges),
    ("closed machine", Defence::ClosedHost),
    ("closed neighbours", Defence::ClosedNeighbours),
    ("checked senders", Defence::CheckedSenders),
    ("checked names", Defence::CheckedNames),
    ("counted sockets", Defence::CountedSockets),
    ("filter", Defence::Launch(Launch::Filter)),
    ("capabilities", Defence::Launch(Launch::Capabilities)),
    ("namespace limits", Defence::Launch(Launch::NamespaceLimits)),
    ("masked proc", Defence::Launch(Launch::MaskedProc)),
    ("read-only proc", Defence::Launch(Launch::ReadOnlyProc)),
    ("minimal sys", Defence::Launch(Launch::MinimalSys)),
    ("minimal dev", Defence::Launch(Launch::MinimalDev)),
    ("own root", Defence::Launch(Launch::OwnRoot)),
    ("own processes", Defence::Launch(Launch::OwnProcesses)),
    ("own ipc", Defence::Launch(Launch::OwnIpc)),
    ("own cgroups", Defence::Launch(Launch::OwnCgroups)),
    ("own keyring", Defence::Launch(Launch::OwnKeyring)),
    ("no core dumps", Defence::Launch(Launch::NoCoreDumps)),
    ("no ipv6", Defence::Launch(Launch::NoIpv6)),
    ("no copies", Defence::Launch(Launch::NoCopies)),
    ("socket limits", Defence::Launch(Launch::SocketLimits)),
];

pub(crate) fn named(name: &str) -> Defence {
    NAMES
        .iter()
        .find_map(|(known, wall)| (*known == name).then_some(*wall))
        .unwrap_or_else(|| panic!("no wall is called `{name}`"))
}

pub(crate) fn name(wall: Defence) -> &'static str {
    NAMES
        .iter()
        .find_map(|(name, known)| (*known == wall).then_some(*name))
        .expect("every wall has a name")
}

/// Every defence that some attack should run against.
pub(crate) fn all() -> impl Iterator<Item = Defence> {
    NAMES.iter().map(|(_, wall)| *wall)
}
