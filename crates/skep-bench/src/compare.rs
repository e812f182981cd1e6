//! Comparison with floors and rivals, in one run, alternating round by round.

mod venv;

use std::time::Instant;

use crate::bench::Bench;
use crate::error::BenchError;
use crate::measurement::Series;
use crate::rival::{self, Rival};
use crate::sandbox::Sandbox;

pub(crate) const CODE: Series = Series::seconds("compare.run_code", "run_code(\"1\"), warm");
pub(crate) const ZMQ: Series = Series::seconds(
    "compare.ipykernel_execute",
    "floor: ipykernel, raw ZeroMQ, no server",
);
pub(crate) const SHELL: Series = Series::seconds(
    "compare.shell_execute",
    "floor: IPython's shell alone, forked",
);
pub(crate) const JUPYTER: Series =
    Series::seconds("compare.jupyter_execute", "rival: through a Jupyter server");
pub(crate) const RESULT: Series =
    Series::seconds("compare.first_result", "create → first result of run_code");
pub(crate) const KERNEL: Series = Series::seconds(
    "compare.ipykernel_start",
    "rival: ipykernel, start → first result",
);
pub(crate) const READY: Series = Series::seconds(
    "compare.ready",
    "create → agent answers, template without interpreter",
);
pub(crate) const NAMESPACES: Series = Series::seconds(
    "compare.namespaces",
    "floor: namespaces, overlay, proc, pivot_root",
);
pub(crate) const CONTEXT: Series =
    Series::seconds("compare.new_context", "new context → its first result");
const FIRST_CONTEXT: Series = Series::seconds(
    "compare.first_context",
    "first context beside a sandbox's own → its first result",
);
pub(crate) const NEW_KERNEL: Series = Series::seconds(
    "compare.jupyter_new_kernel",
    "rival: new kernel of a Jupyter server → its first result",
);

/// Number of repetitions in a row of what takes milliseconds, in every round; what takes a second
/// is done once. In a row, because that is how cells are run: a Jupyter server's WebSocket is slow
/// only then.
const SHORT_ONES: usize = 10;

/// All whom we compare ourselves with.
struct Rivals {
    ipykernel: Rival,
    shell: Rival,
    jupyter: Rival,
    namespaces: Rival,
}

pub(crate) async fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let python = venv::prepare(&bench.rivals, bench.progress)?;
    let (sandbox, interprets) = bench.warm_sandbox().await?;
    if !interprets {
        return Err(BenchError::NeedsInterpreter {
            what: bench.what.name(),
            template: bench.template.to_owned(),
        });
    }
    let scratch = bench.scratch.clone();
    bench.progress.say("starting the rivals");
    let mut rivals = Rivals {
        ipykernel: Rival::python("ipykernel", &python, rival::IPYKERNEL, &scratch).await?,
        shell: Rival::python("IPython's shell", &python, rival::SHELL, &scratch).await?,
        jupyter: Rival::python("a Jupyter server", &python, rival::JUPYTER_SERVER, &scratch)
            .await?,
        namespaces: Rival::floor(&bench.floor, &scratch).await?,
    };
    for round in bench.all_rounds() {
        bench.begin_round(round);
        measure_round(bench, &sandbox, &mut rivals).await?;
    }
    let Rivals {
        ipykernel,
        shell,
        jupyter,
        namespaces,
    } = rivals;
    for rival in [ipykernel, shell, jupyter, namespaces] {
        rival.finish().await?;
    }
    bench.kill(&sandbox).await
}

async fn measure_round(
    bench: &mut Bench<'_>,
    sandbox: &Sandbox,
    rivals: &mut Rivals,
) -> Result<(), BenchError> {
    for _ in 0..SHORT_ONES {
        bench.time(CODE, sandbox.run_one(None)).await?;
    }
    ask(bench, ZMQ, &mut rivals.ipykernel, "execute").await?;
    ask(bench, SHELL, &mut rivals.shell, "execute").await?;
    ask(bench, JUPYTER, &mut rivals.jupyter, "execute").await?;
    for _ in 0..SHORT_ONES {
        let start = Instant::now();
        let template = bench.plain_template;
        let plain = bench.create_from(template).await?;
        plain.ready().await?;
        bench.since(READY, start);
        bench.kill(&plain).await?;
    }
    ask(bench, NAMESPACES, &mut rivals.namespaces, "enter").await?;
    long_ones(bench, sandbox, rivals).await
}

/// Makes a rival do a short thing as often in a row as we do it.
async fn ask(
    bench: &mut Bench<'_>,
    series: Series,
    rival: &mut Rival,
    action: &str,
) -> Result<(), BenchError> {
    for _ in 0..SHORT_ONES {
        bench.recorder.add(series, rival.ask(action).await?);
    }
    Ok(())
}

async fn long_ones(
    bench: &mut Bench<'_>,
    sandbox: &Sandbox,
    rivals: &mut Rivals,
) -> Result<(), BenchError> {
    let start = Instant::now();
    let fresh = bench.create().await?;
    fresh.run_one(None).await?;
    bench.since(RESULT, start);
    let start = Instant::now();
    let context = fresh.new_context("python").await?;
    fresh.run_one(Some(&context)).await?;
    bench.since(FIRST_CONTEXT, start);
    bench.kill(&fresh).await?;
    bench
        .recorder
        .add(KERNEL, rivals.ipykernel.ask("start").await?);

    let start = Instant::now();
    let context = sandbox.new_context("python").await?;
    sandbox.run_one(Some(&context)).await?;
    bench.since(CONTEXT, start);
    sandbox.remove_context(&context).await?;
    bench
        .recorder
        .add(NEW_KERNEL, rivals.jupyter.ask("new").await?);
    Ok(())
}
