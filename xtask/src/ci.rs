//! Everything that must pass before a change is taken, in the order of how soon it answers.

mod counts;
mod flaky;
mod step;

use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use counts::Counts;
use step::Step;

/// Options of `cargo xtask ci`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only what answers in seconds: formatting, lints and tidy.
    #[arg(long)]
    quick: bool,
    /// Only the step of this name.
    #[arg(long, value_name = "STEP")]
    only: Option<String>,
    /// Let the run fail by a case that passes when it is run again, alone.
    #[arg(long)]
    strict: bool,
}

/// Runs the steps, all of them even when one fails, and sums up.
#[expect(clippy::print_stdout, reason = "the report is this command's output")]
pub(crate) fn run(root: &Path, options: &Options) -> anyhow::Result<ExitCode> {
    let mut steps = chosen(steps(root), options)?;
    let start = Instant::now();
    let mut outcomes = Vec::new();
    for step in &mut steps {
        println!("\n── {} ──", step.name);
        let outcome = step.run(root, &mut std::io::stdout(), options.strict)?;
        println!("── {} ──", outcome.line(step.name));
        outcomes.push((step.name, outcome));
    }
    println!();
    for (name, outcome) in &outcomes {
        println!("{}", outcome.line(name));
    }
    for name in outcomes.iter().flat_map(|(_, outcome)| &outcome.flaky) {
        println!("flaky: {name} failed, and passed alone");
    }
    let total: Counts = outcomes.iter().map(|(_, outcome)| outcome.counts).sum();
    println!("{total} in {:.0} s", start.elapsed().as_secs_f32());
    let passed = outcomes.iter().all(|(_, outcome)| outcome.succeeded);
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn steps(root: &Path) -> Vec<Step> {
    let lint = [
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    let test = ["test", "--locked", "--workspace", "--no-fail-fast"];
    vec![
        Step::new("format", cargo(&["fmt", "--all", "--check"])).quick(),
        Step::new("tidy", cargo(&["xtask", "tidy"])).quick(),
        Step::new("lint", cargo(&lint)).quick(),
        Step::new("test", with_root_tests(cargo(&test))).with_cases(),
        Step::new("kernels", Command::new(root.join("kernels/run-tests"))),
        Step::new("fuzz", cargo(&["xtask", "fuzz"])),
        Step::new("conformance", Command::new(root.join("conformance/run"))),
        Step::new("console", cargo(&["xtask", "console", "--browser"])),
        Step::new("cgroup2", cargo(&["xtask", "cgroup2"])),
        Step::new("dist", Command::new(root.join("scripts/try-dist"))),
    ]
}

/// Tests make namespaces and cgroups, which root may; the compiler needs no such right.
fn with_root_tests(mut command: Command) -> Command {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root {
        let architecture = std::env::consts::ARCH.to_uppercase();
        let runner = format!("CARGO_TARGET_{architecture}_UNKNOWN_LINUX_GNU_RUNNER");
        command.env(runner, "sudo --preserve-env");
    }
    command
}

fn chosen(mut steps: Vec<Step>, options: &Options) -> anyhow::Result<Vec<Step>> {
    if let Some(name) = &options.only {
        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        anyhow::ensure!(
            names.contains(&name.as_str()),
            "no step `{name}`; there are {}",
            names.join(", ")
        );
        steps.retain(|step| step.name == name);
    }
    steps.retain(|step| step.is_quick || !options.quick);
    Ok(steps)
}

fn cargo(arguments: &[&str]) -> Command {
    // The cargo that runs us, so that `cargo +toolchain xtask ci` means that toolchain throughout.
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments);
    if std::io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(quick: bool, only: Option<&str>) -> Result<Vec<&'static str>, String> {
        let options = Options {
            quick,
            only: only.map(str::to_owned),
            strict: false,
        };
        chosen(steps(Path::new(".")), &options)
            .map(|steps| steps.iter().map(|step| step.name).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn all_steps_run_unless_told_otherwise() {
        assert_eq!(
            names(false, None).unwrap(),
            [
                "format",
                "tidy",
                "lint",
                "test",
                "kernels",
                "fuzz",
                "conformance",
                "console",
                "cgroup2",
                "dist"
            ]
        );
        assert_eq!(names(true, None).unwrap(), ["format", "tidy", "lint"]);
        assert_eq!(names(false, Some("test")).unwrap(), ["test"]);
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_known_ones() {
        assert_eq!(
            names(false, Some("tests")).unwrap_err(),
            "no step `tests`; there are format, tidy, lint, test, kernels, fuzz, conformance, console, cgroup2, dist"
        );
    }
}
