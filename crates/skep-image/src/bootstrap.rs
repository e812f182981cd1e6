//! A Debian system out of nothing but its packages.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child::run_lines;
use crate::recipe::DebianOrigin;
use crate::step::{Bootstrap, StepError, Surroundings, write_file};
use skep_packages::PackageSettings;

/// Search path for this host's own programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs what follows so that nothing of it outlives us, however we end: the kernel kills the
/// first process when we die, that one takes the second with it, and the second is the init of
/// a pid namespace. Otherwise a bootstrap would go on writing after its builder was killed.
const TIED: [&str; 8] = [
    "--pdeathsig=KILL",
    "--",
    "unshare",
    "--pid",
    "--fork",
    "--kill-child=KILL",
    "--mount-proc",
    "--",
];

/// Puts the host's sources and settings in place for the time of the bootstrap. `$1` is the
/// new root.
const ENTER: &str = r#"#!/bin/sh
set -eu
if [ -f "$SKEP_SCRATCH/sources.list" ]; then
    mv "$1/etc/apt/sources.list" "$SKEP_SCRATCH/sources.default"
    cp "$SKEP_SCRATCH/sources.list" "$1/etc/apt/sources.list"
fi
cp "$SKEP_SCRATCH/apt.conf" "$1/etc/apt/apt.conf.d/00skep-build"
"#;

/// Takes them away again, with what the bootstrap copied from the host. Name and resolver
/// stay as empty files: a sandbox is given its own.
const LEAVE: &str = r#"#!/bin/sh
set -eu
rm "$1/etc/apt/apt.conf.d/00skep-build"
if [ -f "$SKEP_SCRATCH/sources.default" ]; then
    rm "$1/etc/apt/sources.list"
    cp "$SKEP_SCRATCH/sources.default" "$1/etc/apt/sources.list"
    chmod 0644 "$1/etc/apt/sources.list"
fi
for file in hostname resolv.conf; do
    rm -f "$1/etc/$file"
    : > "$1/etc/$file"
    chmod 0644 "$1/etc/$file"
done
"#;

/// Bootstraps with `mmdebstrap`, which every supported distribution packages.
///
/// Packages come from the host's mirror, through its proxy; the result names neither: its
/// sources are those that mmdebstrap writes when it is told of no mirror.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mmdebstrap;

impl Bootstrap for Mmdebstrap {
    fn version(&self) -> &'static str {
        "mmdebstrap-1"
    }

    fn bootstrap(
        &self,
        origin: &DebianOrigin,
        host: &PackageSettings,
        root: &Path,
        scratch: &Path,
        surroundings: Surroundings<'_>,
    ) -> Result<(), StepError> {
        write_settings(origin, host, scratch)?;
        let command = command(origin, host, root, scratch)?;
        let (status, stopped) = run_lines(command, surroundings.cancel, surroundings.output)
            .map_err(StepError::system("start `setpriv`"))?;
        match stopped {
            Some(stopped) => Err(StepError::stopped(stopped)),
            None if status.success() => Ok(()),
            None => Err(StepError::Failed(status.to_string())),
        }
    }
}

/// Writes the host's package settings where the hooks find them.
fn write_settings(
    origin: &DebianOrigin,
    host: &PackageSettings,
    scratch: &Path,
) -> Result<(), StepError> {
    if let Some(sources) = host.apt().sources_for(&origin.suite) {
        write_file(&scratch.join("sources.list"), sources.as_bytes())?;
    }
    let bundle = host.ca_bundle().map(|pem| (scratch.join("ca.crt"), pem));
    if let Some((path, pem)) = &bundle {
        write_file(path, pem.as_bytes())?;
    }
    let bundle_path = bundle.as_ref().map(|(path, _)| path.as_path());
    let settings = host.apt().configuration(bundle_path);
    write_file(&scratch.join("apt.conf"), settings.as_bytes())
}

fn command(
    origin: &DebianOrigin,
    host: &PackageSettings,
    root: &Path,
    scratch: &Path,
) -> Result<Command, StepError> {
    let (enter, leave) = (scratch.join("enter"), scratch.join("leave"));
    write_program(&enter, ENTER)?;
    write_program(&leave, LEAVE)?;
    let mut command = Command::new("setpriv");
    command
        .args(TIED)
        .arg(find_program("mmdebstrap")?)
        .args([
            "--mode=root",
            "--variant=minbase",
            "--format=directory",
            "--verbose",
        ])
        // Scripts of packages run with this environment, so the server's own stays out.
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C.UTF-8")
        .env("SKEP_SCRATCH", scratch)
        // What a killed bootstrap leaves there goes with the unfinished layer.
        .env("TMPDIR", scratch)
        .envs(host.proxy_env().iter().map(|(name, value)| (name, value)))
        .arg(joined("--setup-hook=", &enter))
        .arg(joined("--customize-hook=", &leave));
    if !origin.packages.is_empty() {
        command.arg(format!("--include={}", origin.packages.join(",")));
    }
    let without = origin.without.iter().map(|pattern| ("exclude", pattern));
    let keep = origin.keep.iter().map(|pattern| ("include", pattern));
    for (word, pattern) in without.chain(keep) {
        command.arg(format!("--dpkgopt=path-{word}={pattern}"));
    }
    command.arg(&origin.suite).arg(root);
    Ok(command)
}

fn find_program(name: &'static str) -> Result<PathBuf, StepError> {
    let mut places = PATH
        .split(':')
        .map(|directory| Path::new(directory).join(name));
    places
        .find(|path| path.is_file())
        .ok_or(StepError::ProgramMissing {
            program: name,
            hint: "install it with `apt-get install mmdebstrap debian-archive-keyring`",
        })
}

fn write_program(path: &Path, text: &str) -> Result<(), StepError> {
    write_file(path, text.as_bytes())?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(StepError::system(
        format!("make `{}` executable", path.display()),
    ))
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(option);
    argument.push(path);
    argument
}
