//! A sandbox that sleeps: in memory, and on the disk beside CRIU alone.

use std::time::{Duration, Instant};

use crate::bench::{Bench, counted};
use crate::criu_floor::Tree;
use crate::error::{BenchError, local};
use crate::measurement::{Series, Unit};
use crate::processes::{Memory, processor_time};
use crate::rival::Rival;
use crate::sandbox::Sandbox;

pub(crate) const FREEZE: Series = Series::seconds("pause.freeze", "pause, until the answer");
pub(crate) const THAW: Series = Series::seconds(
    "pause.thaw",
    "connect of one that is in memory, until the answer",
);
const THAWED: Series = Series::seconds(
    "pause.thaw_result",
    "connect of one that is in memory → a result",
);
const FROZEN_PROCESSOR: Series = Series::new(
    "pause.frozen_processor",
    "processor time of a paused sandbox",
    Unit::PercentOfProcessor,
);
pub(crate) const TO_DISK: Series = Series::seconds("pause.to_disk", "pause → safe on the disk");
const GONE: Series = Series::seconds("pause.gone", "pause → no process of it is left");
pub(crate) const RESUME: Series = Series::seconds(
    "pause.resume",
    "connect of one that is on the disk, until the answer",
);
const RESUMED: Series = Series::seconds(
    "pause.resume_result",
    "connect of one that is on the disk → a result",
);
pub(crate) const CRIU_DUMP: Series =
    Series::seconds("pause.criu_dump", "floor: CRIU alone writes as much memory");
pub(crate) const CRIU_RESTORE: Series = Series::seconds(
    "pause.criu_restore",
    "floor: CRIU alone restores as much memory",
);
const MEMORY: Series = Series::bytes(
    "pause.memory",
    "memory of the running sandbox that is in no file",
);
const DISK_MEMORY: Series = Series::bytes(
    "pause.disk_memory",
    "memory of a sandbox that is on the disk",
);

/// Setting after which a paused sandbox is written to the disk, in seconds.
const CHECKPOINT_AFTER: &str = "SKEP_PAUSE_CHECKPOINT_AFTER";
/// Time for which a paused sandbox is watched.
const WINDOW: Duration = Duration::from_millis(250);
/// Time limit for a paused sandbox to be written, and polling interval meanwhile.
const STORED_TIMEOUT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(2);
const STORED: &str = "skep_sandbox_pauses_total{change=\"stored\"}";
const NOT_STORED: &str = "skep_sandbox_store_failures_total";

pub(crate) async fn measure(bench: &mut Bench<'_>, memory: u32) -> Result<(), BenchError> {
    if let Some(own) = &mut bench.own {
        // Longer than any round.
        own.change(CHECKPOINT_AFTER, "3600").await?;
    }
    let sandbox = laden_sandbox(bench, memory).await?;
    for round in bench.all_rounds() {
        bench.begin_round(round);
        in_memory(bench, &sandbox).await?;
    }
    bench.kill(&sandbox).await?;
    let Some(own) = &mut bench.own else {
        bench.notes.push(
            "when a paused sandbox is written to the disk is known of a server of the bench's own \
             alone: not measured"
                .to_owned(),
        );
        return Ok(());
    };
    own.change(CHECKPOINT_AFTER, "0").await?;
    let sandbox = laden_sandbox(bench, memory).await?;
    let Some(mut floor) = floor_of(bench, &sandbox).await? else {
        return bench.kill(&sandbox).await;
    };
    for round in bench.all_rounds() {
        bench.begin_round(round);
        by_disk(bench, &sandbox).await?;
        let recorder = &mut bench.recorder;
        recorder.add(CRIU_DUMP, floor.ask("dump").await?);
        recorder.add(CRIU_RESTORE, floor.ask("restore").await?);
    }
    floor.finish().await?;
    bench.kill(&sandbox).await
}

/// A sandbox whose interpreter holds some memory.
pub(crate) async fn laden_sandbox(
    bench: &mut Bench<'_>,
    memory: u32,
) -> Result<Sandbox, BenchError> {
    let (sandbox, interprets) = bench.warm_sandbox().await?;
    if !interprets {
        return Err(BenchError::NeedsInterpreter {
            what: bench.what.name(),
            template: bench.template.to_owned(),
        });
    }
    let code = format!("import os; ballast = os.urandom({memory} << 20)");
    sandbox.run_code(&code).await?;
    Ok(sandbox)
}

