//! Exit codes of commands, as shells and Docker have them.

use skep_client::{Cause, ClientError};

/// A program that is there, and cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// A program that is not there.
const NOT_FOUND: u8 = 127;
/// Signals by the names that agents tell them by.
const SIGNALS: &[(&str, u8)] = &[
    ("hangup", 1),
    ("interrupt", 2),
    ("quit", 3),
    ("illegal instruction", 4),
    ("trace/breakpoint trap", 5),
    ("aborted", 6),
    ("bus error", 7),
    ("floating point exception", 8),
    ("killed", 9),
    ("user defined signal 1", 10),
    ("segmentation fault", 11),
    ("user defined signal 2", 12),
    ("broken pipe", 13),
    ("alarm clock", 14),
    ("terminated", 15),
];

/// Exit code of a command that has ended: its own, or 128 and the number of the signal.
pub(in crate::sandbox) fn exit_code(code: i32, status: &str) -> u8 {
    if let Ok(code) = u8::try_from(code) {
        return code;
    }
    let name = status.strip_prefix("signal: ").unwrap_or(status);
    let known = SIGNALS.iter().find(|(known, _)| name.starts_with(known));
    let number = known.map(|(_, number)| *number).or_else(|| {
        // Those without a name have their number.
        name.strip_prefix("signal ")?
            .split(' ')
            .next()?
            .parse()
            .ok()
    });
    128 + number.unwrap_or_default()
}

/// Exit code of a command that the agent could not execute; `None` if it failed otherwise.
pub(super) fn failed_start(error: &ClientError) -> Option<u8> {
    let (code, message) = match error.cause() {
        Cause::Agent { code, message } => (code.as_str(), message),
        Cause::Refused {
            status: 400,
            message,
        } => ("invalid_argument", message),
        Cause::Address(_)
        | Cause::Setup(_)
        | Cause::Unreachable { .. }
        | Cause::Refused { .. }
        | Cause::Answer(_)
        | Cause::Lost(_) => return None,
    };
    if code != "invalid_argument" || !message.starts_with("cannot start") {
        return None;
    }
    Some(if message.contains("No such file") {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_128_and_its_number() {
        for (code, status, expected) in [
            (0, "exit status 0", 0),
            (255, "exit status 255", 255),
            (-1, "signal: killed", 137),
            (-1, "signal: interrupt", 130),
            (-1, "signal: segmentation fault (core dumped)", 139),
            (-1, "signal: signal 34", 162),
            (-1, "odd", 128),
        ] {
            assert_eq!(exit_code(code, status), expected, "{status}");
        }
    }
}
