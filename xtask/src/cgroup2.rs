//! `cargo xtask cgroup2`: Skep on hosts with cgroup v2, in emulated machines.
//!
//! Machines are made of Debian's own packages, with stock kernels, in a cache directory, and run in
//! QEMU without help of the processor. Nothing is installed on this host. What is built here,
//! the executable and the tests, is brought to them on a disk as it is.

mod checks;
mod guest_root;
mod initrd;
mod machine;
mod outcome;
mod packages;
mod payload;
mod templates;
mod tools;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, ensure};

use machine::{MACHINES, Machine};
use outcome::Report;

/// Options of `cargo xtask cgroup2`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only this machine.
    machine: Option<String>,
    /// Run all checks in every machine, also those that one machine answers for all.
    #[arg(long)]
    full: bool,
    /// Only the checks whose names contain this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Fill the cache and run nothing.
    #[arg(long)]
    prepare: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// Makes the machines, runs the checks in each and prints what came of them.
#[expect(clippy::print_stdout, reason = "the report is this command's output")]
pub(crate) fn run(root: &Path, options: &Options) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let chosen = chosen(options.machine.as_deref())?;
    let cache = root.join(".cache/cgroup2");
    std::fs::create_dir_all(&cache)?;
    // Two runs at a time would write the same files.
    let lock = std::fs::File::create(cache.join("lock"))?;
    lock.lock().context("cannot lock the cache")?;
    let emulator = packages::emulator(&cache)?;
    let mut prepared = Vec::new();
    for machine in chosen {
        let kernel = packages::kernel(&cache, machine.suite)?;
        prepared.push((machine, guest_root::make(&cache, machine.suite, &kernel)?));
    }
    let built = payload::build(root)?;
    let templates = templates::disk(root, &cache, &built)?;
    if options.prepare {
        return Ok(ExitCode::SUCCESS);
    }
    let mut report = Report::default();
    for (machine, system) in &prepared {
        let all = checks::of(machine, options.full, &built);
        let matches = |name: &str| {
            options
                .only
                .as_deref()
                .is_none_or(|text| name.contains(text))
        };
        let all: Vec<_> = all
            .into_iter()
            .filter(|check| matches(&check.name))
            .collect();
        let disk = payload::disk(root, &cache, &built, &all)?;
        let disks = machine::Disks {
            payload: &disk,
            templates: &templates,
        };
        let mut result = machine.run(&cache, &emulator, system, disks, &all)?;
        // The emulator loses the timer of a processor now and then while the host is busy.
        if !result.has_started() {
            println!("cgroup2: {}: it did not start; once more", machine.name);
            result = machine.run(&cache, &emulator, system, disks, &all)?;
        }
        let again = result.worth_another_try(&all);
        if !again.is_empty() {
            println!("cgroup2: {}: again, alone", machine.name);
            let second = machine.run(&cache, &emulator, system, disks, &again)?;
            for name in result.take_over(&second) {
                println!("flaky: {name} ({}) failed, and passed alone", machine.name);
            }
        }
        report.add(result);
    }
    if options.json {
        println!("{}", report.as_json());
    } else {
        print!("{report}");
    }
    let (passed, failed) = report.counts();
    let seconds = start.elapsed().as_secs();
    println!("{passed} passed, {failed} failed in {seconds} s");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn chosen(name: Option<&str>) -> anyhow::Result<Vec<&'static Machine>> {
    let chosen: Vec<_> = MACHINES
        .iter()
        .filter(|machine| name.is_none_or(|name| machine.name == name))
        .collect();
    let names: Vec<_> = MACHINES.iter().map(|machine| machine.name).collect();
    ensure!(
        !chosen.is_empty(),
        "no such machine; there are {}",
        names.join(", ")
    );
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_not_there_is_refused_with_those_that_are() {
        assert_eq!(chosen(None).unwrap().len(), MACHINES.len());
        assert_eq!(
            chosen(Some("debian-11")).unwrap_err().to_string(),
            "no such machine; there are debian-13, debian-12, plain"
        );
    }
}
