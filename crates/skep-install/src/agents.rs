//! The agents of an installation: the executables of sandboxes, each in a directory that is named by
//! the hash of its content.
//!
//! A server brings the one it was built with and puts it here, where every sandbox executes it by
//! descriptor. The name says what is in the file, so an upgrade adds one and never changes one that
//! runs, and whoever keeps a sandbox for later can name the agent that it needs: a second link to
//! the file keeps it.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;

/// Directory of the agents, below the data directory.
pub(crate) const DIRECTORY: &str = "agents";
/// Name of an agent's file, which is the name of its process.
const FILE: &str = "skep";
/// Rights of an agent's file. Its readers are the roots of sandboxes, which are nobody in
/// particular to the host; from the host only root comes past the directory.
const MODE: u32 = 0o555;

/// An executable that is inside another.
#[derive(Clone, Copy)]
pub struct AgentBuild {
    /// Hash of its content, as hexadecimal digits.
    pub id: &'static str,
    /// The content.
    pub bytes: &'static [u8],
}

impl std::fmt::Debug for AgentBuild {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("AgentBuild")
            .field("id", &self.id)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

/// Reasons for which an agent cannot be executed from the data directory.
#[derive(Debug, thiserror::Error)]
pub enum AgentsError {
    /// The file system is mounted without the right to execute.
    #[error("`{}` is mounted `noexec`", .0.display())]
    Noexec(PathBuf),
    /// The file cannot be written.
    #[error("cannot {operation} `{}`", path.display())]
    File {
        /// The operation that failed.
        operation: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AgentsError {
    let path = path.to_owned();
    move |source| AgentsError::File {
        operation,
        path,
        source,
    }
}

/// Puts an agent into the data directory unless it is there, and returns its path.
///
/// # Errors
///
/// [`AgentsError`] if it cannot be written, or not be executed from there.
pub fn install_agent(data_dir: &Path, agent: &AgentBuild) -> Result<PathBuf, AgentsError> {
    let directory = data_dir.join(DIRECTORY).join(agent.id);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(failed("make", &directory))?;
    let mounted = rustix::fs::statvfs(&directory).map_err(io::Error::from);
    let flags = mounted.map_err(failed("look at", &directory))?.f_flag;
    if flags.contains(StatVfsMountFlags::NOEXEC) {
        return Err(AgentsError::Noexec(directory));
    }
    let path = directory.join(FILE);
    if !is_whole(&path, agent) {
        write(&directory, &path, agent)?;
        // The server would keep what it read of itself for as long as it runs: as much as it needs
        // otherwise.
        if let Err(error) = skep_linux::page_out(agent.bytes) {
            tracing::debug!(%error, "the agent's content stays in memory");
        }
    }
    Ok(path)
}

/// Returns true if the file is there as it was written: whole, and executable by all. It got its
/// name when its content was on the disk, and who could change it since could change the database.
fn is_whole(path: &Path, agent: &AgentBuild) -> bool {
    let found = fs::symlink_metadata(path);
    found.is_ok_and(|found| {
        found.is_file()
            && found.len() == agent.bytes.len() as u64
            && found.mode() & 0o7777 == MODE
            && found.uid() == rustix::process::geteuid().as_raw()
    })
}

/// Writes the file under another name and renames it: a server that is killed meanwhile leaves
/// nothing that looks like an agent.
fn write(directory: &Path, path: &Path, agent: &AgentBuild) -> Result<(), AgentsError> {
    let new = directory.join(format!(".new.{}", std::process::id()));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove", &new)(error));
        }
        _ => {}
    }
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| {
            file.write_all(agent.bytes)?;
            file.set_permissions(Permissions::from_mode(MODE))?;
            file.sync_all()
        });
    written.map_err(failed("write", &new))?;
    fs::rename(&new, path).map_err(failed("put in place", path))?;
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(failed("write", directory))
}

