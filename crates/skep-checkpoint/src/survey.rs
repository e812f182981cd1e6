//! Parts of a process tree that are not its own: mounts that a launcher makes, files of the host
//! that are open or mapped, and who owns the pipes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode, OFlags, Uid};
use serde::{Deserialize, Serialize};

use crate::{proc, watches};

/// The parts of a process tree that are not its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// Mounts that are made for it, those below before those above them.
    pub mounts: Vec<ExternalMount>,
    /// Open or mapped files of other mounts than its own.
    pub files: Vec<ExternalFile>,
    /// Owners of its pipes.
    pub pipes: Vec<PipeOwner>,
    /// Directories of its root that it watches.
    pub watched: Vec<PathBuf>,
}

/// A mount that is made before the tree is restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalMount {
    /// Name in the image.
    pub key: String,
    /// Place in the tree's root.
    pub point: String,
}

/// A file that is opened before the tree is restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalFile {
    /// Name in the image: mount and inode.
    pub key: String,
    /// Flags that it is open with; `None` if it is only mapped or executed.
    pub flags: Option<u32>,
    /// The file itself.
    pub origin: Origin,
}

/// Origin of a file that is not the tree's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// A file of one of the tree's cgroups.
    Cgroup {
        /// Number of the hierarchy, as the surveyor was told.
        hierarchy: usize,
        /// Path below the tree's own group.
        path: PathBuf,
    },
    /// A file of the host.
    Host(PathBuf),
    /// A file of the template below, as another tree has it mapped that this one was forked from.
    Template(PathBuf),
    /// The file that is mounted over `/proc/meminfo`, open for writing.
    MemoryInfo,
}

/// Owner of a pipe, which CRIU makes as root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeOwner {
    /// A process that has it open, by its number inside.
    pub pid: i32,
    /// The number of the descriptor.
    pub fd: i32,
    /// Ids of the tree's own users.
    pub owner: (u32, u32),
    /// Permission bits.
    pub mode: u32,
}

/// The error about an open POSIX message queue.
pub const MESSAGE_QUEUE: &str = "a message queue is in no image";

/// Number of the file system of message queues.
const MQUEUE_MAGIC: rustix::fs::FsWord = 0x1980_0202;

/// Part of a tree that cannot be seen if it watches something that cannot be found again.
pub const WATCHES: &str = "the watches";

/// Failure to look at a process tree.
#[derive(Debug, thiserror::Error)]
#[error("cannot look at {what} of process {pid}")]
pub struct SurveyError {
    /// The part that could not be seen.
    pub what: &'static str,
    /// The process, by its number on the host.
    pub pid: i32,
    /// Error of the system.
    pub source: io::Error,
}

/// The surroundings of a tree, by which its files are told apart.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// Its own group in every hierarchy.
    pub cgroups: &'a [PathBuf],
    /// Directories of the host whose files may be mapped: executables of agents.
    pub programs: &'a [PathBuf],
    /// The host's id for the tree's 0.
    pub first_id: u32,
}

impl Survey {
    /// Looks at a tree whose processes stand: `first` is its first process.
    ///
    /// # Errors
    ///
    /// [`SurveyError`]; a process that has ended meanwhile is left out.
    pub fn of(
        first: i32,
        processes: &[i32],
        around: Surroundings<'_>,
    ) -> Result<Self, SurveyError> {
        let failed = |what, pid| move |source| SurveyError { what, pid, source };
        let own = proc::mounts(first).map_err(failed("the mounts", first))?;
        let found = Found::of(first, &own, processes, around)?;
        let watched = || -> io::Result<Vec<PathBuf>> {
            let root = File::open(format!("/proc/{first}/root"))?;
            let inodes = watches::watched(processes, root.metadata()?.dev())?;
            watches::find(&root.into(), inodes)
        };
        Ok(Self {
            watched: watched().map_err(failed(WATCHES, first))?,
            mounts: external_mounts(&own),
            files: found.files.into_values().collect(),
            pipes: found.pipes.into_values().collect(),
        })
    }
}

/// Returns the files of other mounts than the tree's own that some of its processes have open or
/// mapped, which stand.
///
/// # Errors
///
/// [`SurveyError`], also for a file that is none of those that a tree may have.
pub fn foreign_files(
    first: i32,
    processes: &[i32],
    around: Surroundings<'_>,
) -> Result<Vec<ExternalFile>, SurveyError> {
    let own = proc::mounts(first).map_err(|source| SurveyError {
        what: "the mounts",
        pid: first,
        source,
    })?;
    let found = Found::of(first, &own, processes, around)?;
    Ok(found.files.into_values().collect())
}

