//! `install_packages`

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::Deserialize;
use skep_client::Command;

use super::{Call, run_command};
use crate::failure::Failure;

/// Time limit of an installation that names none.
const USUAL_TIMEOUT: u64 = 300;
const PIP: &str =
    r#"exec python3 -m pip install --no-input --disable-pip-version-check --quiet -- "$@""#;
const NPM: &str = r#"exec npm install --no-fund --no-audit --loglevel=error -- "$@""#;
const APT: &str = r#"export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && exec apt-get install -qq -y --no-install-recommends -- "$@""#;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// Packages, with versions if need be, such as `pandas==2.2.0`.
    #[schemars(length(min = 1, max = 100))]
    packages: Vec<String>,
    /// Registry that they come from.
    #[serde(default)]
    manager: Manager,
    /// Seconds after which the installation is killed.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    timeout_seconds: Option<u64>,
    /// ID or name of the sandbox; without it the usual one is used.
    #[serde(default)]
    sandbox: Option<String>,
}

/// Package manager.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
enum Manager {
    #[default]
    Pip,
    Npm,
    Apt,
}

pub(crate) async fn run(call: &Call<'_>, arguments: Arguments) -> Result<CallToolResult, Failure> {
    if arguments.packages.is_empty() {
        return Err(Failure::new(
            "no package is named",
            "Name at least one in `packages`.",
        ));
    }
    for package in &arguments.packages {
        check(package)?;
    }
    let found = call
        .session
        .sandbox(call.client, arguments.sandbox.as_deref())
        .await?;
    let (script, user) = match arguments.manager {
        Manager::Pip => (PIP, None),
        Manager::Npm => (NPM, None),
        Manager::Apt => (APT, Some("root")),
    };
    let words = ["-l", "-c", script, "install"]
        .map(str::to_owned)
        .into_iter();
    let mut command = Command::new("/bin/bash").args(words.chain(arguments.packages));
    if let Some(user) = user {
        command = command.user(user);
    }
    let limit = call.timeout(arguments.timeout_seconds, USUAL_TIMEOUT);
    run_command::follow(call, &found.sandbox, (command, None), limit, found.note).await
}

/// Refuses what would be an option, or is no package at all.
fn check(package: &str) -> Result<(), Failure> {
    let is_odd = package.trim().is_empty()
        || package.starts_with('-')
        || package.len() > 300
        || package.chars().any(char::is_control);
    if is_odd {
        return Err(Failure::new(
            format!("`{package}` is not the name of a package"),
            "Give one package in each string; options are not taken. run_command can do anything else.",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_no_packages() {
        for package in ["", " ", "--index-url=http://evil.example", "-r", "a\nb"] {
            assert!(check(package).is_err(), "{package:?}");
        }
        for package in [
            "pandas",
            "pandas[all]>=2,<3",
            "@types/node@20",
            "git+https://example.com/x",
        ] {
            assert_eq!(check(package), Ok(()), "{package}");
        }
    }
}
