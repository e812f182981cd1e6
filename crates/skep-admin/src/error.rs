//! Errors of an installation, as the command line tells them.

use skep_cli::{CliError, ExitKind};
use skep_install::{Cause, InstallError};

/// A failure of work on an installation, with its hints and its exit code.
pub fn install_error(error: InstallError) -> CliError {
    CliError {
        kind: match error.cause {
            Cause::Operator => ExitKind::Input,
            Cause::Host => ExitKind::Failure,
        },
        source: error.source,
        hints: error.hints,
    }
}
