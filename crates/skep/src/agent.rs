//! `skep agent`, the first process of a sandbox.

use std::os::fd::OwnedFd;

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
    let take = |number: i32| -> Result<OwnedFd, CliError> {
        skep_linux::take_inherited(number).map_err(CliError::failure)
    };
    let mut options = Options::new(take(args.config_fd)?);
    options.ready = Some(take(args.ready_fd)?);
    options.log = args.log_fd.map(take).transpose()?;
    options.work_cgroups = args
        .work_cgroup_fds
        .iter()
        .map(|number| take(*number))
        .collect::<Result<_, _>>()?;
    options.kernel_cgroups = args
        .kernel_cgroup_fds
        .iter()
        .map(|(name, number)| Ok((name.clone(), take(*number)?)))
        .collect::<Result<_, CliError>>()?;
    options.fork_socket = args.fork_fd.map(take).transpose()?;
    options.kill_count = args.kill_count_fd.map(take).transpose()?;
    options.listen = Listen::At(args.listen);
    options.side_service = Some(interpreter::side_service());
    skep_agent::run(options).map_err(CliError::failure)
}
