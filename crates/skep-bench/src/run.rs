//! A run from its start to its report.

use std::time::Duration;

use jiff::Timestamp;
use skep_client::Client;

use crate::args::{BenchArgs, Part};
use crate::bench::Bench;
use crate::error::BenchError;
use crate::host_info::HostInfo;
use crate::progress::Progress;
use crate::report::{Report, Subject};
use crate::sandbox::CALL_TIMEOUT;
use crate::server::{OwnServer, Setup};
use crate::{
    build, burst, compare, context, copies, density, egress, exec, files, languages, pause, proxy,
    restart, stream, targets, tti,
};

/// Measures what `args` name.
///
/// Without `--against`, a server is started in `setup` and stopped again; its template must be
/// built. What it leaves on the host beyond its directory is the caller's to remove. Rivals are
/// installed once, below the directory of templates.
///
/// # Cancel safety
///
/// When dropped, the server and the rivals are killed. Sandboxes of another server live on until
/// their time is over.
///
/// # Errors
///
/// [`BenchError`]; what was measured before is lost.
pub async fn run(
    args: &BenchArgs,
    setup: &Setup,
    progress: &dyn Progress,
) -> Result<Report, BenchError> {
    let mut host = HostInfo::look();
    let started_at = Timestamp::now();
    let subject = Subject::of(args);
    let reached = reach(args, setup).await?;
    let mut bench = Bench::new(args, setup, reached, progress);
    let measured = measure(&mut bench).await;
    progress.end();
    let cleaned = bench.clean_up().await;
    let stopped = match bench.own.take() {
        Some(own) => own.stop().await,
        None => Ok(()),
    };
    measured.and(cleaned).and(stopped)?;
    host.look_again();
    let measurements = bench.recorder.finish();
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        profile: if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        },
        what: args.what.name(),
        started_at,
        rounds: args.rounds(),
        warnings: warnings(&host, &subject),
        subject,
        host,
        targets: targets::verdicts(&measurements),
        measurements,
        notes: bench.notes,
    })
}

async fn reach(args: &BenchArgs, setup: &Setup) -> Result<(Client, Option<OwnServer>), BenchError> {
    let Some(url) = &args.against else {
        let own = OwnServer::start(setup, args.pool, &args.template).await?;
        return Ok((own.client()?, Some(own)));
    };
    let key = args.api_key.as_deref().unwrap_or_default();
    let mut client = Client::new(url, key)?.with_call_timeout(CALL_TIMEOUT);
    if let Some(domain) = &args.domain {
        client = client.with_sandbox_domain(domain);
    }
    Ok((client, None))
}

async fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    match bench.what {
        Part::Tti => tti::measure(bench).await,
        Part::Exec => exec::measure(bench).await,
        Part::Burst { count } => burst::measure(bench, count).await,
        Part::Density { count, window } => {
            let window = Duration::from_secs(u64::from(window));
            density::measure(bench, count, window).await
        }
        Part::Stream { lines, size } => stream::measure(bench, lines, size).await,
        Part::Files { size } => files::measure(bench, size).await,
        Part::Restart => restart::measure(bench).await,
        Part::Context => context::measure(bench).await,
        Part::Languages { settle } => {
            let settle = Duration::from_secs(u64::from(settle));
            languages::measure(bench, settle).await
        }
        Part::Proxy { size } => proxy::measure(bench, size).await,
        Part::Egress { size } => egress::measure(bench, size).await,
        Part::Build => build::measure(bench).await,
        Part::Compare => compare::measure(bench).await,
        Part::Pause { memory } => pause::measure(bench, memory).await,
        Part::Fork { memory, count } => copies::measure_forks(bench, memory, count).await,
        Part::Snapshot { memory, disk } => copies::measure_snapshots(bench, memory, disk).await,
    }
}

fn warnings(host: &HostInfo, subject: &Subject) -> Vec<String> {
    let mut warnings = Vec::new();
    if cfg!(debug_assertions) {
        let whose = if subject.own {
            "bench and server are"
        } else {
            "the bench is"
        };
        warnings.push(format!(
            "{whose} built without optimisation: times are several times too long"
        ));
    }
    if host.is_busy() {
        warnings.push(format!(
            "the host was busy before the bench began: load {} on {} cores",
            host.load_before, host.cores
        ));
    }
    warnings
}
