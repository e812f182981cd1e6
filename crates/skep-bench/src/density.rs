//! Many sandboxes that do nothing: what they cost, and whether all of them answer.

use std::time::Duration;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::bench::Bench;
use crate::error::{BenchError, local};
use crate::measurement::{Series, Unit};
use crate::processes::{Memory, processor_time, resident};
use crate::sandbox::Sandbox;

const ANSWERED: Series = Series::new(
    "density.answered",
    "idle sandboxes that answer",
    Unit::Count,
);
const ANSWER: Series = Series::seconds(
    "density.answer",
    "an answer from one of them, after the idle time",
);
pub(crate) const PRIVATE: Series = Series::bytes(
    "density.private_memory",
    "private memory of an idle sandbox, all its processes",
);
const SHARED: Series = Series::bytes(
    "density.shared_memory",
    "memory that it shares, counted whole",
);
const PROPORTIONAL: Series = Series::bytes(
    "density.proportional_memory",
    "private, and its share of the shared",
);
const PROCESSES: Series = Series::new(
    "density.processes",
    "processes of an idle sandbox",
    Unit::Count,
);
const BESIDE: Series = Series::bytes(
    "density.private_memory_beside",
    "private memory beside them: zygotes, spares",
);
pub(crate) const SERVER: Series = Series::bytes(
    "density.server_memory",
    "memory of the server with all of them",
);
const SERVER_ALONE: Series = Series::bytes(
    "density.server_memory_alone",
    "memory of the server without any",
);
const IDLE: Series = Series::new(
    "density.idle_processor",
    "processor time of all idle sandboxes together",
    Unit::PercentOfProcessor,
);
const SERVER_IDLE: Series = Series::new(
    "density.server_idle_processor",
    "processor time of the server meanwhile",
    Unit::PercentOfProcessor,
);

/// Number of sandboxes that the targets are about.
const TARGET_COUNT: u32 = 300;
/// Number of sandboxes that are made, or asked, at a time.
const CALLERS: usize = 8;
/// Time for a fresh sandbox to come to rest after its first answer, before it counts as idle.
const SETTLE: Duration = Duration::from_secs(3);

/// Measures the memory and processor time of many idle sandboxes.
///
/// # Errors
///
/// If not every sandbox can be made, or one does not answer after the idle time.
pub(crate) async fn measure(
    bench: &mut Bench<'_>,
    count: u32,
    window: Duration,
) -> Result<(), BenchError> {
    bench.note_number(TARGET_COUNT, count);
    let (sandbox, interprets) = bench.warm_sandbox().await?;
    bench.kill(&sandbox).await?;
    for round in bench.all_rounds() {
        bench.begin_round(round);
        if let Some(own) = &bench.own {
            let memory = resident(own.pid()).map_err(local("look at", "/proc"))?;
            bench.recorder.add_bytes(SERVER_ALONE, memory);
        }
        let sandboxes = make(bench, count, interprets).await?;
        bench.progress.say("watching them do nothing");
        tokio::time::sleep(SETTLE).await;
        if bench.own.is_some() {
            weigh(bench, &sandboxes)?;
            watch(bench, &sandboxes, window).await?;
        } else {
            bench.notes.push(
                "memory and processor time are read from processes of this host: \
                 not of a server that was not started by the bench"
                    .to_owned(),
            );
            tokio::time::sleep(window).await;
        }
        ask(bench, &sandboxes, interprets).await?;
        end(bench, sandboxes).await?;
    }
    Ok(())
}

async fn answer(sandbox: &Sandbox, interprets: bool) -> Result<(), BenchError> {
    if interprets {
        sandbox.run_one(None).await
    } else {
        sandbox.command("echo hello").await.map(drop)
    }
}

async fn make(
    bench: &mut Bench<'_>,
    count: u32,
    interprets: bool,
) -> Result<Vec<Sandbox>, BenchError> {
    let mut sandboxes = Vec::new();
    let (client, template) = (bench.client.clone(), bench.template);
    let mut making = stream::iter(0..count)
        .map(|_| async {
            let sandbox = Sandbox::create(&client, template).await?;
            let answered = answer(&sandbox, interprets).await;
            Ok::<_, BenchError>((sandbox, answered))
        })
        .buffer_unordered(CALLERS);
    while let Some((sandbox, answered)) = making.try_next().await? {
        bench.keep_track(std::slice::from_ref(&sandbox));
        answered?;
        sandboxes.push(sandbox);
        bench
            .progress
            .say(&format!("{} of {count} sandboxes", sandboxes.len()));
    }
    Ok(sandboxes)
}

