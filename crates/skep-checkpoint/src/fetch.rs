//! CRIU from Debian's newest suite, for hosts whose own is too old or missing.
//!
//! The packages are Debian's, unmodified, fetched by apt with its signatures into directories of
//! their own: nothing of the host's package database is read or changed. They are unpacked and never
//! installed; the program runs with the libraries and the loader that came with it.
//!
//! The index of that suite says until when it is valid, a week or so. A mirror that is updated less
//! often than that offers one that has run out. It is signed all the same, so what somebody on the
//! way could do is to offer an older index of Debian's with older packages of Debian's, and those
//! are refused if they are older than what is needed. So it is tried with that check first, and
//! without it if apt says no.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Suite that has a CRIU that is new enough.
pub const SUITE: &str = "sid";

const PACKAGE: &str = "criu";

/// Failure to fetch CRIU. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A directory or file could not be made.
    #[error("cannot {operation} `{}`", path.display())]
    File {
        /// The operation.
        operation: &'static str,
        /// Its object.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A program of the host is missing.
    #[error("cannot run {program}")]
    Program {
        /// Name of the program.
        program: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// A program gave up.
    #[error("{program} failed: {said}")]
    Failed {
        /// Name of the program.
        program: &'static str,
        /// Its last line.
        said: String,
    },
}

/// Fetches CRIU and its libraries into `directory`, which is replaced. `sources` are lines of apt's
/// that name a mirror with [`SUITE`] and its keys, `configuration` is apt's configuration for this
/// host. Blocks for as long as the network takes.
///
/// # Errors
///
/// [`FetchError`]; what was there stays.
pub fn fetch(directory: &Path, sources: &str, configuration: &str) -> Result<(), FetchError> {
    let work = directory.with_extension("new");
    remove(&work)?;
    let fetched = fetch_into(&work, sources, configuration);
    if fetched.is_ok() {
        remove(directory)?;
        let root = work.join("root");
        fs::rename(&root, directory).map_err(failed("put in place", directory))?;
    }
    remove(&work)?;
    fetched
}

fn fetch_into(work: &Path, sources: &str, configuration: &str) -> Result<(), FetchError> {
    let write = |path: &Path, text: &str| fs::write(path, text).map_err(failed("write", path));
    for name in ["state/lists/partial", "cache/archives/partial", "root"] {
        let path = work.join(name);
        fs::create_dir_all(&path).map_err(failed("make", &path))?;
    }
    let path = |name: &str| work.join(name);
    write(&path("sources.list"), sources)?;
    write(&path("status"), "")?;
    let own = format!(
        "Dir::Etc::sourcelist \"{0}/sources.list\";\nDir::Etc::sourceparts \"-\";\n\
         Dir::Etc::preferencesparts \"-\";\nDir::State \"{0}/state\";\n\
         Dir::State::status \"{0}/status\";\nDir::Cache \"{0}/cache\";\n\
         Acquire::Languages \"none\";\nAPT::Install-Recommends \"false\";\n\
         APT::Sandbox::User \"root\";\n",
        work.display()
    );
    write(&path("apt.conf"), &format!("{configuration}{own}"))?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", path("apt.conf")).args(arguments);
        run("apt-get", command)
    };
    match apt(&["update", "--error-on=any"]) {
        Err(FetchError::Failed { said, .. }) if said.contains("expired") => {
            apt(&[
                "-o",
                "Acquire::Check-Valid-Until=false",
                "update",
                "--error-on=any",
            ])?;
        }
        updated => updated?,
    }
    apt(&["install", "--yes", "--download-only", "--", PACKAGE])?;
    let archives = path("cache/archives");
    for entry in fs::read_dir(&archives).map_err(failed("list", &archives))? {
        let package = entry.map_err(failed("list", &archives))?.path();
        if package.extension() == Some(OsStr::new("deb")) {
            let mut command = Command::new("dpkg-deb");
            command.arg("--extract").arg(&package).arg(path("root"));
            run("dpkg-deb", command)?;
        }
    }
    Ok(())
}

fn run(program: &'static str, mut command: Command) -> Result<(), FetchError> {
    let output = command
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output()
        .map_err(|source| FetchError::Program { program, source })?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let said = text
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("nothing")
        .to_owned();
    Err(FetchError::Failed { program, said })
}

fn remove(path: &Path) -> Result<(), FetchError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FetchError {
    let path = path.to_owned();
    move |source| FetchError::File {
        operation,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_that_is_not_there_leaves_what_was_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let fetched = directory.path().join("criu");
        fs::create_dir(&fetched).unwrap();
        fs::write(fetched.join("before"), "").unwrap();
        let mirror = directory.path().join("no-mirror");
        let sources = format!("deb file:{} sid main\n", mirror.display());
        fetch(&fetched, &sources, "").unwrap_err();
        assert!(fetched.join("before").exists());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
