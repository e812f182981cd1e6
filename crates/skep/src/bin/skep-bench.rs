//! The `skep-bench` executable: measures a server, and compares it with baselines and other systems.
//!
//! A file of its own, so that the one that operators install, and that is the agent in every
//! sandbox, has nothing of it. `skep bench` executes it.

use std::process::ExitCode;

fn main() -> ExitCode {
    skep_admin::bench::main()
}