/// Mounts that are made by a launcher: all but the root, `/proc`, and what is only another view of
/// one of them.
fn external_mounts(own: &[proc::Mount]) -> Vec<ExternalMount> {
    let is_in_proc = |mount: &proc::Mount| mount.point.starts_with("/proc/");
    let shown: BTreeSet<&str> = own
        .iter()
        .filter(|mount| !is_in_proc(mount))
        .map(|mount| mount.device.as_str())
        .collect();
    // A mask over a part of `/proc` shows a file or a directory of `/dev` or `/sys`; CRIU finds it
    // there, as it does what is read-only of `/proc` itself.
    let is_view = |mount: &&proc::Mount| is_in_proc(mount) && shown.contains(mount.device.as_str());
    let made = own
        .iter()
        .filter(|mount| !is_view(mount))
        .filter(|mount| !["/", "/proc"].contains(&mount.point.as_str()));
    let named = made.enumerate().map(|(number, mount)| ExternalMount {
        key: format!("skep-{number}"),
        point: mount.point.clone(),
    });
    named.collect()
}

/// Returns true if an error is that of a process that is gone, or is about to be.
fn has_ended(pid: i32, error: &io::Error) -> bool {
    let is_missing = matches!(
        error.raw_os_error(),
        Some(code) if code == rustix::io::Errno::NOENT.raw_os_error()
            || code == rustix::io::Errno::SRCH.raw_os_error()
    );
    let status = proc::status(&format!("/proc/{pid}"));
    let has_memory = status.is_ok_and(|status| status.contains_key("VmRSS"));
    is_missing && !has_memory
}

struct Found<'a> {
    known: BTreeSet<u64>,
    /// Device and inode of what the tree sees as `/proc/meminfo`.
    memory_info: Option<(u64, u64)>,
    around: Surroundings<'a>,
    files: BTreeMap<String, ExternalFile>,
    pipes: BTreeMap<u64, PipeOwner>,
}

impl<'a> Found<'a> {
    fn of(
        first: i32,
        own: &[proc::Mount],
        processes: &[i32],
        around: Surroundings<'a>,
    ) -> Result<Self, SurveyError> {
        let mut found = Self {
            known: own.iter().map(|mount| mount.id).collect(),
            memory_info: memory_info(first),
            around,
            files: BTreeMap::new(),
            pipes: BTreeMap::new(),
        };
        for pid in processes {
            match found.look(*pid) {
                Err(error) if has_ended(*pid, &error) => {}
                looked => looked.map_err(|source| SurveyError {
                    what: "the files",
                    pid: *pid,
                    source,
                })?,
            }
        }
        Ok(found)
    }

    fn look(&mut self, pid: i32) -> io::Result<()> {
        let inner = proc::inner_pid(pid)?;
        for fd in proc::descriptors(pid)? {
            let path = PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
            match self.look_at_descriptor(pid, inner, fd, &path) {
                // It was closed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                looked => looked?,
            }
        }
        for path in proc::mapped_files(pid)? {
            match self.look_at_mapping(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                looked => looked?,
            }
        }
        Ok(())
    }

    fn look_at_descriptor(&mut self, pid: i32, inner: i32, fd: i32, path: &Path) -> io::Result<()> {
        let target = fs::read_link(path)?;
        let name = target.to_string_lossy();
        if name.starts_with("pipe:[") {
            let metadata = fs::metadata(path)?;
            let inside = |id: u32| id.checked_sub(self.around.first_id);
            if let Some(owner) = inside(metadata.uid()).zip(inside(metadata.gid())) {
                let mode = metadata.mode() & 0o7777;
                let pipe = PipeOwner {
                    pid: inner,
                    fd,
                    owner,
                    mode,
                };
                self.pipes.entry(metadata.ino()).or_insert(pipe);
            }
            return Ok(());
        }
        let (mount, flags) = proc::descriptor_info(&pid.to_string(), fd)?;
        self.add(path, &target, mount, Some(flags))
    }

    fn look_at_mapping(&mut self, path: &Path) -> io::Result<()> {
        let target = fs::read_link(path)?;
        let file = File::options()
            .read(true)
            .custom_flags((OFlags::PATH | OFlags::CLOEXEC).bits().cast_signed())
            .open(path)?;
        let (mount, _) = proc::descriptor_info("self", file.as_raw_fd())?;
        self.add(path, &target, mount, None)
    }

