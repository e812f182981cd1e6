//! What this machine can offer, found out by trying.

mod limits;
mod machine;
mod network;
mod trial;

use std::io;
use std::process::{Command, Stdio};

use crate::config::NativeConfig;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// What it means.
    pub status: CheckStatus,
    /// What was found.
    pub detail: String,
    /// What can be done about it.
    pub cure: Option<String>,
}

/// What a [`Check`] means for sandboxes on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckStatus {
    /// As it should be.
    Good,
    /// Sandboxes run, but something is weaker or slower, or another tier is not there.
    Limited,
    /// Sandboxes do not run on this machine as it is.
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

/// Looks at everything that sandboxes need of this machine, and tries what can only be found
/// out by trying. Blocks for a second or so; leaves nothing behind.
///
/// Needs no running server and disturbs none.
pub fn probe(config: &NativeConfig) -> Vec<Check> {
    let mut checks = vec![
        machine::kernel(),
        machine::privileges(),
        machine::user_namespaces(),
        machine::user_ids(),
        machine::cgroups(config),
        machine::crash_handler(),
        machine::disk_tool(),
        machine::disk_quota(&config.data_dir),
        trial::launch(config),
        network::packet_filter(),
        network::other_filters(),
        network::forwarding(),
        network::addresses(),
        machine::checkpoints(),
        machine::gvisor(),
        machine::virtual_machines(),
    ];
    checks.extend(limits::limits(config));
    checks
}

/// What a program prints about itself; `None` if it is not installed.
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
