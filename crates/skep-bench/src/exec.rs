//! A command beside the same one on this host, and code in a warm interpreter.

use std::process::{Command, Stdio};

use crate::bench::Bench;
use crate::error::{BenchError, local};
use crate::measurement::Series;
use crate::tti::empty_request;

const EMPTY: Series = Series::seconds("exec.empty_request", "a request that does nothing");
const COMMAND: Series = Series::seconds("exec.command", "commands.run(\"echo hello\")");
const HERE: Series = Series::seconds(
    "exec.host_command",
    "the same on this host, without login scripts",
);
const CODE: Series = Series::seconds("exec.run_code", "run_code(\"1\"), warm");

const SHELL: &str = "/bin/bash";
const LINE: &str = "echo hello";

pub(crate) async fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let (sandbox, interprets) = bench.warm_sandbox().await?;
    for round in bench.all_rounds() {
        bench.begin_round(round);
        empty_request(bench, EMPTY).await?;
        bench.time(HERE, async { run_here() }).await?;
        bench.time(COMMAND, sandbox.command(LINE)).await?;
        if interprets {
            bench.time(CODE, sandbox.run_one(None)).await?;
        }
    }
    bench.kill(&sandbox).await
}

/// Runs the same command on this host, without a sandbox. The login scripts of this host are its
/// owner's and say nothing about a sandbox, which has its template's.
fn run_here() -> Result<(), BenchError> {
    let output = Command::new(SHELL)
        .args(["--noprofile", "--norc", "-c", LINE])
        .stdin(Stdio::null())
        .output()
        .map_err(local("run", SHELL))?;
    if output.status.success() {
        return Ok(());
    }
    Err(BenchError::Command {
        command: LINE.to_owned(),
        status: output.status.to_string(),
    })
}
