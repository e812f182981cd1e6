//! A server that still uses the installation.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use skep_host::RunningServer;

use crate::InstallError;

/// Time limit for a stop in good order.
const STOP: Duration = Duration::from_secs(60);

/// The error for an uninstallation while a server runs.
pub fn still_runs(data_dir: &Path, server: RunningServer) -> InstallError {
    let by_hand = match server.pid {
        Some(pid) => format!("`kill {pid}`, or `systemctl stop skep` if it is a service, stops it"),
        None => "stop it first".to_owned(),
    };
    InstallError::input(
        format!("a server uses `{}`", data_dir.display()),
        format!("{by_hand}; `skep uninstall --stop` does so for you"),
    )
}

/// Asks a server to end, and waits until it has.
///
/// # Errors
///
/// If it does not, or nobody knows which process it is.
pub async fn stop(server: RunningServer) -> Result<(), InstallError> {
    let Some(pid) = server.pid.and_then(Pid::from_raw) else {
        return Err(InstallError::input(
            "the process of the server cannot be found",
            "it may run in another container; stop it there",
        ));
    };
    let ended = tokio::task::spawn_blocking(move || end(pid)).await;
    match ended.map_err(InstallError::failure)? {
        Ok(true) => Ok(()),
        Ok(false) => Err(InstallError::failure(format!(
            "the server does not end within {} s",
            STOP.as_secs()
        ))
        .hint(format!(
            "`kill -9 {}` ends it; its sandboxes are removed then",
            pid.as_raw_nonzero()
        ))),
        Err(error) => Err(InstallError::failure(error).hint("the server cannot be stopped")),
    }
}

/// Sends SIGTERM, and returns true if the process has ended in time.
fn end(pid: Pid) -> io::Result<bool> {
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    pidfd_send_signal(&process, Signal::TERM)?;
    let deadline = Timespec::try_from(STOP).map_err(io::Error::other)?;
    let mut watched = [PollFd::new(&process, PollFlags::IN)];
    Ok(poll(&mut watched, Some(&deadline))? > 0)
}
