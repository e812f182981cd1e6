//! `agent`, the first process of a sandbox.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use skep_agent::{MissingFd, Options, RunError};
use skep_telemetry::{Chain, logging};

use crate::arguments::ArgumentsError;
use crate::{arguments, interpreter};

/// Reasons for which an agent does not run, which the server reads from its standard error.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    #[error("cannot take descriptor {number} (`{name}`)")]
    Descriptor {
        name: String,
        number: i32,
        source: io::Error,
    },
    #[error(transparent)]
    Missing(#[from] MissingFd),
    #[error(transparent)]
    Agent(#[from] RunError),
}

/// Runs the agent; returns only if it cannot start.
#[expect(
    clippy::print_stderr,
    reason = "the one line that the server shows of an agent that did not start"
)]
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match start(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", Chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: impl Iterator<Item = OsString>) -> Result<(), StartError> {
    let named = arguments::fds(arguments)?;
    logging::start(Some("warn"), None, logging::Reader::Operator);
    let mut fds = Vec::new();
    for (name, number) in named {
        match skep_linux::take_inherited(number) {
            Ok(fd) => fds.push((name, fd)),
            Err(source) => {
                return Err(StartError::Descriptor {
                    name,
                    number,
                    source,
                });
            }
        }
    }
    let mut options = Options::from_fds(fds)?;
    options.side_service = Some(interpreter::side_service());
    Ok(skep_agent::run(options)?)
}
