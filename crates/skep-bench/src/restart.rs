//! A killed server until its sandboxes answer again, and contexts, new and restarted.

use std::time::Instant;

use crate::bench::Bench;
use crate::error::BenchError;
use crate::measurement::Series;
use crate::sandbox::Sandbox;

const READY: Series = Series::seconds(
    "restart.server_ready",
    "server started after kill -9 → ready",
);
const ADOPTED: Series = Series::seconds(
    "restart.adopted",
    "server started after kill -9 → a sandbox of before runs a command",
);
const CONTEXT: Series = Series::seconds("restart.new_context", "new context");
const CONTEXT_RESULT: Series = Series::seconds(
    "restart.new_context_result",
    "new context → its first result",
);
const AGAIN: Series = Series::seconds("restart.context_restart", "restart of a context");
const AGAIN_RESULT: Series = Series::seconds(
    "restart.context_restart_result",
    "restart of a context → its first result",
);

pub(crate) async fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let (sandbox, interprets) = bench.warm_sandbox().await?;
    if bench.own.is_none() {
        bench
            .notes
            .push("only a server that was started by the bench is killed: not measured".to_owned());
    }
    // Before any restart: a sandbox that is adopted starts its kernels instead of forking them.
    if interprets {
        for round in bench.all_rounds() {
            bench.begin_round(round);
            contexts(bench, &sandbox).await?;
        }
    }
    if bench.own.is_some() {
        for round in bench.all_rounds() {
            bench.begin_round(round);
            server(bench, &sandbox).await?;
        }
    }
    bench.kill(&sandbox).await
}

async fn contexts(bench: &mut Bench<'_>, sandbox: &Sandbox) -> Result<(), BenchError> {
    let start = Instant::now();
    let context = sandbox.new_context("python").await?;
    bench.since(CONTEXT, start);
    sandbox.run_one(Some(&context)).await?;
    bench.since(CONTEXT_RESULT, start);

    let start = Instant::now();
    sandbox.restart_context(&context).await?;
    bench.since(AGAIN, start);
    sandbox.run_one(Some(&context)).await?;
    bench.since(AGAIN_RESULT, start);
    sandbox.remove_context(&context).await
}

async fn server(bench: &mut Bench<'_>, sandbox: &Sandbox) -> Result<(), BenchError> {
    let own = bench.own_server()?;
    own.kill().await?;
    let start = Instant::now();
    own.start_again().await?;
    bench.since(READY, start);
    sandbox.command("echo hello").await?;
    bench.since(ADOPTED, start);
    Ok(())
}