/// Removes the agents of earlier servers that nobody needs, and says how many they were.
///
/// Needed are the current one, those that a process executes, and those with a second link. To be
/// called by the one server of this directory.
///
/// # Errors
///
/// If the directory or a process cannot be looked at, or a file not be removed.
pub fn prune_agents(data_dir: &Path, current: &str) -> Result<usize, AgentsError> {
    let directory = data_dir.join(DIRECTORY);
    let executed = executed().map_err(failed("list", Path::new("/proc")))?;
    let mut removed = 0;
    for entry in fs::read_dir(&directory).map_err(failed("list", &directory))? {
        let entry = entry.map_err(failed("list", &directory))?;
        let path = entry.path();
        // One whose file is not there was being written by a server that was killed.
        let is_needed = match fs::symlink_metadata(path.join(FILE)) {
            Ok(file) => file.nlink() > 1 || executed.contains(&(file.dev(), file.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(failed("look at", &path)(error)),
        };
        if !is_needed && entry.file_name() != current {
            fs::remove_dir_all(&path).map_err(failed("remove", &path))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Devices and inodes of all files that a process of this host executes.
fn executed() -> io::Result<BTreeSet<(u64, u64)>> {
    let mut executed = BTreeSet::new();
    for entry in fs::read_dir("/proc")? {
        // Threads of the kernel have no file, and a process may have ended since.
        if let Ok(file) = fs::metadata(entry?.path().join("exe")) {
            executed.insert((file.dev(), file.ino()));
        }
    }
    Ok(executed)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    const OLD: AgentBuild = AgentBuild {
        id: "0ld",
        bytes: b"#!/bin/cat\n",
    };
    const NEW: AgentBuild = AgentBuild {
        id: "4ew",
        bytes: b"#!/bin/true\n",
    };

    fn names(data: &Path) -> Vec<String> {
        let entries = fs::read_dir(data.join(DIRECTORY)).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_agent_is_written_once_and_can_be_executed() {
        let data = tempfile::tempdir().unwrap();
        let path = install_agent(data.path(), &NEW).unwrap();
        assert!(Command::new(&path).status().unwrap().success());
        let first = fs::metadata(&path).unwrap().ino();
        assert_eq!(install_agent(data.path(), &NEW).unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().ino(), first);
        assert_eq!(names(data.path()), [NEW.id]);
        assert_eq!(path.file_name().unwrap(), "skep", "the name of its process");
    }

    #[test]
    fn a_file_that_was_cut_off_or_closed_is_written_again() {
        let data = tempfile::tempdir().unwrap();
        let path = install_agent(data.path(), &NEW).unwrap();
        for break_it in [
            |path: &Path| {
                fs::remove_file(path).unwrap();
                fs::write(path, "#!").unwrap();
            },
            |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o500)).unwrap(),
        ] {
            break_it(&path);
            install_agent(data.path(), &NEW).unwrap();
            assert_eq!(fs::read(&path).unwrap(), NEW.bytes);
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, MODE);
        }
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing else is left");
    }

    #[test]
    fn an_agent_stays_while_it_runs_or_has_a_second_link() {
        let data = tempfile::tempdir().unwrap();
        let agents = data.path().join(DIRECTORY);
        install_agent(data.path(), &NEW).unwrap();
        install_agent(data.path(), &OLD).unwrap();
        // A program that runs: a script would show its interpreter.
        let running = agents.join("running").join(FILE);
        fs::create_dir(agents.join("running")).unwrap();
        fs::create_dir(agents.join("unfinished")).unwrap();
        fs::copy("/bin/cat", &running).unwrap();
        let mut cat = Command::new(&running)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let kept = data.path().join("kept");
        fs::hard_link(agents.join(OLD.id).join(FILE), &kept).unwrap();
        assert_eq!(prune_agents(data.path(), NEW.id).unwrap(), 1);
        assert_eq!(names(data.path()), [OLD.id, NEW.id, "running"]);
        fs::remove_file(&kept).unwrap();
        assert_eq!(prune_agents(data.path(), NEW.id).unwrap(), 1);
        assert_eq!(names(data.path()), [NEW.id, "running"]);
        drop(cat.stdin.take());
        cat.wait().unwrap();
        assert_eq!(prune_agents(data.path(), NEW.id).unwrap(), 1);
        assert_eq!(names(data.path()), [NEW.id]);
    }
}
