//! Launches real processes in real namespaces.
//!
//! The test executable is launcher and launched program, too: it is static, as ours is, and
//! the launcher must not have a second thread, which the usual test harness would start.

#![expect(
    clippy::unwrap_used,
    reason = "these are tests, but clippy knows only those of the usual harness"
)]

mod build;
mod confined;
mod criu;
mod faults;
mod fork_server;
mod measure;
mod nested_users;
mod plan;
mod probe;
mod sandbox;
mod volumes;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("launch") => skep_launch::run(),
        Some("confined") => confined::run(),
        Some("probe") => probe::run(&arguments[2..]),
        Some("server") => fork_server::serve(),
        _ => {
            let tests = [
                sandbox::TESTS,
                volumes::TESTS,
                nested_users::TESTS,
                build::TESTS,
                confined::TESTS,
                criu::TESTS,
                faults::TESTS,
                fork_server::TESTS,
            ];
            let trials = tests.concat().into_iter().map(trial);
            let measured = measure::TESTS
                .iter()
                .copied()
                .map(|test| trial(test).with_ignored_flag(true));
            let trials = trials.chain(measured).collect();
            libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
        }
    }
}

fn trial((name, test): Test) -> Trial {
    Trial::test(name, move || -> Result<(), Failed> {
        test();
        Ok(())
    })
}

/// A test: the sentence it checks, and how.
type Test = (&'static str, fn());

/// Names each function, so that none is forgotten: one that is not listed is dead code.
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        pub(crate) const TESTS: &[crate::Test] =
            &[$((concat!(module_path!(), "::", stringify!($name)), $name),)+];
    };
}
pub(crate) use tests;