/// CRIU with a tree as large as that of a sandbox, if there is a CRIU. Takes note of the size.
pub(crate) async fn floor_of(
    bench: &mut Bench<'_>,
    sandbox: &Sandbox,
) -> Result<Option<Rival>, BenchError> {
    let Some(criu) = bench.criu.clone() else {
        bench
            .notes
            .push("this host has no CRIU, so no memory goes to its disk".to_owned());
        return Ok(None);
    };
    let Some(own) = &bench.own else {
        return Ok(None);
    };
    let looked = || local("look at", "/proc");
    let pids = own
        .group(&sandbox.id)?
        .processes_of(&sandbox.id)
        .map_err(looked())?;
    let memory = Memory::of(&pids).map_err(looked())?;
    bench.recorder.warm_up(false);
    bench.recorder.add_bytes(MEMORY, memory.anonymous);
    let tree = Tree {
        bytes: memory.anonymous,
        processes: pids.len() as u64,
    };
    let (executable, scratch) = (bench.floor.clone(), bench.scratch.clone());
    let floor = Rival::criu(&executable, &criu, tree, &scratch).await?;
    Ok(Some(floor))
}

async fn in_memory(bench: &mut Bench<'_>, sandbox: &Sandbox) -> Result<(), BenchError> {
    let looked = || local("look at", "/proc");
    let pids = match &bench.own {
        Some(own) => {
            let group = own.group(&sandbox.id)?;
            group.processes_of(&sandbox.id).map_err(looked())?
        }
        None => Vec::new(),
    };
    bench.time(FREEZE, sandbox.pause()).await?;
    if !pids.is_empty() {
        let before = processor_time(&pids).map_err(looked())?;
        tokio::time::sleep(WINDOW).await;
        let used = processor_time(&pids)
            .map_err(looked())?
            .saturating_sub(before);
        let percent = used.as_secs_f64() / WINDOW.as_secs_f64() * 100.0;
        bench.recorder.add(FROZEN_PROCESSOR, percent);
    }
    let start = Instant::now();
    sandbox.resume().await?;
    bench.since(THAW, start);
    sandbox.run_one(None).await?;
    bench.since(THAWED, start);
    Ok(())
}

async fn by_disk(bench: &mut Bench<'_>, sandbox: &Sandbox) -> Result<(), BenchError> {
    let looked = || local("look at", "/proc");
    let group = bench.own_server()?.group(&sandbox.id)?;
    let pids = group.processes_of(&sandbox.id).map_err(looked())?;
    let before = stored(bench).await?;
    let start = Instant::now();
    sandbox.pause().await?;
    while stored(bench).await? <= before {
        look_again(start).await?;
    }
    bench.since(TO_DISK, start);
    // Its group goes last, with what it was charged for.
    while group.processes_of(&sandbox.id).is_ok() {
        look_again(start).await?;
    }
    bench.since(GONE, start);
    let memory = Memory::of(&pids).map_err(looked())?;
    bench
        .recorder
        .add_bytes(DISK_MEMORY, memory.private + memory.shared);
    let start = Instant::now();
    sandbox.resume().await?;
    bench.since(RESUME, start);
    sandbox.run_one(None).await?;
    bench.since(RESUMED, start);
    Ok(())
}

/// Waits a little, if it is not too late.
async fn look_again(start: Instant) -> Result<(), BenchError> {
    if start.elapsed() > STORED_TIMEOUT {
        return Err(BenchError::Late {
            what: "writing a paused sandbox to the disk",
            limit: STORED_TIMEOUT,
        });
    }
    tokio::time::sleep(LOOK).await;
    Ok(())
}

/// Number of sandboxes that were written to the disk so far.
async fn stored(bench: &Bench<'_>) -> Result<f64, BenchError> {
    let metrics = bench.client.server_metrics().await?;
    if counted(&metrics, NOT_STORED) > 0.0 {
        return Err(BenchError::Unexpected {
            what: "pause, to be written to the disk",
            found: "it could not be written; the server's log says why".to_owned(),
        });
    }
    Ok(counted(&metrics, STORED))
}
