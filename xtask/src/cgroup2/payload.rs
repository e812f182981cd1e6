//! Payload of the machines: the executable, the tests, and the list of checks.

use std::collections::BTreeMap;
use std::fs;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use cargo_metadata::Message;

use super::checks::Check;
use super::tools::{run, tell};

/// Directories of the workspace that tests read while they run.
const READ_BY_TESTS: [&str; 2] = ["crates/skep/tests/attacks", "packaging"];

/// The executables of this workspace, as they were built.
#[derive(Debug)]
pub(super) struct Built {
    /// `skep` itself. Tests know its path, so it has the same one in a machine.
    pub(super) skep: PathBuf,
    /// Test executables, by package and target: `skep-native it`.
    tests: BTreeMap<String, PathBuf>,
}

impl Built {
    /// Path of a test executable in a machine.
    pub(super) fn test(&self, name: &str) -> String {
        format!("/srv/tests/{}", name.replace(' ', "-"))
    }
}

/// Builds what the step `test` of `cargo xtask ci` builds, and says where it is.
pub(super) fn build(root: &Path) -> anyhow::Result<Built> {
    tell("building the executable and its tests");
    let mut cargo = Command::new(env!("CARGO"))
        .args(["test", "--locked", "--workspace", "--no-run", "--quiet"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let output = cargo.stdout.take().expect("it is piped");
    let (mut skep, mut tests) = (None, BTreeMap::new());
    for message in Message::parse_stream(BufReader::new(output)) {
        let Message::CompilerArtifact(artifact) = message? else {
            continue;
        };
        let Some(executable) = artifact.executable else {
            continue;
        };
        let executable = executable.into_std_path_buf();
        if artifact.profile.test {
            let package = package_of(&artifact.package_id.repr);
            tests.insert(format!("{package} {}", artifact.target.name), executable);
        } else if artifact.target.name == "skep" {
            skep = Some(executable);
        }
    }
    let status = cargo.wait()?;
    ensure!(status.success(), "the tests cannot be built: {status}");
    Ok(Built {
        skep: skep.context("cargo built no executable `skep`")?,
        tests,
    })
}

/// The package of an id such as `path+file:///home/me/skep/crates/skep-host#0.1.0`: directories are
/// called as the crates in them.
fn package_of(id: &str) -> &str {
    let path = id.split_once('#').map_or(id, |(path, _)| path);
    path.rsplit('/').next().unwrap_or(path)
}

/// Writes the disk with everything that `checks` need.
pub(super) fn disk(
    root: &Path,
    cache: &Path,
    built: &Built,
    checks: &[Check],
) -> anyhow::Result<PathBuf> {
    let stage = cache.join("payload");
    if stage.exists() {
        fs::remove_dir_all(&stage)?;
    }
    strip(&built.skep, &below(&stage, &built.skep)?)?;
    for name in checks.iter().filter_map(|check| check.test) {
        let executable = (built.tests.get(name))
            .with_context(|| format!("no test executable `{name}` was built"))?;
        let place = below(&stage, Path::new(&built.test(name)))?;
        if !place.exists() {
            strip(executable, &place)?;
        }
    }
    for directory in READ_BY_TESTS {
        let from = root.join(directory);
        if from.exists() {
            let to = below(&stage, &from)?;
            run(Command::new("cp").arg("-r").arg(&from).arg(&to))?;
        }
    }
    let lines = checks.iter().map(|check| {
        let (name, seconds) = (&check.name, check.limit.as_secs());
        let after = if check.restarts { "restart" } else { "go-on" };
        format!("{name}\t{seconds}\t{after}\t{}\n", check.command)
    });
    let list = below(&stage, Path::new("/srv/checks"))?;
    fs::write(list, lines.collect::<String>())?;
    let runner = below(&stage, Path::new("/srv/run-checks"))?;
    fs::write(&runner, include_str!("guest/run-checks"))?;
    fs::set_permissions(&runner, fs::Permissions::from_mode(0o755))?;
    let disk = cache.join("payload.tar");
    run(Command::new("tar")
        .args(["--owner=0", "--group=0", "-cf"])
        .arg(&disk)
        .arg("-C")
        .arg(&stage)
        .arg("."))?;
    fs::remove_dir_all(&stage)?;
    Ok(disk)
}

/// The place in `stage` that stands for an absolute path, with the directories above it.
fn below(stage: &Path, path: &Path) -> anyhow::Result<PathBuf> {
    let place = stage.join(path.strip_prefix("/")?);
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(place)
}

/// Copies an executable without what only a debugger reads.
fn strip(from: &Path, to: &Path) -> anyhow::Result<()> {
    run(Command::new("strip").arg("-o").arg(to).arg(from))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_by_its_directory() {
        assert_eq!(
            package_of("path+file:///a/crates/skep-host#0.1.0"),
            "skep-host"
        );
    }
}
