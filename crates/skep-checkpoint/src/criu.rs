//! The CRIU of a host, or the one that was fetched for it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::thread::CapabilitySet;

/// Oldest version that carries a whole sandbox.
pub const MINIMUM_VERSION: (u32, u32, u32) = (4, 2, 1);

/// Places of a host's own CRIU.
const HOSTS: [&str; 3] = ["/usr/sbin/criu", "/usr/local/sbin/criu", "/usr/bin/criu"];

/// Reads limits of other processes where root may not ask for them.
const SHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shim.so"));

/// A CRIU that is new enough, and how it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Criu {
    command: Vec<String>,
    version: String,
}

/// The reason for which there is no CRIU to be used.
#[derive(Debug, thiserror::Error)]
pub enum CriuError {
    /// None was found, on the host or among what was fetched.
    #[error("there is no criu")]
    Missing,
    /// The host's is too old.
    #[error("criu {found} is older than 4.2.1")]
    Old {
        /// Its version.
        found: String,
    },
    /// It could not be called.
    #[error("cannot {operation} `{}`", path.display())]
    File {
        /// The operation.
        operation: &'static str,
        /// The program, or a file that it needs.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl Criu {
    /// Finds a CRIU: the host's own if it is new enough, else one whose packages were unpacked in
    /// `fetched`. `directory` is root's own and gets what is needed beside it.
    ///
    /// # Errors
    ///
    /// [`CriuError`]: that of the host's, if it has one that cannot be used.
    pub fn find(fetched: &Path, directory: &Path) -> Result<Self, CriuError> {
        let shim = needs_shim().then(|| write_shim(directory)).transpose()?;
        let mut first = None;
        for program in HOSTS.map(Path::new) {
            if !program.exists() {
                continue;
            }
            match Self::check(called_by_host(program, shim.as_deref())) {
                Ok(criu) => return Ok(criu),
                Err(error) => {
                    first.get_or_insert(error);
                }
            }
        }
        let program = fetched.join("usr/sbin/criu");
        if program.exists() {
            return Self::check(called_by_itself(fetched, &program, shim.as_deref()));
        }
        Err(first.unwrap_or(CriuError::Missing))
    }

    /// Directory of a cache to which a CRIU for this host is fetched.
    pub fn fetched_in(cache: &Path) -> PathBuf {
        cache.join("criu")
    }

    fn check(command: Vec<String>) -> Result<Self, CriuError> {
        let program = &command[0];
        let failed = |source| CriuError::File {
            operation: "call",
            path: program.into(),
            source,
        };
        let said = Command::new(program)
            .args(&command[1..])
            .arg("--version")
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .map_err(failed)?;
        let text = String::from_utf8_lossy(&said.stdout);
        let found = version_in(&text).ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        if found.1 < MINIMUM_VERSION {
            let found = found.0;
            return Err(CriuError::Old { found });
        }
        Ok(Self {
            command,
            version: found.0,
        })
    }

    /// Program and first arguments.
    pub fn command(&self) -> &[String] {
        &self.command
    }

    /// Its version, for people and manifests.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// Version in what `criu --version` says, as text and as numbers.
fn version_in(text: &str) -> Option<(String, (u32, u32, u32))> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Version:"))?;
    let text = line.trim();
    let mut numbers = text.split('.').map(|part| {
        let digits = part.find(|character: char| !character.is_ascii_digit());
        part[..digits.unwrap_or(part.len())].parse::<u32>().ok()
    });
    let major = numbers.next()??;
    let mut next = || numbers.next().flatten().unwrap_or_default();
    Some((text.to_owned(), (major, next(), next())))
}

/// Root may ask for the limits of other users' processes with that right alone.
fn needs_shim() -> bool {
    let sets = rustix::thread::capabilities(None);
    !sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE))
}

fn write_shim(directory: &Path) -> Result<PathBuf, CriuError> {
    let path = directory.join("limits.so");
    let failed = |source| CriuError::File {
        operation: "write",
        path: path.clone(),
        source,
    };
    fs::create_dir_all(directory).map_err(failed)?;
    if fs::read(&path).is_ok_and(|found| found == SHIM) {
        return Ok(path);
    }
    // Another server may load it at this moment.
    let new = directory.join(format!("limits.so.{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(&new).and_then(|mut file| file.write_all(SHIM));
    written
        .and_then(|()| fs::rename(&new, &path))
        .map_err(failed)?;
    Ok(path)
}

/// A program of the host, by the host's own loader if something is to be loaded before it.
fn called_by_host(program: &Path, shim: Option<&Path>) -> Vec<String> {
    let program = program.display().to_string();
    match shim {
        None => vec![program],
        Some(shim) => vec![
            loader(Path::new("/")).display().to_string(),
            "--preload".into(),
            shim.display().to_string(),
            program,
        ],
    }
}

/// A program that was fetched with its libraries.
fn called_by_itself(fetched: &Path, program: &Path, shim: Option<&Path>) -> Vec<String> {
    let libraries = fetched.join("usr/lib").join(TRIPLET);
    let mut command = vec![
        loader(fetched).display().to_string(),
        "--library-path".into(),
        libraries.display().to_string(),
    ];
    if let Some(shim) = shim {
        command.extend(["--preload".into(), shim.display().to_string()]);
    }
    command.push(program.display().to_string());
    command
}

#[cfg(target_arch = "x86_64")]
const TRIPLET: &str = "x86_64-linux-gnu";
#[cfg(target_arch = "aarch64")]
const TRIPLET: &str = "aarch64-linux-gnu";

/// The loader below a root, which the library directory has under its own name.
fn loader(root: &Path) -> PathBuf {
    let name = if cfg!(target_arch = "aarch64") {
        "ld-linux-aarch64.so.1"
    } else {
        "ld-linux-x86-64.so.2"
    };
    root.join("usr/lib").join(TRIPLET).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_and_compared() {
        let version = |text: &str| version_in(text).map(|(_, numbers)| numbers);
        assert_eq!(version("Version: 4.2.1\n"), Some((4, 2, 1)));
        assert_eq!(version("Version: 3.17.1\nGitID: v3"), Some((3, 17, 1)));
        assert_eq!(version("Version: 5.0-rc1\n"), Some((5, 0, 0)));
        assert_eq!(version("criu"), None);
        assert!(version("Version: 4.10\n") > Some(MINIMUM_VERSION));
    }

    #[test]
    fn a_host_without_any_has_none() {
        let empty = tempfile::tempdir().unwrap();
        let found = Criu::find(empty.path(), empty.path());
        // A host may have one of its own.
        if !HOSTS.iter().any(|path| Path::new(path).exists()) {
            assert!(matches!(found, Err(CriuError::Missing)));
        }
    }

    /// The one user whose limits nobody else may ask for is root without that right.
    #[test]
    fn the_shim_reads_the_limits_of_another_process() {
        let directory = tempfile::tempdir().unwrap();
        let shim = write_shim(directory.path()).unwrap();
        let said = Command::new("prlimit")
            .args(["--pid", "1", "--nofile", "--noheadings", "--output", "SOFT"])
            .env("LD_PRELOAD", shim)
            .output();
        let Ok(said) = said else {
            return;
        };
        let limits = fs::read_to_string("/proc/1/limits").unwrap();
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"))
            .unwrap();
        let soft = line.split_whitespace().nth(3).unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), soft);
    }
}
