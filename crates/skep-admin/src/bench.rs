//! `skep bench`: executes `skep-bench`, which is beside this executable; and what that does.

mod program;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use skep_bench::BenchArgs;
use skep_cli::{CliError, key_of_host};
use skep_config::{Config, env_vars};

use crate::local_key;

pub use program::main;

/// Name of the executable that measures.
const BENCH: &str = "skep-bench";

/// Becomes the bench; returns only if it cannot.
///
/// # Errors
///
/// If `skep-bench` is not there, or cannot be executed.
pub fn run(
    args: &BenchArgs,
    config_file: Option<&Path>,
    config: &Config,
) -> Result<ExitCode, CliError> {
    let skep = std::env::current_exe().map_err(CliError::failure)?;
    let bench = skep.with_file_name(BENCH);
    if !bench.exists() {
        return Err(CliError::input(
            format!("there is no `{}`", bench.display()),
            "`make build` builds it beside `skep`; copy both, or run the one that was built",
        ));
    }
    let mut command = Command::new(bench);
    command
        .args(args.arguments())
        .arg("--skep")
        .arg(&skep)
        .arg("--cache-dir")
        .arg(&config.cache_dir);
    if let Some(file) = config_file {
        command.arg("--config").arg(file);
    }
    // A server of this host is measured with the key of this host; any other needs its own.
    let own_key = args.against.as_deref().and_then(|url| {
        let path = local_key::path(&config.data_dir);
        key_of_host(url, &path).ok()
    });
    if let Some(key) = args.api_key().map(str::to_owned).or(own_key) {
        // By its variable: arguments are shown to everybody by `ps`.
        command.env(env_vars::E2B_API_KEY, key);
    }
    Err(CliError::failure(command.exec()))
}
