//! Listeners of a restored tree.
//!
//! CRIU binds every socket as one that is shared, and takes that back when all are bound. The kernel
//! remembers it for the port, so root inside could listen where the agent does.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;

use rustix::io::Errno;

use super::HostProc;
use crate::step_error::{About as _, StepError};

/// Tables of this process's network namespace, by protocol.
const TABLES: [&str; 2] = ["self/net/tcp", "self/net/tcp6"];

/// State of a listener in them.
const LISTENS: &str = "0A";

/// Makes the kernel forget that listeners of this process's network namespace were shared.
pub(super) fn forget_sharing(host: &HostProc) -> Result<(), StepError> {
    let mut ports = BTreeSet::new();
    for table in TABLES {
        let file = match host.open_file(table) {
            // A kernel without IPv6 has no such table.
            Err(StepError { errno, .. }) if errno == Errno::NOENT.raw_os_error() => continue,
            opened => opened?,
        };
        let mut text = String::new();
        File::from(file).read_to_string(&mut text)?;
        ports.extend(listening_ports(&text));
    }
    for port in ports {
        skep_linux::forget_sharing(port).about(|| format!("port {port}"))?;
    }
    Ok(())
}

fn listening_ports(table: &str) -> impl Iterator<Item = u16> {
    // Below the heading: number, own address, peer's address, state.
    table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (own, state) = (fields.nth(1)?, fields.nth(1)?);
        let (_, port) = own.rsplit_once(':')?;
        (state == LISTENS).then_some(u16::from_str_radix(port, 16).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_told_from_connections() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n\
            0: 00000000:C33F 00000000:0000 0A 00000000:00000000 00:00000000\n\
            1: 0100007F:0016 0100007F:C350 01 00000000:00000000 00:00000000\n";
        assert_eq!(listening_ports(table).collect::<Vec<_>>(), [49_983]);
        let table = "  sl  local_address                         remote_address        st\n\
            0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A\n";
        assert_eq!(listening_ports(table).collect::<Vec<_>>(), [8080]);
    }
}
