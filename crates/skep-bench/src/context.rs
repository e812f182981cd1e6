//! Copies of a context: forks, checkpoints and rollbacks, beside a plain fork of the same process.

use std::time::Instant;

use skep_client::ContextRef;

use crate::bench::Bench;
use crate::error::BenchError;
use crate::measurement::Series;
use crate::sandbox::Sandbox;

const FLOOR: Series = Series::seconds(
    "context.plain_fork",
    "os.fork() in the context → its child says something",
);
pub(crate) const CHECKPOINT: Series = Series::seconds("context.checkpoint", "checkpoint");
pub(crate) const ROLLBACK: Series = Series::seconds("context.rollback", "rollback");
const ROLLBACK_RESULT: Series = Series::seconds(
    "context.rollback_result",
    "rollback → first result after it",
);
const FORK: Series = Series::seconds("context.fork", "fork");
const FORK_RESULT: Series =
    Series::seconds("context.fork_result", "fork → first result of the copy");

/// Names that the template may lack change nothing but the size.
const PREPARE: &str = "\
import os, time
try:
    import numpy, pandas, matplotlib.pyplot
except ImportError:
    pass
rows = list(range(1_000_000))
1";

/// As small as a fork can be: the child says one byte and ends.
const PLAIN_FORK: &str = "\
reader, writer = os.pipe()
start = time.perf_counter()
child = os.fork()
if not child:
    os.write(writer, b'x')
    os._exit(0)
os.read(reader, 1)
took = time.perf_counter() - start
os.waitpid(child, 0)
os.close(reader)
os.close(writer)
print(took)";

pub(crate) async fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let (sandbox, interprets) = bench.warm_sandbox().await?;
    if interprets {
        let context = sandbox.new_context("python").await?;
        sandbox.show_one(PREPARE, ContextRef::Id(&context)).await?;
        for round in bench.all_rounds() {
            bench.begin_round(round);
            copies(bench, &sandbox, &context).await?;
        }
    }
    bench.kill(&sandbox).await
}

async fn copies(bench: &mut Bench<'_>, sandbox: &Sandbox, context: &str) -> Result<(), BenchError> {
    let floor = sandbox
        .print_number(PLAIN_FORK, ContextRef::Id(context))
        .await?;
    bench.recorder.add(FLOOR, floor);

    let checkpoint = bench
        .time(CHECKPOINT, sandbox.checkpoint_context(context))
        .await?;
    let start = Instant::now();
    sandbox.roll_back_context(context, &checkpoint).await?;
    bench.since(ROLLBACK, start);
    sandbox.run_one(Some(context)).await?;
    bench.since(ROLLBACK_RESULT, start);
    sandbox.remove_checkpoint(context, &checkpoint).await?;

    let start = Instant::now();
    let fork = sandbox.fork_context(context).await?;
    bench.since(FORK, start);
    sandbox.run_one(Some(&fork)).await?;
    bench.since(FORK_RESULT, start);
    sandbox.remove_context(&fork).await
}
