//! Copies of a sandbox: forks of one that runs, and snapshots that others are made of.

use std::time::Instant;

use futures_util::future::try_join_all;

use crate::bench::Bench;
use crate::error::BenchError;
use crate::measurement::Series;
use crate::pause::{floor_of, laden_sandbox};
use crate::sandbox::Sandbox;

pub(crate) const ONE: Series = Series::seconds("fork.one", "fork → the copy gives a result");
const ONE_ANSWER: Series = Series::seconds("fork.one_answer", "fork, until the answer");
pub(crate) const MANY: Series = Series::seconds(
    "fork.many",
    "fork of many at once → every copy gives a result",
);
const MANY_ANSWER: Series =
    Series::seconds("fork.many_answer", "fork of many at once, until the answer");
const SOURCE: Series = Series::seconds("fork.source", "the next result of the source");
const CRIU: Series = Series::seconds(
    "fork.criu",
    "floor: CRIU alone writes and restores as much memory",
);

const SNAPSHOT: Series =
    Series::seconds("snapshot.memory", "snapshot with memory, until the answer");
const CREATE: Series = Series::seconds(
    "snapshot.memory_create",
    "create from a snapshot with memory → a result",
);
const CRIU_DUMP: Series = Series::seconds(
    "snapshot.criu_dump",
    "floor: CRIU alone writes as much memory",
);
const CRIU_RESTORE: Series = Series::seconds(
    "snapshot.criu_restore",
    "floor: CRIU alone restores as much memory",
);
const FILES: Series = Series::seconds(
    "snapshot.files",
    "snapshot of files alone, until the answer",
);
const FILES_CREATE: Series = Series::seconds(
    "snapshot.files_create",
    "create from a snapshot of files → a command",
);
const FRESH: Series = Series::seconds(
    "snapshot.template_create",
    "floor: create from the template → a command",
);

/// Number of copies that the targets are about.
const TARGET_COUNT: u32 = 10;

/// Measures copies of a running sandbox.
pub(crate) async fn measure_forks(
    bench: &mut Bench<'_>,
    memory: u32,
    count: u32,
) -> Result<(), BenchError> {
    bench.note_number(TARGET_COUNT, count);
    let sandbox = laden_sandbox(bench, memory).await?;
    let mut floor = floor_of(bench, &sandbox).await?;
    for round in bench.all_rounds() {
        bench.begin_round(round);
        fork(bench, &sandbox, 1, [ONE_ANSWER, ONE]).await?;
        bench.time(SOURCE, sandbox.run_one(None)).await?;
        fork(bench, &sandbox, count, [MANY_ANSWER, MANY]).await?;
        if let Some(floor) = &mut floor {
            let took = floor.ask("dump").await? + floor.ask("restore").await?;
            bench.recorder.add(CRIU, took);
        }
    }
    if let Some(floor) = floor {
        floor.finish().await?;
    }
    bench.kill(&sandbox).await
}

async fn fork(
    bench: &mut Bench<'_>,
    sandbox: &Sandbox,
    count: u32,
    [answer, result]: [Series; 2],
) -> Result<(), BenchError> {
    let client = bench.client.clone();
    let start = Instant::now();
    let copies = sandbox.fork(&client, count).await?;
    bench.keep_track(&copies);
    bench.since(answer, start);
    try_join_all(copies.iter().map(|copy| copy.run_one(None))).await?;
    bench.since(result, start);
    for copy in &copies {
        bench.kill(copy).await?;
    }
    Ok(())
}

/// Measures snapshots of a sandbox that has written some files, and sandboxes of them.
pub(crate) async fn measure_snapshots(
    bench: &mut Bench<'_>,
    memory: u32,
    disk: u32,
) -> Result<(), BenchError> {
    let sandbox = laden_sandbox(bench, memory).await?;
    let written = format!("head -c {disk}M /dev/urandom > /home/user/ballast; sync");
    sandbox.command(&written).await?;
    let mut floor = floor_of(bench, &sandbox).await?;
    for round in bench.all_rounds() {
        bench.begin_round(round);
        if let Some(floor) = &mut floor {
            let snapshot = bench.time(SNAPSHOT, sandbox.snapshot(true)).await?;
            let start = Instant::now();
            let copy = bench.create_from(&snapshot).await?;
            copy.run_one(None).await?;
            bench.since(CREATE, start);
            bench.kill(&copy).await?;
            bench.client.forget_snapshot(&snapshot).await?;
            let recorder = &mut bench.recorder;
            recorder.add(CRIU_DUMP, floor.ask("dump").await?);
            recorder.add(CRIU_RESTORE, floor.ask("restore").await?);
        }
        let snapshot = bench.time(FILES, sandbox.snapshot(false)).await?;
        to_command(bench, &snapshot, FILES_CREATE).await?;
        bench.client.forget_snapshot(&snapshot).await?;
        let template = bench.template;
        to_command(bench, template, FRESH).await?;
    }
    if let Some(floor) = floor {
        floor.finish().await?;
    }
    bench.kill(&sandbox).await
}

/// Makes a sandbox that runs a command, and ends it.
async fn to_command(
    bench: &mut Bench<'_>,
    template: &str,
    series: Series,
) -> Result<(), BenchError> {
    let start = Instant::now();
    let sandbox = bench.create_from(template).await?;
    sandbox.command("echo hello").await?;
    bench.since(series, start);
    bench.kill(&sandbox).await
}
