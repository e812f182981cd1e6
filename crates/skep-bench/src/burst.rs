//! Many sandboxes at once, each to its first result.

use std::time::Instant;

use futures_util::future::join_all;
use skep_client::Client;

use crate::bench::Bench;
use crate::error::BenchError;
use crate::measurement::{Series, Unit};
use crate::sandbox::Sandbox;

const CREATE: Series = Series::seconds("burst.create", "create, beside all others");
const FIRST: Series = Series::seconds(
    "burst.first_result",
    "create → first result, beside all others",
);
pub(crate) const TOTAL: Series = Series::seconds("burst.total", "all of them");
pub(crate) const EACH: Series =
    Series::seconds("burst.total_per_sandbox", "all of them ÷ their number");
const SUCCEEDED: Series = Series::new(
    "burst.succeeded",
    "sandboxes that gave a result",
    Unit::Count,
);
const ASKED: Series = Series::new("burst.asked", "sandboxes that were asked for", Unit::Count);

/// Number of sandboxes that the targets are about.
const TARGET_COUNT: u32 = 100;

/// One of many.
struct One {
    sandbox: Sandbox,
    created: f64,
    answered: f64,
}

/// Measures many sandboxes at once, each from its creation to its first result.
///
/// # Errors
///
/// If not every sandbox of the burst gives its result.
pub(crate) async fn measure(bench: &mut Bench<'_>, count: u32) -> Result<(), BenchError> {
    bench.note_number(TARGET_COUNT, count);
    let (sandbox, interprets) = bench.warm_sandbox().await?;
    bench.kill(&sandbox).await?;
    for round in bench.all_rounds() {
        bench.begin_round(round);
        let start = Instant::now();
        let (client, template) = (&bench.client, bench.template);
        let all = (0..count).map(|_| one(client, template, interprets, start));
        let answers = join_all(all).await;
        let total = start.elapsed().as_secs_f64();
        settle(bench, answers, count).await?;
        bench.recorder.add(TOTAL, total);
        bench.recorder.add(EACH, total / f64::from(count));
    }
    Ok(())
}

async fn one(
    client: &Client,
    template: &str,
    interprets: bool,
    start: Instant,
) -> Result<One, (Option<Sandbox>, BenchError)> {
    let sandbox = Sandbox::create(client, template)
        .await
        .map_err(|error| (None, error))?;
    let created = start.elapsed().as_secs_f64();
    let answer = if interprets {
        sandbox.run_one(None).await
    } else {
        sandbox.command("echo hello").await.map(drop)
    };
    let answered = start.elapsed().as_secs_f64();
    match answer {
        Ok(()) => Ok(One {
            sandbox,
            created,
            answered,
        }),
        Err(error) => Err((Some(sandbox), error)),
    }
}

/// Records the answers and ends the sandboxes.
async fn settle(
    bench: &mut Bench<'_>,
    answers: Vec<Result<One, (Option<Sandbox>, BenchError)>>,
    count: u32,
) -> Result<(), BenchError> {
    let all = answers.len();
    let (mut sandboxes, mut succeeded, mut errors) = (Vec::new(), 0_u32, Vec::new());
    for answer in answers {
        match answer {
            Ok(one) => {
                bench.recorder.add(CREATE, one.created);
                bench.recorder.add(FIRST, one.answered);
                sandboxes.push(one.sandbox);
                succeeded += 1;
            }
            Err((sandbox, error)) => {
                sandboxes.extend(sandbox);
                errors.push(error);
            }
        }
    }
    bench.recorder.add(ASKED, f64::from(count));
    bench.recorder.add(SUCCEEDED, f64::from(succeeded));
    bench.keep_track(&sandboxes);
    for killed in join_all(sandboxes.iter().map(Sandbox::kill)).await {
        killed?;
    }
    bench.forget(&sandboxes);
    let failed = errors.len();
    match errors.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(BenchError::Some {
            failed,
            all,
            source: Box::new(first),
        }),
    }
}
