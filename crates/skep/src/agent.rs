//! `skep agent`, the first process of a sandbox.

use skep_agent::{Listen, Options};
use skep_cli::CliError;

use crate::args::AgentArgs;
use crate::{interpreter, logging};

/// Runs the agent; returns only if it cannot start.
///
/// # Errors
///
/// If a descriptor is not there, or the agent cannot start.
pub(crate) fn run(args: &AgentArgs) -> Result<(), CliError> {
    logging::start(Some("warn"));
    let mut fds = Vec::new();
    for (name, number) in &args.fds {
        let fd = skep_linux::take_inherited(*number).map_err(CliError::failure)?;
        fds.push((name.clone(), fd));
    }
    let mut options = Options::from_fds(fds).map_err(CliError::failure)?;
    options.listen = Listen::At(args.listen);
    options.side_service = Some(interpreter::side_service());
    skep_agent::run(options).map_err(CliError::failure)
}
