//! The real server with real sandboxes: killed at random moments, stopped, replaced, asked.
//!
//! `SKEP_CHAOS_ROUNDS` says how often the server is killed; a few times are enough for every
//! day, hundreds for a release.

#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]
#![expect(clippy::print_stderr, reason = "seeds and figures are for people")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "anything else fails the test"
)]

mod bench;
mod builds;
mod commands;
mod criu;
mod events;
mod examples;
mod full_disk;
mod hosts;
mod installation;
mod kills;
mod languages;
mod ledger;
mod load;
mod logs;
mod machine;
mod mcp;
mod metrics;
mod packages;
mod private;
mod repl;
mod restarts;
mod resumes;
mod run;
mod scale;
mod sleep;
mod snapshots;
mod templates;
mod terminal;
mod traces;
mod trust;
mod uninstall;
mod volume_commands;
mod volumes;
mod witness;
