//! The executable that runs in every sandbox, without the server.

use std::process::ExitCode;

/// Exit code of a program that was started in a way it cannot be.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let part = skep_guest::run(std::env::args_os());
    part.unwrap_or(ExitCode::from(USAGE))
}
