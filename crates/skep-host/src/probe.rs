//! Checks of what this host can lend.

mod host;
mod limits;
mod network;

use std::io;
use std::process::{Command, Stdio};

use crate::config::HostConfig;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Subject of the check.
    pub name: &'static str,
    /// Consequence of the result for sandboxes.
    pub status: CheckStatus,
    /// Result of the check, for display.
    pub detail: String,
    /// Remedy for the operator, if there is one.
    pub cure: Option<String>,
}

/// Consequence of a [`Check`]'s result for sandboxes on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckStatus {
    /// The host is as it should be.
    Good,
    /// Sandboxes run, but something is weaker or slower, or another tier is not there.
    Limited,
    /// Sandboxes do not run on this host as it is.
    Missing,
}

impl Check {
    /// A check of something that is as it should be.
    pub fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            status: CheckStatus::Good,
            detail: detail.into(),
            cure: None,
        }
    }

    /// A check of something without which sandboxes are weaker or slower.
    pub fn limited(
        name: &'static str,
        detail: impl Into<String>,
        cure: impl Into<Option<&'static str>>,
    ) -> Self {
        Self {
            name,
            status: CheckStatus::Limited,
            detail: detail.into(),
            cure: cure.into().map(str::to_owned),
        }
    }

    /// A check of something without which sandboxes do not run.
    pub fn missing(name: &'static str, detail: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            name,
            status: CheckStatus::Missing,
            detail: detail.into(),
            cure: Some(cure.into()),
        }
    }
}

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