    fn add(
        &mut self,
        path: &Path,
        target: &Path,
        mount: u64,
        flags: Option<u32>,
    ) -> io::Result<()> {
        let Some(mut origin) = self.origin(target) else {
            return Ok(());
        };
        if self.known.contains(&mount) {
            return Ok(());
        }
        // A restore could not open it again.
        if target.as_os_str().as_bytes().ends_with(b" (deleted)") {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a file of the host that it has open was removed",
            ));
        }
        let metadata = fs::metadata(path)?;
        if self.memory_info == Some((metadata.dev(), metadata.ino())) {
            origin = Origin::MemoryInfo;
        }
        if matches!(origin, Origin::Template(_)) && !is_of_template(path)? {
            let is_queue = rustix::fs::statfs(path).is_ok_and(|found| found.f_type == MQUEUE_MAGIC);
            let what = if is_queue {
                MESSAGE_QUEUE
            } else {
                "it is of a file system that no image holds"
            };
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        let inode = metadata.ino();
        let key = format!("{mount:x}:{inode:x}");
        let found = self.files.entry(key.clone()).or_insert(ExternalFile {
            key,
            flags: None,
            origin,
        });
        // The widest way in which anybody has it open.
        found.flags = match (found.flags, flags) {
            (Some(known), Some(flags)) if known & 3 != flags & 3 => Some((known & !3) | 2),
            (known, flags) => known.or(flags),
        };
        Ok(())
    }

    /// The origin of a file that has a name; others are the tree's own.
    fn origin(&self, target: &Path) -> Option<Origin> {
        let name = target.to_str()?;
        // Memory without a file, which the image holds.
        let is_memory = ["/memfd:", "/SYSV", "/dev/zero (deleted)", "/anon_hugepage"];
        if !name.starts_with('/') || is_memory.iter().any(|start| name.starts_with(start)) {
            return None;
        }
        let mut hierarchies = self.around.cgroups.iter().enumerate();
        let cgroup = hierarchies.find_map(|(hierarchy, group)| {
            let path = target.strip_prefix(group).ok()?.to_owned();
            Some(Origin::Cgroup { hierarchy, path })
        });
        Some(cgroup.unwrap_or_else(|| {
            let mut programs = self.around.programs.iter();
            if programs.any(|directory| target.starts_with(directory)) {
                Origin::Host(target.to_owned())
            } else {
                Origin::Template(target.to_owned())
            }
        }))
    }
}

