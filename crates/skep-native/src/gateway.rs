//! The machine's side of the network.

use std::fs;
use std::io;

use skep_linux::route::Routes;

use crate::instance::{Names, Slot};

const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
/// How many neighbours the machine remembers: in any case, for a while, and at most.
///
/// There is one table for all networks of the machine, and each sandbox is in it twice: it is
/// the gateway's neighbour and the gateway is its. The usual bound of 1024 is reached by five
/// hundred sandboxes, and from then on some are not reached at random.
const NEIGHBOURS: [(&str, u32); 3] = [
    ("/proc/sys/net/ipv4/neigh/default/gc_thresh1", 8_192),
    ("/proc/sys/net/ipv4/neigh/default/gc_thresh2", 16_384),
    ("/proc/sys/net/ipv4/neigh/default/gc_thresh3", 32_768),
];

/// Makes the interface that holds the gateway's address, unless an earlier server has, and
/// lets the machine pass packets on. Blocks.
///
/// The interface is a bridge without ports: it is there on every kernel that runs containers.
pub(crate) fn set_up(names: Names) -> io::Result<()> {
    let mut routes = Routes::open()?;
    let interface = names.gateway_interface();
    match routes.make_bridge(&interface) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let index = routes.index_of(&interface)?;
    routes.add_address(index, names.gateway(), 32)?;
    if fs::read_to_string(FORWARD)?.trim() != "1" {
        fs::write(FORWARD, "1")?;
    }
    NEIGHBOURS
        .iter()
        .try_for_each(|(path, least)| raise(path, *least))
}

/// Raises a bound of the machine that is lower. One that its owner has raised further stays.
fn raise(path: &str, least: u32) -> io::Result<()> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        // Only the machine's first network namespace has it, and a server may be in another.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let now: u32 = text.trim().parse().map_err(io::Error::other)?;
    if now < least {
        fs::write(path, least.to_string())?;
    }
    Ok(())
}

/// Takes the interface away. Packets are still passed on: others may have come to rely on it.
pub(crate) fn take_down(names: Names) -> io::Result<()> {
    Routes::open()?.delete_link(&names.gateway_interface())?;
    Ok(())
}

/// Removes a sandbox's link, if it is there. Blocks.
pub(crate) fn remove_link(slot: Slot) -> io::Result<()> {
    Routes::open()?.delete_link(&slot.interface())?;
    Ok(())
}

/// What came to a sandbox and what it sent, in bytes. Blocks.
pub(crate) fn traffic(slot: Slot) -> io::Result<(u64, u64)> {
    let read = |name: &str| {
        let path = format!("/sys/class/net/{}/statistics/{name}", slot.interface());
        let text = fs::read_to_string(path)?;
        text.trim().parse().map_err(io::Error::other)
    };
    // The interface is the machine's end: what it sends is what the sandbox gets.
    Ok((read("tx_bytes")?, read("rx_bytes")?))
}

/// The slots of all links that are there. Blocks.
pub(crate) fn links(names: Names) -> io::Result<Vec<Slot>> {
    let mut slots = Vec::new();
    for interface in fs::read_dir("/sys/class/net")? {
        let name = interface?.file_name();
        slots.extend(name.to_str().and_then(|name| names.slot_of_interface(name)));
    }
    Ok(slots)
}
