//! The floor of a sandbox: nothing but namespaces, an overlay root, its own `/proc` and network.
//!
//! A process of its own, because only one with a single thread may be copied. It answers on
//! standard output like the drivers of the rivals: for each line it reads it makes such a root
//! and says how long that took.

use std::ffi::CString;
use std::fs;
use std::io::{self, BufRead as _, PipeWriter, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::UnshareFlags;
use skep_linux::{Cloned, clone_process, exit_now};

/// The first argument that makes a process the floor; the second is a directory to work in.
pub const FLOOR: &str = "bench-floor";

/// Answers until standard input ends. Must be called before any thread is started.
pub fn run() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(2) else {
        return ExitCode::from(1);
    };
    match answer(Path::new(&directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nobody else to tell; if nobody reads, the exit code still says it.
            writeln!(io::stderr(), "{error}").map_or(ExitCode::from(2), |()| ExitCode::from(2))
        }
    }
}

fn answer(directory: &Path) -> io::Result<()> {
    let root = OverlayRoot::make(directory)?;
    let mut output = io::stdout().lock();
    writeln!(output, r#"{{"ready":true}}"#)?;
    output.flush()?;
    for line in io::stdin().lock().lines() {
        line?;
        let took = root.enter()?.as_secs_f64();
        writeln!(output, r#"{{"seconds":{took}}}"#)?;
        output.flush()?;
    }
    root.remove()
}

/// Directory and options of an overlay mount.
struct OverlayRoot {
    directory: PathBuf,
    options: CString,
}

impl OverlayRoot {
    fn make(directory: &Path) -> io::Result<Self> {
        let directory = directory.join("floor");
        let below = |name: &str| directory.join(name);
        fs::create_dir_all(below("lower").join("proc"))?;
        for name in ["upper", "work", "root"] {
            fs::create_dir_all(below(name))?;
        }
        let mut options = Vec::new();
        for (key, name) in [
            ("lowerdir=", "lower"),
            (",upperdir=", "upper"),
            (",workdir=", "work"),
        ] {
            options.extend_from_slice(key.as_bytes());
            options.extend_from_slice(below(name).as_os_str().as_bytes());
        }
        let options = CString::new(options).map_err(io::Error::other)?;
        Ok(Self { directory, options })
    }

    /// Makes a process in a root of its own; how long until it says that it is there.
    fn enter(&self) -> io::Result<Duration> {
        let (mut reader, writer) = io::pipe()?;
        let namespaces = UnshareFlags::NEWNS
            | UnshareFlags::NEWPID
            | UnshareFlags::NEWNET
            | UnshareFlags::NEWIPC
            | UnshareFlags::NEWUTS
            | UnshareFlags::NEWCGROUP;
        let start = Instant::now();
        match clone_process(namespaces)? {
            Cloned::Child => exit_now(self.settle(writer).map_or(1, |()| 0)),
            Cloned::Parent(child) => {
                drop(writer);
                let told = reader.read_exact(&mut [0]);
                let took = start.elapsed();
                waitpid(Pid::from_raw(child.pid), WaitOptions::empty())?;
                told.map(|()| took).map_err(|_| {
                    io::Error::other("namespaces, mounts or the root could not be made")
                })
            }
        }
    }

    /// Sets up mounts and the new root, in the new process.
    fn settle(&self, mut told: PipeWriter) -> io::Result<()> {
        let root = self.directory.join("root");
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("overlay", &root, "overlay", flags, self.options.as_c_str())?;
        rustix::mount::mount(
            "proc",
            root.join("proc"),
            "proc",
            flags | MountFlags::NOEXEC,
            None,
        )?;
        rustix::process::chdir(&root)?;
        rustix::process::pivot_root(".", ".")?;
        rustix::mount::unmount(".", UnmountFlags::DETACH)?;
        rustix::process::chdir("/")?;
        told.write_all(&[1])
    }

    fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.directory)
    }
}
