//! The host's side of the network.

use std::fs;
use std::io;

use skep_linux::route::Routes;

use crate::instance::{Naming, Slot};
use crate::kernel_settings::{KernelSettings, NEIGHBOURS};

/// Makes the interface that holds the gateway's address, unless an earlier server has, and
/// lets the host pass packets on. Blocks.
///
/// The interface is a bridge without ports: it is there on every kernel that runs containers.
pub(crate) fn set_up(naming: Naming, settings: &KernelSettings) -> io::Result<()> {
    let mut routes = Routes::open()?;
    let interface = naming.gateway_interface();
    match routes.make_bridge(&interface) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let index = routes.index_of(&interface)?;
    routes.add_address(index, naming.gateway(), 32)?;
    settings.switch_forwarding_on()?;
    NEIGHBOURS
        .iter()
        .try_for_each(|setting| settings.raise(*setting))
}

/// Takes the interface away.
pub(crate) fn take_down(naming: Naming) -> io::Result<()> {
    Routes::open()?.delete_link(&naming.gateway_interface())?;
    Ok(())
}

/// Puts the host's end of a sandbox's link into a group. Blocks.
pub(crate) fn set_group(slot: Slot, group: u32) -> io::Result<()> {
    let mut routes = Routes::open()?;
    let index = routes.index_of(&slot.interface())?;
    routes.set_group(index, group)
}

/// Removes a sandbox's link, if it is there. Blocks.
pub(crate) fn remove_link(slot: Slot) -> io::Result<()> {
    Routes::open()?.delete_link(&slot.interface())?;
    Ok(())
}

/// Bytes received and sent by a sandbox. Blocks.
pub(crate) fn traffic(slot: Slot) -> io::Result<(u64, u64)> {
    let read = |name: &str| {
        let path = format!("/sys/class/net/{}/statistics/{name}", slot.interface());
        let text = fs::read_to_string(path)?;
        text.trim().parse().map_err(io::Error::other)
    };
    // The interface is the host's end: what it sends is what the sandbox gets.
    Ok((read("tx_bytes")?, read("rx_bytes")?))
}

/// The slots of all links that are there. Blocks.
pub(crate) fn links(naming: Naming) -> io::Result<Vec<Slot>> {
    let mut slots = Vec::new();
    for interface in fs::read_dir("/sys/class/net")? {
        let name = interface?.file_name();
        slots.extend(
            name.to_str()
                .and_then(|name| naming.slot_of_interface(name)),
        );
    }
    Ok(slots)
}
