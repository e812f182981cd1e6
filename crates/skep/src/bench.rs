//! `skep bench`: what the library measures, with a server of our own and on a terminal.

use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use skep_bench::{BenchArgs, BenchError, Progress, Report, Setup};
use skep_cli::{CliError, ExitKind, print_json, print_line, print_note};

use crate::dismantle;

/// Measures, prints, and removes what the bench's own server left on the host.
///
/// # Errors
///
/// If something cannot be measured, with what to do about it.
pub(crate) fn run(
    args: &BenchArgs,
    config: Option<&Path>,
    cache_dir: PathBuf,
) -> Result<ExitCode, CliError> {
    let directory = tempfile::Builder::new()
        .prefix("skep-bench-")
        .tempdir()
        .map_err(CliError::failure)?;
    let executable = std::env::current_exe().map_err(CliError::failure)?;
    let setup = Setup {
        floor: executable.clone(),
        executable,
        config: config.map(Path::to_owned),
        cache_dir,
        directory: directory.path().to_owned(),
    };
    let data_dir = setup.data_dir();
    // One thread: a client that hands every answer from thread to thread measures itself.
    let runtime = crate::runtime()?;
    let report = runtime.block_on(async {
        let report = tokio::select! {
            report = measure(args, &setup) => report,
            interrupted = tokio::signal::ctrl_c() => Err(match interrupted {
                Ok(()) => CliError::input("interrupted", "nothing was kept"),
                Err(error) => CliError::failure(error),
            }),
        };
        let dismantled = dismantle::everything(&data_dir).await;
        report.and_then(|report| dismantled.map(|()| report))
    })?;
    directory.close().map_err(CliError::failure)?;
    show(args, &report)?;
    Ok(ExitCode::SUCCESS)
}

async fn measure(args: &BenchArgs, setup: &Setup) -> Result<Report, CliError> {
    let progress = Shown::default();
    let report = Box::pin(skep_bench::run(args, setup, &progress)).await;
    progress.end();
    report.map_err(explain)
}

fn explain(error: BenchError) -> CliError {
    let kind = if error.is_input() {
        ExitKind::Input
    } else {
        ExitKind::Failure
    };
    let hint = error.hint();
    CliError {
        kind,
        source: Box::new(error),
        hints: hint.into_iter().collect(),
    }
}

fn show(args: &BenchArgs, report: &Report) -> Result<(), CliError> {
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|error| {
            CliError::failure(error).hint(format!("cannot write `{}`", path.display()))
        })
    };
    for warning in &report.warnings {
        print_note(&format!("warning: {warning}"));
    }
    for note in &report.notes {
        print_note(&format!("note: {note}"));
    }
    if let Some(path) = &args.output {
        let text = serde_json::to_string_pretty(report).map_err(CliError::failure)?;
        write(path, text + "\n")?;
    }
    if let Some(path) = &args.svg {
        write(path, report.svg())?;
    }
    if args.json {
        print_json(report);
    } else {
        print_line(report.text().trim_end());
    }
    Ok(())
}

/// A bar on a terminal; elsewhere a line for what begins.
#[derive(Default)]
struct Shown {
    bar: RefCell<Option<ProgressBar>>,
}

impl Progress for Shown {
    fn begin(&self, what: &str, steps: u64) {
        self.end();
        if !std::io::stderr().is_terminal() {
            print_note(&format!("bench: {what}, {steps} steps"));
            return;
        }
        let bar = ProgressBar::new(steps);
        let style = ProgressStyle::with_template(
            "{prefix:>12} [{bar:28}] {pos:>4}/{len} {elapsed:>4}  {wide_msg}",
        )
        .expect("the template is a constant")
        .progress_chars("=> ");
        bar.set_style(style);
        bar.set_prefix(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(500));
        self.bar.replace(Some(bar));
    }

    fn step(&self) {
        if let Some(bar) = &*self.bar.borrow() {
            bar.inc(1);
        }
    }

    fn say(&self, line: &str) {
        if let Some(bar) = &*self.bar.borrow() {
            bar.set_message(line.to_owned());
        }
    }

    fn end(&self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
