//! Surroundings of the programs of this host's users: names of sandboxes, Python's environments.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// Time limit for a program to say whether this host has something. A resolver whose servers do
/// not answer takes longer, and then it does not matter.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Package that lets every program of a host with glibc find names below `localhost`.
pub const NAMES_PACKAGE: &str = "libnss-myhostname";

/// Says whether programs that ask the system find names below `domain`; `None` if that cannot be
/// told.
///
/// Asks by a program of the system's: this one is static, and must not load the modules by which
/// the system resolves names.
pub async fn finds_names_below(domain: &str) -> Option<bool> {
    let name = skep_types::DomainName::new(domain);
    succeeds("getent", &["ahosts", &format!("0-probe.{name}")]).await
}

/// Says whether `python3 -m venv` works, which takes a package of its own on Debian.
pub async fn has_python_venv() -> Option<bool> {
    succeeds("python3", &["-c", "import ensurepip, venv"]).await
}

/// Runs a program without input or output and says whether it ended well; `None` if there is no
/// such program, or it took too long.
async fn succeeds(program: &str, arguments: &[&str]) -> Option<bool> {
    let running = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .status();
    let ended = timeout(ANSWER_TIMEOUT, running).await.ok()?;
    ended.ok().map(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_is_missing_or_hangs_says_nothing() {
        assert_eq!(succeeds("true", &[]).await, Some(true));
        assert_eq!(succeeds("false", &[]).await, Some(false));
        assert_eq!(succeeds("skep-no-such-program", &[]).await, None);
    }
}
