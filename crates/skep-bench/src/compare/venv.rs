//! Rivals from PyPI, in an environment of their own that is made once.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::FlockOperation;

use crate::error::{BenchError, local};
use crate::progress::Progress;

/// Every package, with its version.
const REQUIREMENTS: &str = include_str!("../../drivers/requirements.txt");

/// The Python of an environment in `directory` that has exactly what is required.
pub(super) fn prepare(directory: &Path, progress: &dyn Progress) -> Result<PathBuf, BenchError> {
    fs::create_dir_all(directory).map_err(local("make", directory))?;
    let lock = directory.join("lock");
    let held = File::create(&lock).map_err(local("lock", &lock))?;
    // Another bench may be making it; it is there when that has finished.
    rustix::fs::flock(&held, FlockOperation::LockExclusive)
        .map_err(|error| local("lock", &lock)(error.into()))?;
    let python = directory.join("venv/bin/python");
    let installed = directory.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|text| text == REQUIREMENTS) {
        return Ok(python);
    }
    let packages = REQUIREMENTS
        .lines()
        .filter(|line| line.contains("=="))
        .count();
    progress.begin("rivals", packages as u64);
    let wanted = directory.join("requirements.txt");
    fs::write(&wanted, REQUIREMENTS).map_err(local("write", &wanted))?;
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"])
        .arg(directory.join("venv"));
    follow(venv, progress)?;
    let mut pip = Command::new(&python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "-r",
    ])
    .arg(&wanted);
    follow(pip, progress)?;
    // Written last: what is half made is made again.
    fs::write(&installed, REQUIREMENTS).map_err(local("write", &installed))?;
    Ok(python)
}

/// Runs a command and shows what it says.
fn follow(mut command: Command, progress: &dyn Progress) -> Result<(), BenchError> {
    let program = PathBuf::from(command.get_program());
    let failed = |reason: String| BenchError::Rival {
        rival: "rivals from PyPI",
        reason,
    };
    let (reader, writer) = std::io::pipe().map_err(local("start", &program))?;
    let errors = writer.try_clone().map_err(local("start", &program))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(errors)
        .spawn()
        .map_err(local("start", &program))?;
    // It holds the other end of the pipe, which must end with the child.
    drop(command);
    let mut last = String::new();
    for line in BufReader::new(reader).lines() {
        last = line.map_err(local("read from", &program))?;
        progress.say(last.trim());
        if last.starts_with("Collecting") {
            progress.step();
        }
    }
    let status = child.wait().map_err(local("wait for", &program))?;
    if status.success() {
        return Ok(());
    }
    Err(failed(format!(
        "`{}` ended with {status}: {last}",
        program.display()
    )))
}
