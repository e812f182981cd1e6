//! Tests of the crate through its boundary: most with fakes, some with the real launcher and
//! the real `base` template, which is built once and kept where servers keep it.
//!
//! The test executable is the launcher, too, and the launcher must not have a second thread,
//! which the usual test harness would start.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says where, and that is enough"
)]

mod base;
mod bootstrapping;
mod building;
mod listing;
mod recipes;
mod running;
mod sandboxed;
mod sharing;
mod workshop;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("launch") => return skep_launch::run(),
        Some("build-until-killed") => {
            building::build_until_killed(&arguments[2]);
            return ExitCode::SUCCESS;
        }
        Some("bootstrap-until-killed") => {
            bootstrapping::bootstrap_until_killed(&arguments[2]);
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let tests = [
        base::TESTS,
        bootstrapping::TESTS,
        building::TESTS,
        listing::TESTS,
        recipes::TESTS,
        running::TESTS,
        sandboxed::TESTS,
        sharing::TESTS,
    ];
    let trials = tests.concat().into_iter().map(|(name, test)| {
        Trial::test(name, move || -> Result<(), Failed> {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
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
