//! Programs of this host.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, bail};

/// A command that makes files of root: run as root, or with its rights.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool of developers is its own `main`"
)]
pub(super) fn as_root(program: impl AsRef<OsStr>) -> Command {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let mut command = if is_root {
        Command::new(program)
    } else {
        let mut command = Command::new("sudo");
        command.arg("--preserve-env").arg(program);
        command
    };
    // Debian keeps `mke2fs` and `chroot` where only root's PATH looks.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut path = path;
    path.push(":/usr/sbin:/sbin");
    command.env("PATH", path);
    command
}

/// Runs a command to its end; an error has what it printed.
pub(super) fn run(command: &mut Command) -> anyhow::Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}\n{said}", output.status);
    }
    Ok(output)
}

/// Removes a file or directory that root may own, if it is there.
pub(super) fn remove(path: &Path) -> anyhow::Result<()> {
    run(as_root("rm").arg("-rf").arg(path))?;
    Ok(())
}

/// Removes the files of a cache whose names begin with `prefix`, except `kept`: what another list of
/// packages, kernel or template made.
pub(super) fn remove_others(cache: &Path, prefix: &str, kept: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(cache)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if name.to_string_lossy().starts_with(prefix) && path != kept {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Writes an ext4 filesystem that holds a copy of `tree` to `image`, once it is whole.
pub(super) fn make_image(tree: &Path, image: &Path, size: &str) -> anyhow::Result<()> {
    let unfinished = image.with_extension("making");
    run(as_root("mke2fs")
        .args([
            "-q",
            "-F",
            "-t",
            "ext4",
            "-O",
            "^has_journal",
            "-N",
            "200000",
        ])
        .args(["-E", "root_owner=0:0,lazy_itable_init=1", "-d"])
        .arg(tree)
        .arg(&unfinished)
        .arg(size))?;
    run(as_root("mv").arg(&unfinished).arg(image))?;
    Ok(())
}

/// Says what is being done, for whoever waits.
#[expect(clippy::print_stderr, reason = "progress is for people, not output")]
pub(super) fn tell(what: &str) {
    eprintln!("cgroup2: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_for_another_system_is_removed() {
        let cache = tempfile::tempdir().unwrap();
        let path = |name: &str| cache.path().join(name);
        for name in [
            "root-trixie-1.img",
            "root-trixie-2.img",
            "root-bookworm-1.img",
        ] {
            std::fs::write(path(name), "").unwrap();
        }
        remove_others(cache.path(), "root-trixie-", &path("root-trixie-2.img")).unwrap();
        assert!(!path("root-trixie-1.img").exists());
        assert!(path("root-trixie-2.img").exists());
        assert!(path("root-bookworm-1.img").exists());
    }
}
