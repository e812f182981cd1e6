//! Places in which an operator keeps keys.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::{KeyError, Keyring, MasterKey};

/// Time limit for a command that prints a key.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit on what it prints.
const PRINTED_BYTES: u64 = 4096;

/// The place of a vault's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A file, which has to be there: the operator's, or a credential that systemd put there.
    File(PathBuf),
    /// A file that is made when the first value is sealed.
    OwnFile(PathBuf),
    /// A program that prints the keys, without arguments.
    Command(PathBuf),
}

/// Failure to get keys.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file has none.
    #[error(transparent)]
    File(#[from] KeyError),
    /// The file cannot be made.
    #[error("cannot make the key file `{}`", path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The program cannot be started or read.
    #[error("cannot run `{}` for a key", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The program failed. What it printed is not told: it may be a key.
    #[error("`{}` gave no key: {status}", program.display())]
    Failed {
        /// The program.
        program: PathBuf,
        /// Its end.
        status: ExitStatus,
    },
    /// The program printed something else.
    #[error("`{}` printed something else than 64 hexadecimal digits", .0.display())]
    NoKey(PathBuf),
}

impl KeySource {
    /// Reads the keys; `None` if this is a file of our own that nobody has needed yet. Blocks.
    ///
    /// # Errors
    ///
    /// [`SourceError`]
    pub fn read(&self) -> Result<Option<Keyring>, SourceError> {
        let keys = match self {
            Self::File(path) => MasterKey::read_all(path)?,
            Self::OwnFile(path) => match MasterKey::read_all(path) {
                Ok(keys) => keys,
                Err(KeyError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            },
            Self::Command(program) => printed(program)?,
        };
        Ok(Keyring::new(keys))
    }

    /// Reads the keys, and makes one if this is a file of our own that is not there. Blocks.
    ///
    /// # Errors
    ///
    /// [`SourceError`]
    pub fn read_or_make(&self) -> Result<Keyring, SourceError> {
        if let Some(keys) = self.read()? {
            return Ok(keys);
        }
        let path = self.path();
        let make = || MasterKey::random()?.write_new(path);
        match make() {
            Ok(()) => {}
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => {
                let path = path.clone();
                return Err(SourceError::Make { path, source });
            }
        }
        let missing = || KeyError::NoKey(path.clone()).into();
        self.read()?.ok_or_else(missing)
    }

    fn path(&self) -> &PathBuf {
        match self {
            Self::File(path) | Self::OwnFile(path) | Self::Command(path) => path,
        }
    }
}

fn printed(program: &PathBuf) -> Result<Vec<MasterKey>, SourceError> {
    let run = |source| SourceError::Run {
        program: program.clone(),
        source,
    };
    let mut child = Command::new(program)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(run)?;
    let (text, status) = ended(&mut child).map_err(run)?;
    if !status.success() {
        let program = program.clone();
        return Err(SourceError::Failed { program, status });
    }
    MasterKey::parse_all(&text).ok_or_else(|| SourceError::NoKey(program.clone()))
}

/// Runs a program for its output and its exit status. One that takes too long is killed.
fn ended(child: &mut Child) -> io::Result<(Zeroizing<String>, ExitStatus)> {
    let output = child.stdout.take().expect("it was asked for");
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut text = Zeroizing::new(String::new());
        let read = output.take(PRINTED_BYTES).read_to_string(&mut text);
        // Nobody waits for what came too late.
        sender.send(read.map(|_| text)).ok();
    });
    let text = receiver.recv_timeout(COMMAND_TIMEOUT);
    if text.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    let text = text.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok((text, status))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    fn program(directory: &Path, text: &str) -> KeySource {
        let path = directory.join("program");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        KeySource::Command(path)
    }

    #[test]
    fn a_file_of_our_own_is_made_when_it_is_needed() {
        let directory = tempfile::tempdir().unwrap();
        let source = KeySource::OwnFile(directory.path().join("key"));
        assert!(source.read().unwrap().is_none());
        let sealed = source.read_or_make().unwrap().seal("a", b"x").unwrap();
        let again = source.read().unwrap().unwrap();
        assert_eq!(*again.open("a", &sealed).unwrap(), b"x");
        let other = KeySource::File(directory.path().join("none"));
        assert!(matches!(other.read_or_make(), Err(SourceError::File(_))));
    }

    #[test]
    fn a_program_prints_keys_and_its_failure_tells_nothing_it_printed() {
        let directory = tempfile::tempdir().unwrap();
        let digits = "5a".repeat(32);
        let source = program(directory.path(), &format!("echo {digits}"));
        let sealed = source.read_or_make().unwrap().seal("a", b"x").unwrap();
        let known = Keyring::new(vec![MasterKey::from_bytes([0x5a; 32])]).unwrap();
        assert_eq!(*known.open("a", &sealed).unwrap(), b"x");
        for text in [
            format!("echo {digits}; exit 3"),
            format!("echo no {digits}"),
        ] {
            let error = program(directory.path(), &text).read().unwrap_err();
            assert!(!error.to_string().contains("5a5a"), "{error}");
        }
    }
}
