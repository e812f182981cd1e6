//! Ctrl-C for a command without a terminal.

use skep_client::{Command, CommandSignal, Sandbox};

use crate::CliError;

/// Ways of asking a command to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    /// As Ctrl-C does.
    Interrupt,
    /// At once, and without being asked.
    Kill,
}

/// Sends the signal `$1` to the process `$2` and to all that it has started, as a terminal would.
/// Agents signal one process only, and a shell does not tell its children.
const TREE: &str = r#"
rest=
next=$2
while [ -n "$next" ]; do
  found=
  for pid in $next; do
    for task in /proc/"$pid"/task/*; do
      found="$found $(cat "$task"/children 2>/dev/null)"
    done
  done
  next=$(echo $found)
  rest="$rest $next"
done
[ -z "${rest# }" ] || kill -s "$1" $rest 2>/dev/null
kill -s "$1" "$2"
"#;

/// Asks a command, and everything that it has started, to end.
pub(super) async fn interrupt(
    sandbox: &Sandbox,
    user: Option<&str>,
    pid: u32,
    force: Force,
) -> Result<(), CliError> {
    let (name, signal) = match force {
        Force::Interrupt => ("INT", CommandSignal::Terminate),
        Force::Kill => ("KILL", CommandSignal::Kill),
    };
    let commands = sandbox.commands();
    let mut tree = Command::new("/bin/sh").args(["-c", TREE, "sh", name]);
    tree = tree.args([pid.to_string()]);
    if let Some(user) = user {
        tree = tree.user(user);
    }
    // Where there is no shell, or it fails, the agent does what it can.
    if let Ok(done) = commands.run(tree).await
        && done.code == 0
    {
        return Ok(());
    }
    match commands.signal(pid, signal).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}
