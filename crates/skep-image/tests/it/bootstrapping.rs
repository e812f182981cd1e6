//! The real bootstrap, ended early.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use skep_image::{Bootstrap, Cancel, DebianOrigin, Mmdebstrap, StepError, Surroundings};
use skep_testkit::wait_for;

crate::tests! {
    a_cancelled_bootstrap_leaves_no_process,
    a_bootstrap_dies_with_its_builder,
}

fn bootstrap(dir: &Path, cancel: &Cancel, output: &mut dyn FnMut(&str)) -> Result<(), StepError> {
    let (root, scratch) = (dir.join("root"), dir.join("scratch"));
    fs::create_dir_all(&root).unwrap();
    fs::create_dir_all(&scratch).unwrap();
    let origin = DebianOrigin {
        suite: "trixie".to_owned(),
        packages: Vec::new(),
        without: Vec::new(),
        keep: Vec::new(),
    };
    let host = crate::base::host();
    Mmdebstrap.bootstrap(
        &origin,
        &host,
        &root,
        &scratch,
        Surroundings { cancel, output },
    )
}

/// Number of processes that have this directory in their command line.
fn processes_about(dir: &Path) -> usize {
    let dir = dir.to_str().unwrap();
    let entries = fs::read_dir("/proc").unwrap();
    let commands = entries.filter_map(|entry| fs::read(entry.unwrap().path().join("cmdline")).ok());
    commands
        .filter(|command| String::from_utf8_lossy(command).contains(dir))
        .count()
}

#[track_caller]
fn check_nothing_is_left(dir: &Path) {
    wait_for(Duration::from_secs(10), || match processes_about(dir) {
        0 => Ok(()),
        count => Err(format!("{count} processes are left")),
    });
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(dir.to_str().unwrap()), "{mounts}");
}

fn a_cancelled_bootstrap_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let cancel = Cancel::default();
    let result = bootstrap(dir.path(), &cancel, &mut |_| cancel.cancel());
    assert!(matches!(result, Err(StepError::Cancelled)), "{result:?}");
    check_nothing_is_left(dir.path());
}

/// Work of the test executable as another process: bootstraps until it is killed.
pub(crate) fn bootstrap_until_killed(dir: &str) {
    let mut stdout = std::io::stdout();
    let result = bootstrap(Path::new(dir), &Cancel::default(), &mut |line| {
        writeln!(stdout, "{line}").unwrap();
    });
    result.unwrap();
}

fn a_bootstrap_dies_with_its_builder() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .arg("bootstrap-until-killed")
        .arg(dir.path().join("inside"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    // The builder itself, and what it started.
    assert!(processes_about(dir.path()) > 1);
    process.kill().unwrap();
    process.wait().unwrap();
    check_nothing_is_left(dir.path());
}
