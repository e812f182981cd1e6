//! Checks and chores of the workspace: `cargo xtask <command>`.

mod cgroup2;
mod ci;
mod console;
mod environment;
mod fuzz;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Checks and chores of the workspace")]
enum Command {
    /// Check layers, unsafe, names, licences and the rest of what no compiler checks.
    Tidy,
    /// Run everything that must pass before a change is taken.
    Ci(ci::Options),
    /// Run Skep on hosts with cgroup v2, in emulated machines.
    Cgroup2(cgroup2::Options),
    /// Check, test and build the web console, and compare it with what is committed.
    Console(console::Options),
    /// Fuzz everything that reads untrusted input.
    Fuzz(fuzz::Options),
    /// Write the pages that are generated from code.
    Docs {
        /// Only say whether they are up to date.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    let root = workspace_root();
    match Command::parse() {
        Command::Tidy => tidy::run(&root),
        Command::Ci(options) => ci::run(&root, &options),
        Command::Cgroup2(options) => cgroup2::run(&root, &options),
        Command::Console(options) => console::run(&root, &options),
        Command::Fuzz(options) => fuzz::run(&root, &options),
        Command::Docs { check } => environment::write_page(&root, check),
    }
}

fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a directory of the workspace")
        .to_path_buf()
}
