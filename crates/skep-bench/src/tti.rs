//! Measurement of a sandbox from create to the first command and the first result, step by step.

use std::time::Instant;

use crate::bench::Bench;
use crate::error::BenchError;
use crate::measurement::Series;

pub(crate) const EMPTY: Series =
    Series::seconds("tti.empty_request", "a request that does nothing");
pub(crate) const CREATE: Series = Series::seconds("tti.create", "create");
const READY: Series = Series::seconds("tti.ready", "create → agent answers");
const COMMAND: Series = Series::seconds("tti.first_command", "create → first command has ended");
const RESULT: Series = Series::seconds("tti.first_result", "create → first result of run_code");
const KILL: Series = Series::seconds("tti.kill", "kill");

/// Two sandboxes a round, one for a command and one for code: in one alone, what comes second
/// would find the sandbox warmed by what came first.
pub(crate) async fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let (sandbox, interprets) = bench.warm_sandbox().await?;
    bench.kill(&sandbox).await?;
    for round in bench.all_rounds() {
        bench.begin_round(round);
        bench.pause().await;
        empty_request(bench, EMPTY).await?;

        let start = Instant::now();
        let sandbox = bench.create().await?;
        bench.since(CREATE, start);
        sandbox.ready().await?;
        bench.since(READY, start);
        sandbox.command("echo hello").await?;
        bench.since(COMMAND, start);
        bench.time(KILL, sandbox.kill()).await?;
        bench.forget(&[sandbox]);

        if interprets {
            bench.pause().await;
            let start = Instant::now();
            let sandbox = bench.create().await?;
            sandbox.run_one(None).await?;
            bench.since(RESULT, start);
            bench.kill(&sandbox).await?;
        }
    }
    Ok(())
}

/// A request that is answered without any work: what a client and the wire cost.
pub(crate) async fn empty_request(bench: &mut Bench<'_>, series: Series) -> Result<(), BenchError> {
    let client = bench.client.clone();
    let request = async { Ok(client.health().await?) };
    bench.time(series, request).await.map(drop)
}
