//! Tests of the crate through its boundary, with a real registry on this host and with one that
//! misbehaves.
//!
//! The test executable unpacks layers, too, and such a process must not have a second thread,
//! which the usual test harness would start.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says where, and that is enough"
)]

mod archive;
mod misbehaving;
mod pulling;
mod registry;
mod unpacking;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments
        .next()
        .is_some_and(|first| first == skep_oci::UNPACK_LAYER)
    {
        return skep_oci::unpack_layer(arguments);
    }
    let tests = [misbehaving::TESTS, pulling::TESTS, unpacking::TESTS];
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
