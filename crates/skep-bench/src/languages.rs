//! Every language of the template: how long until it runs code, and what its kernel weighs.

use std::time::{Duration, Instant};

use skep_client::ContextRef;

use crate::bench::Bench;
use crate::error::{BenchError, local};
use crate::measurement::Series;
use crate::processes::Memory;
use crate::sandbox::Sandbox;

/// A language, and what is measured of it.
struct Language {
    name: &'static str,
    /// Code that shows one thing.
    code: &'static str,
    /// The same by the language's own program, in the same sandbox.
    rival: Option<&'static str>,
    first: Series,
    second: Series,
    next: Series,
    warm: Series,
    alone: Series,
    memory: Series,
}

macro_rules! language {
    ($name:literal, $code:literal, $rival:expr) => {
        Language {
            name: $name,
            code: $code,
            rival: $rival,
            first: Series::seconds(
                concat!("languages.", $name, ".first_result"),
                concat!($name, ": first use in a sandbox → result"),
            ),
            second: Series::seconds(
                concat!("languages.", $name, ".new_context"),
                concat!($name, ": a new context → its first result"),
            ),
            next: Series::seconds(
                concat!("languages.", $name, ".next_context"),
                concat!($name, ": one more, a while later → its first result"),
            ),
            warm: Series::seconds(
                concat!("languages.", $name, ".run_code"),
                concat!($name, ": run_code, warm"),
            ),
            alone: Series::seconds(
                concat!("languages.", $name, ".program"),
                concat!($name, ": its own program, by commands.run"),
            ),
            memory: Series::bytes(
                concat!("languages.", $name, ".private_memory"),
                concat!($name, ": private memory of an idle kernel"),
            ),
        }
    };
}

/// All that Skep has kernels for. A template may have some of them.
const LANGUAGES: &[Language] = &[
    language!("python", "1", Some("python3 -c 1")),
    language!("javascript", "1", Some("node -e 1")),
    language!("typescript", "const one: number = 1; one", None),
    language!("bash", "echo 1", Some("bash -c 'echo 1'")),
    language!("java", "1", Some("echo 1 | jshell -s -")),
    language!("r", "1", Some("Rscript -e 1")),
];

/// The language whose default context has a kernel before anybody uses it.
const STARTED: &str = "python";

/// Number of runs of warm code in a round.
const REPETITIONS: u32 = 20;

/// Measures each language, with a pause of `settle` after its first answer, in which the kernel and
/// the start of its spare come to rest.
pub(crate) async fn measure(bench: &mut Bench<'_>, settle: Duration) -> Result<(), BenchError> {
    let (sandbox, interprets) = bench.warm_sandbox().await?;
    let mut languages = Vec::new();
    for language in LANGUAGES {
        if interprets && sandbox.speaks(language.name).await? {
            languages.push(language);
        }
    }
    bench.kill(&sandbox).await?;
    for round in bench.all_rounds() {
        bench.begin_round(round);
        for language in &languages {
            bench.progress.say(language.name);
            let sandbox = bench.create().await?;
            // Not more than its agent and what it has started by itself.
            sandbox.ready().await?;
            sandbox.has_interpreter().await;
            in_sandbox(bench, &sandbox, language, settle).await?;
            bench.kill(&sandbox).await?;
        }
    }
    Ok(())
}

/// One sandbox for one language, so that no other takes its memory.
async fn in_sandbox(
    bench: &mut Bench<'_>,
    sandbox: &Sandbox,
    language: &Language,
    settle: Duration,
) -> Result<(), BenchError> {
    let others = others(bench, sandbox, language)?;
    let default = ContextRef::Language(language.name);
    let first = sandbox.show_one(language.code, default);
    bench.time(language.first, first).await?;
    tokio::time::sleep(settle).await;
    weigh(bench, sandbox, &others, language.memory)?;

    new_context(bench, sandbox, language, language.second).await?;
    tokio::time::sleep(settle).await;
    let context = new_context(bench, sandbox, language, language.next).await?;
    for _ in 0..REPETITIONS {
        let run = sandbox.show_one(language.code, ContextRef::Id(&context));
        bench.time(language.warm, run).await?;
    }
    if let Some(line) = language.rival {
        bench.time(language.alone, sandbox.command(line)).await?;
    }
    Ok(())
}

async fn new_context(
    bench: &mut Bench<'_>,
    sandbox: &Sandbox,
    language: &Language,
    series: Series,
) -> Result<String, BenchError> {
    let start = Instant::now();
    let context = sandbox.new_context(language.name).await?;
    let context_ref = ContextRef::Id(&context);
    sandbox.show_one(language.code, context_ref).await?;
    bench.since(series, start);
    Ok(context)
}

/// The processes that are not the language's kernel. Only those of this host can be seen.
fn others(
    bench: &mut Bench<'_>,
    sandbox: &Sandbox,
    language: &Language,
) -> Result<Vec<u32>, BenchError> {
    if bench.own.is_none() {
        return Ok(Vec::new());
    }
    let group = bench.own_server()?.group(&sandbox.id)?;
    let found = if language.name == STARTED {
        group.agent_of(&sandbox.id)
    } else {
        group.processes_of(&sandbox.id)
    };
    found.map_err(local("look at", "/proc"))
}

fn weigh(
    bench: &mut Bench<'_>,
    sandbox: &Sandbox,
    others: &[u32],
    series: Series,
) -> Result<(), BenchError> {
    if bench.own.is_none() {
        return Ok(());
    }
    let looked = || local("look at", "/proc");
    let group = bench.own_server()?.group(&sandbox.id)?;
    let mut pids = group.processes_of(&sandbox.id).map_err(looked())?;
    pids.retain(|pid| !others.contains(pid));
    let memory = Memory::of(&pids).map_err(looked())?;
    bench.recorder.add_bytes(series, memory.private);
    Ok(())
}
