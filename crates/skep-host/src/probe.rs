//! Checks of what this host can lend.

mod host;
mod limits;
mod network;

use std::io;
use std::process::{Command, Stdio};

use skep_types::Check;

use crate::config::HostConfig;

/// Looks at the kernel, the rights of this process, cgroups and disks. Blocks.
pub fn checks_of_host(config: &HostConfig) -> Vec<Check> {
    vec![
        host::kernel(),
        host::privileges(),
        host::user_namespaces(),
        host::user_ids(),
        host::cgroups(config),
        host::crash_handler(),
        host::kernel_log(),
        host::disk_tool(),
        host::disk_quota(&config.data_dir),
    ]
}

/// Looks at the packet filter and the routes. Blocks.
pub fn checks_of_network() -> Vec<Check> {
    vec![
        network::packet_filter(),
        network::other_filters(),
        network::forwarding(),
        network::addresses(),
    ]
}

/// Looks for what pauses need. Blocks.
pub fn checks_of_tiers() -> Vec<Check> {
    vec![host::page_out()]
}

/// Looks at the numbers that the kernel counts for all sandboxes together. Blocks.
pub fn checks_of_limits(config: &HostConfig) -> Vec<Check> {
    limits::limits(config)
}

/// Output of a program that prints its version; `None` if it is not installed.
fn ask_program(program: &str, arguments: &[&str]) -> io::Result<Option<String>> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            Ok(Some(text.lines().next().unwrap_or_default().to_owned()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