/// Memory, sandbox by sandbox.
fn weigh(bench: &mut Bench<'_>, sandboxes: &[Sandbox]) -> Result<(), BenchError> {
    let looked = || local("look at", "/proc");
    let Some(first) = sandboxes.first() else {
        return Ok(());
    };
    let own = bench.own_server()?;
    let (group, server) = (own.group(&first.id)?, own.pid());
    let mut others = group.processes().map_err(looked())?;
    for sandbox in sandboxes {
        let pids = group.processes_of(&sandbox.id).map_err(looked())?;
        let memory = Memory::of(&pids).map_err(looked())?;
        others.retain(|pid| !pids.contains(pid));
        let recorder = &mut bench.recorder;
        recorder.add_bytes(PRIVATE, memory.private);
        recorder.add_bytes(SHARED, memory.shared);
        recorder.add_bytes(PROPORTIONAL, memory.proportional);
        recorder.add(PROCESSES, pids.len() as f64);
    }
    let beside = Memory::of(&others).map_err(looked())?;
    bench.recorder.add_bytes(BESIDE, beside.private);
    let memory = resident(server).map_err(looked())?;
    bench.recorder.add_bytes(SERVER, memory);
    Ok(())
}

/// Processor time while nobody asks for anything.
async fn watch(
    bench: &mut Bench<'_>,
    sandboxes: &[Sandbox],
    window: Duration,
) -> Result<(), BenchError> {
    let looked = || local("look at", "/proc");
    let Some(first) = sandboxes.first() else {
        return Ok(());
    };
    let own = bench.own_server()?;
    let (group, server) = (own.group(&first.id)?, own.pid());
    let mut pids = Vec::new();
    for sandbox in sandboxes {
        pids.extend(group.processes_of(&sandbox.id).map_err(looked())?);
    }
    let used = |pids: &[u32]| processor_time(pids).map_err(looked());
    let (before, server_before) = (used(&pids)?, used(&[server])?);
    tokio::time::sleep(window).await;
    let (after, server_after) = (used(&pids)?, used(&[server])?);
    // A thread that ended meanwhile takes its time with it.
    let percent = |before: Duration, after: Duration| {
        after.saturating_sub(before).as_secs_f64() / window.as_secs_f64() * 100.0
    };
    bench.recorder.add(IDLE, percent(before, after));
    bench
        .recorder
        .add(SERVER_IDLE, percent(server_before, server_after));
    Ok(())
}

async fn ask(
    bench: &mut Bench<'_>,
    sandboxes: &[Sandbox],
    interprets: bool,
) -> Result<(), BenchError> {
    let asking = sandboxes.iter().map(|sandbox| async move {
        let start = std::time::Instant::now();
        answer(sandbox, interprets).await.map(|()| start.elapsed())
    });
    let answers: Vec<_> = stream::iter(asking)
        .buffer_unordered(CALLERS)
        .collect()
        .await;
    let all = answers.len();
    let (answered, errors): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    bench.recorder.add(ANSWERED, answered.len() as f64);
    for took in answered.into_iter().flatten() {
        bench.recorder.add(ANSWER, took.as_secs_f64());
    }
    let failed = errors.len();
    match errors.into_iter().find_map(Result::err) {
        None => Ok(()),
        Some(first) => Err(BenchError::Some {
            failed,
            all,
            source: Box::new(first),
        }),
    }
}

async fn end(bench: &mut Bench<'_>, sandboxes: Vec<Sandbox>) -> Result<(), BenchError> {
    let ending = stream::iter(&sandboxes).map(Sandbox::kill);
    let ended: Result<Vec<()>, _> = ending.buffer_unordered(CALLERS).try_collect().await;
    ended?;
    bench.forget(&sandboxes);
    Ok(())
}
