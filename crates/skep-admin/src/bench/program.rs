//! The program of `skep-bench`: what it is told, its own server's traces on the host, and how it shows what it measured.

use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use skep_bench::{BenchArgs, BenchError, Progress, Report, Setup};
use skep_checkpoint::Criu;
use skep_cli::{CliError, ExitKind, print_json, print_line, print_note};

/// Measure performance, and compare it with baselines and other systems
#[derive(Debug, Parser)]
#[command(name = "skep-bench", version, max_term_width = 100)]
struct Cli {
    /// Executable of the server [default: `skep` beside this one]
    #[arg(long, global = true, value_name = "FILE")]
    skep: Option<PathBuf>,

    /// Configuration file of the server
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Directory of template layers
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        default_value = "/var/cache/skep"
    )]
    cache_dir: PathBuf,

    #[command(flatten)]
    bench: BenchArgs,
}

/// Measures and shows what the arguments of this process ask for.
pub fn main() -> ExitCode {
    // The floors that sandboxes are compared with enter namespaces and copy themselves, which a
    // process with threads cannot: nothing may start one before these lines.
    let floors = [
        (skep_bench::FLOOR, skep_bench::run_floor as fn() -> ExitCode),
        (skep_bench::CRIU_FLOOR, skep_bench::run_criu_floor),
        (skep_bench::HELD_TREE, skep_bench::hold_tree),
        (skep_bench::EGRESS_ROLE, skep_bench::run_egress_role),
    ];
    let first = std::env::args_os().nth(1).unwrap_or_default();
    if let Some((_, floor)) = floors.iter().find(|(name, _)| first == *name) {
        return floor();
    }
    let cli = Cli::parse();
    let json = cli.bench.json;
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(json),
    }
}

/// Measures, prints, and removes what the bench's own server left on the host.
fn run(cli: &Cli) -> Result<(), CliError> {
    let this = std::env::current_exe().map_err(CliError::failure)?;
    let directory = tempfile::Builder::new()
        .prefix("skep-bench-")
        .tempdir()
        .map_err(CliError::failure)?;
    let setup = Setup {
        executable: cli
            .skep
            .clone()
            .unwrap_or_else(|| this.with_file_name("skep")),
        floor: this,
        criu: Criu::find(
            &Criu::fetched_in(&cli.cache_dir),
            &directory.path().join("criu"),
        )
        .map(|criu| criu.command().to_vec())
        .ok(),
        config: cli.config.clone(),
        cache_dir: cli.cache_dir.clone(),
        directory: directory.path().to_owned(),
    };
    for template in cli.bench.templates() {
        build(&setup, template)?;
    }
    // One thread: a client that hands every answer from thread to thread measures itself.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failure)?;
    let measured = runtime.block_on(async {
        tokio::select! {
            report = measure(&cli.bench, &setup) => report,
            interrupted = tokio::signal::ctrl_c() => Err(match interrupted {
                Ok(()) => CliError::input("interrupted", "nothing was kept"),
                Err(error) => CliError::failure(error),
            }),
        }
    });
    let dismantled = dismantle(&setup);
    let report = measured.and_then(|report| dismantled.map(|()| report))?;
    directory.close().map_err(CliError::failure)?;
    show(&cli.bench, &report)
}

/// Builds a template unless it is there.
fn build(setup: &Setup, template: &str) -> Result<(), CliError> {
    let mut command = Command::new(&setup.executable);
    command
        .args(["template", "build", template, "--cache-dir"])
        .arg(&setup.cache_dir);
    let status = command.status().map_err(|error| {
        CliError::failure(error).hint(format!(
            "cannot run `{}`; `--skep` names the server's executable",
            setup.executable.display()
        ))
    })?;
    if status.success() {
        return Ok(());
    }
    Err(CliError::failure(format!(
        "template `{template}` could not be built: {status}"
    )))
}

/// Takes off the host whatever the bench's own server has left there; its data goes with the
/// directory of the bench.
fn dismantle(setup: &Setup) -> Result<(), CliError> {
    let data_dir = setup.data_dir();
    if !data_dir.exists() {
        return Ok(());
    }
    let output = Command::new(&setup.executable)
        .arg("--data-dir")
        .arg(data_dir)
        .args(["uninstall", "--yes", "--stop", "--keep-data"])
        .output()
        .map_err(CliError::failure)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(CliError::failure(format!(
        "the bench's own server left something on the host: {said}"
    )))
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
        print_json(report)?;
    } else {
        print_line(report.text().trim_end())?;
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
