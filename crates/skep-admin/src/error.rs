//! Errors of an installation and of its host, as the command line tells them.

use skep_cli::{CliError, ExitKind};
use skep_host::{InstanceError, StartError};
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

/// A host that could not be made ready for sandboxes.
pub fn start_error(error: StartError) -> CliError {
    let (kind, hint) = match &error {
        StartError::Instance(InstanceError::DataInUse(_)) => (
            ExitKind::Input,
            "stop the other server first, or choose another directory with `--data-dir`",
        ),
        StartError::Instance(InstanceError::AllTaken | InstanceError::File { .. })
        | StartError::Cgroups(_)
        | StartError::Firewall(_)
        | StartError::Dns { .. }
        | StartError::Host { .. } => (
            ExitKind::Failure,
            "`skep doctor` says what this machine lacks",
        ),
    };
    CliError {
        kind,
        ..CliError::failure(error).hint(hint)
    }
}