/// Device and inode of the file that a process sees as `/proc/meminfo`.
fn memory_info(first: i32) -> Option<(u64, u64)> {
    let metadata = fs::metadata(format!("/proc/{first}/root/proc/meminfo")).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns true if a file may be one of a template, which is always behind an overlay. A message
/// queue, for one, has a name as well, and would be looked for in vain when the tree is restored.
fn is_of_template(path: &Path) -> io::Result<bool> {
    const OVERLAY: i64 = 0x794c_7630;
    let found = rustix::fs::statfs(path)?.f_type;
    Ok(found == OVERLAY)
}

/// Gives the pipes of a restored tree to whom they belonged. `processes` are those of the tree,
/// which stands.
///
/// # Errors
///
/// [`SurveyError`].
pub fn own_pipes(processes: &[i32], pipes: &[PipeOwner], first_id: u32) -> Result<(), SurveyError> {
    let failed = |pid| {
        move |source| SurveyError {
            what: "the pipes",
            pid,
            source,
        }
    };
    let mut numbers = BTreeMap::new();
    for pid in processes {
        numbers.insert(proc::inner_pid(*pid).map_err(failed(*pid))?, *pid);
    }
    for pipe in pipes {
        let Some(pid) = numbers.get(&pipe.pid) else {
            continue;
        };
        let path = format!("/proc/{pid}/fd/{}", pipe.fd);
        let (uid, gid) = pipe.owner;
        let give = || -> io::Result<()> {
            // A program that began between the look and the dump has closed what was not for it.
            let is_pipe = match fs::read_link(&path) {
                Ok(target) => target.to_string_lossy().starts_with("pipe:["),
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => return Err(error),
            };
            if !is_pipe {
                return Ok(());
            }
            rustix::fs::chown(
                path.as_str(),
                Some(Uid::from_raw(first_id + uid)),
                Some(Gid::from_raw(first_id + gid)),
            )?;
            Ok(rustix::fs::chmod(
                path.as_str(),
                Mode::from_raw_mode(pipe.mode),
            )?)
        };
        give().map_err(failed(*pid))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(point: &str, device: &str) -> proc::Mount {
        proc::Mount {
            id: 1,
            root: "/".into(),
            device: device.into(),
            point: point.into(),
            kind: "tmpfs".into(),
        }
    }

    #[test]
    fn what_a_launcher_makes_is_external_and_masks_are_not() {
        let own = [
            mount("/", "0:1"),
            mount("/dev", "0:2"),
            mount("/dev/pts", "0:3"),
            mount("/sys", "0:4"),
            mount("/sys/class/net", "0:5"),
            mount("/proc", "0:6"),
            mount("/proc/sys", "0:6"),
            mount("/proc/kcore", "0:2"),
            mount("/proc/acpi", "0:4"),
            mount("/proc/sys/kernel/random/boot_id", "0:7"),
            mount("/proc/meminfo", "0:7"),
        ];
        let external = external_mounts(&own);
        let points: Vec<_> = external.iter().map(|mount| mount.point.as_str()).collect();
        assert_eq!(
            points,
            [
                "/dev",
                "/dev/pts",
                "/sys",
                "/sys/class/net",
                "/proc/sys/kernel/random/boot_id",
                "/proc/meminfo"
            ]
        );
    }

    #[test]
    fn files_are_told_apart_by_where_they_are() {
        let group = PathBuf::from("/sys/fs/cgroup/memory/skep-0/ibox");
        let found = Found {
            known: BTreeSet::new(),
            memory_info: None,
            around: Surroundings {
                cgroups: std::slice::from_ref(&group),
                programs: &[PathBuf::from("/data/agents")],
                first_id: 0,
            },
            files: BTreeMap::new(),
            pipes: BTreeMap::new(),
        };
        let origin = |path: &str| found.origin(Path::new(path));
        let cgroup = |path: &str| Origin::Cgroup {
            hierarchy: 0,
            path: path.into(),
        };
        let procs = group.join("work/cgroup.procs");
        assert_eq!(
            origin(procs.to_str().unwrap()),
            Some(cgroup("work/cgroup.procs"))
        );
        let agent = "/data/agents/1/agent";
        assert_eq!(origin(agent), Some(Origin::Host(agent.into())));
        let library = "/usr/lib/libz.so";
        assert_eq!(origin(library), Some(Origin::Template(library.into())));
        for own in ["/memfd:log (deleted)", "anon_inode:[eventfd]", "socket:[1]"] {
            assert_eq!(origin(own), None);
        }
    }

    #[test]
    fn an_open_file_of_another_mount_and_a_pipe_are_found() {
        let own = std::process::id().cast_signed();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        let file = File::create(&path).unwrap();
        let (reader, _writer) = io::pipe().unwrap();
        let mut found = Found {
            known: BTreeSet::new(),
            memory_info: None,
            around: Surroundings {
                cgroups: &[],
                programs: &[directory.path().to_owned()],
                first_id: 0,
            },
            files: BTreeMap::new(),
            pipes: BTreeMap::new(),
        };
        let at = |fd: i32| PathBuf::from(format!("/proc/{own}/fd/{fd}"));
        for fd in [file.as_raw_fd(), reader.as_raw_fd()] {
            found.look_at_descriptor(own, own, fd, &at(fd)).unwrap();
        }
        // A file of no template.
        let status = File::open("/proc/self/status").unwrap();
        let refused =
            found.look_at_descriptor(own, own, status.as_raw_fd(), &at(status.as_raw_fd()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::Unsupported);
        let inode = file.metadata().unwrap().ino();
        let known = found
            .files
            .values()
            .find(|file| file.origin == Origin::Host(path.clone()))
            .unwrap();
        assert!(known.key.ends_with(&format!(":{inode:x}")));
        assert_eq!(known.flags.unwrap() & 3, 1);
        let number = reader.as_raw_fd();
        assert!(found.pipes.values().any(|pipe| pipe.fd == number));
        let mut pipes: Vec<PipeOwner> = found.pipes.into_values().collect();
        // What is closed by now, or something else, is nobody's to give.
        for fd in [i32::MAX, file.as_raw_fd()] {
            let gone = PipeOwner {
                fd,
                owner: (7, 7),
                ..pipes[0].clone()
            };
            pipes.push(gone);
        }
        let before = file.metadata().unwrap();
        own_pipes(&[own], &pipes, 0).unwrap();
        assert_eq!(file.metadata().unwrap().uid(), before.uid());
    }
}
