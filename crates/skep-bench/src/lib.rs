//! `skep bench`: measures a server over the wire, as an SDK sees it, beside floors and rivals.
//!
//! [`run`] is the entry: it measures one part and gives a [`Report`], which is rendered as JSON, as
//! a table, as a plot of characters or as SVG. Nothing is printed here. A part is a file of its
//! own; what is compared alternates round by round, so that a host that grows slow grows slow for
//! everybody.

mod args;
mod bench;
mod build;
mod burst;
mod compare;
mod context;
mod copies;
mod criu_floor;
mod density;
mod egress;
mod error;
mod exec;
mod files;
mod floor;
mod host_info;
mod languages;
mod measurement;
mod pause;
mod processes;
mod progress;
mod proxy;
mod report;
mod restart;
mod rival;
mod run;
mod samples;
mod sandbox;
mod server;
mod stream;
mod targets;
mod tti;

pub use args::{BenchArgs, Rounds};
pub use criu_floor::{CRIU_FLOOR, HELD_TREE, hold as hold_tree, run as run_criu_floor};
pub use egress::{EGRESS_ROLE, run as run_egress_role};
pub use error::BenchError;
pub use floor::{FLOOR, run as run_floor};
pub use host_info::HostInfo;
pub use measurement::{Measurement, Unit};
pub use progress::Progress;
pub use report::Report;
pub use run::run;
pub use samples::Summary;
pub use server::Setup;
pub use targets::{Reached, Verdict};
