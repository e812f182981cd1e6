//! Launches real sandboxes on this host, and looks at them from inside and outside.
//!
//! The test executable is launcher, agent and user program, too: it is static, as ours is.

#![expect(
    clippy::unwrap_used,
    reason = "these are tests, but clippy knows only those of the usual harness"
)]

mod addresses;
mod agent;
mod bench;
mod beside;
mod checkpoint;
mod checks;
mod contract;
mod crash;
mod destroy;
mod double;
mod edited;
mod encrypted;
mod freeze;
mod inspected;
mod life;
mod limits;
mod measure;
mod named_hosts;
mod network;
mod own_proxy;
mod policy;
mod probe;
mod router;
mod secure;
mod socks_server;
mod standing;
mod tenants;
mod uplink;
mod web;
mod zygote;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("launch") => skep_launch::run(),
        Some(skep_egress::EGRESS_PROXY) => skep_egress::run(std::env::args_os().skip(2)),
        Some("agent") => agent::run(&arguments[2..]),
        Some("probe") => probe::run(&arguments[2..]),
        Some("be-zygote") => double::run(&arguments[2..]),
        Some("server") => crash::serve(&arguments[2..]),
        Some("serve") => uplink::serve(&arguments[2..]),
        Some("tls-client") => secure::be_client(&arguments[2..]),
        Some("route") => router::route(&arguments[2..]),
        Some("beside") => beside::serve(&arguments[2..]),
        _ => {
            let tests = [
                contract::TESTS,
                limits::TESTS,
                network::TESTS,
                policy::TESTS,
                named_hosts::TESTS,
                inspected::TESTS,
                inspected::limited::TESTS,
                inspected::other_hosts::TESTS,
                own_proxy::TESTS,
                life::TESTS,
                checks::TESTS,
                crash::TESTS,
                destroy::TESTS,
                freeze::TESTS,
                router::TESTS,
                beside::TESTS,
                zygote::TESTS,
                tenants::TESTS,
                checkpoint::TESTS,
                addresses::TESTS,
                standing::TESTS,
                encrypted::TESTS,
            ];
            let trials = tests.concat().into_iter().map(trial);
            // What is edited are images with a hierarchy for each controller.
            let edited = edited::TESTS
                .iter()
                .copied()
                .map(|test| trial(test).with_ignored_flag(bench::has_unified_cgroups()));
            let trials = trials.chain(edited);
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
            &[$((concat!(module_path!(), "::", stringify!($name)), || crate::bench::block_on($name())),)+];
    };
}
pub(crate) use tests;
