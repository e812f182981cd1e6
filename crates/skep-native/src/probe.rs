//! Checks of this host's abilities, found out by trying.

mod host;
mod limits;
mod network;
mod trial;

use std::io;
use std::process::{Command, Stdio};

use crate::config::NativeConfig;

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
    fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            status: CheckStatus::Good,
            detail: detail.into(),
            cure: None,
        }
    }

    fn limited(
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

    fn missing(name: &'static str, detail: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            name,
            status: CheckStatus::Missing,
            detail: detail.into(),
            cure: Some(cure.into()),
        }
    }
}

/// Looks at everything that sandboxes need of this host, and tries what can only be found
/// out by trying. Blocks for a second or so; leaves nothing behind.
///
/// Needs no running server and disturbs none.
pub fn probe(config: &NativeConfig) -> Vec<Check> {
    let mut checks = vec![
        host::kernel(),
        host::privileges(),
        host::user_namespaces(),
        host::user_ids(),
        host::cgroups(config),
        host::crash_handler(),
        host::disk_tool(),
        host::disk_quota(&config.data_dir),
        trial::launch(config),
        network::packet_filter(),
        network::other_filters(),
        network::forwarding(),
        network::addresses(),
        host::checkpoints(),
        host::gvisor(),
        host::virtual_machines(),
    ];
    checks.extend(limits::limits(config));
    checks
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
