//! The floor of an image with memory: CRIU alone, with a tree of processes that holds as much.
//!
//! The tree has as many processes and as much memory as a sandbox, and nothing else of one: no
//! namespaces, no filters, no threads and few mappings. So what CRIU takes for it is less than for
//! the sandbox itself. The floor is a process of its own with a mount namespace, in which CRIU finds
//! a `/run` that is in memory: elsewhere it looks at the whole kernel at every start.

use std::fs;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::fs::{CWD, FileType, Mode};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::thread::UnshareFlags;
use skep_linux::{Cloned, clone_process};

/// The first argument that makes a process this floor. A directory to work in, bytes and processes
/// of the tree, and the command line of CRIU follow.
pub const CRIU_FLOOR: &str = "bench-floor-criu";
/// The first argument that makes a process the tree. A pipe to be told by, bytes and processes, and
/// the process without which it ends follow.
pub const HELD_TREE: &str = "bench-held-tree";

const PAGE: usize = 4096;
/// Time after which a tree looks whether anybody needs it still.
const LOOK_SECONDS: i64 = 5;

/// Size of the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree {
    pub(crate) bytes: u64,
    pub(crate) processes: u64,
}

impl Tree {
    fn from_arguments(at: usize) -> Option<Self> {
        let number = |at| std::env::args().nth(at)?.parse().ok();
        Some(Self {
            bytes: number(at)?,
            processes: number(at + 1)?,
        })
    }
}

/// Answers until standard input ends. Must be called before any thread is started.
pub fn run() -> ExitCode {
    let directory = std::env::args_os().nth(2).map(PathBuf::from);
    let criu = std::env::args().skip(5).collect();
    let (Some(directory), Some(tree)) = (directory, Tree::from_arguments(3)) else {
        return ExitCode::from(1);
    };
    ended(CriuFloor::start(&directory, tree, criu).and_then(|floor| floor.answer()))
}

/// Holds memory until it is killed. Must be called before any thread is started.
pub fn hold() -> ExitCode {
    let pipe = std::env::args_os().nth(2).map(PathBuf::from);
    let floor = std::env::args()
        .nth(5)
        .and_then(|pid| pid.parse().ok())
        .and_then(Pid::from_raw);
    let (Some(pipe), Some(tree), Some(floor)) = (pipe, Tree::from_arguments(3), floor) else {
        return ExitCode::from(1);
    };
    ended(hold_memory(&pipe, tree, floor))
}

fn ended(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nobody else to tell; if nobody reads, the exit code still says it.
            writeln!(io::stderr(), "{error}").map_or(ExitCode::from(2), |()| ExitCode::from(2))
        }
    }
}

fn hold_memory(pipe: &Path, tree: Tree, floor: Pid) -> io::Result<()> {
    // A session of its own: CRIU writes down none that it sees only a part of.
    rustix::process::setsid()?;
    for _ in 1..tree.processes {
        if let Cloned::Child = clone_process(UnshareFlags::empty())? {
            break;
        }
    }
    let share = usize::try_from(tree.bytes / tree.processes.max(1)).map_err(io::Error::other)?;
    let mut memory = vec![0_u8; share];
    // A page that was never written to is none.
    for page in memory.chunks_mut(PAGE) {
        page.fill(7);
    }
    fs::OpenOptions::new()
        .write(true)
        .open(pipe)?
        .write_all(&[1])?;
    let look = Timespec {
        tv_sec: LOOK_SECONDS,
        tv_nsec: 0,
    };
    while rustix::process::test_kill_process(floor).is_ok() {
        std::hint::black_box(&memory);
        match rustix::event::poll(&mut [], Some(&look)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// CRIU, and a tree that runs unless it is in an image.
struct CriuFloor {
    criu: Vec<String>,
    images: PathBuf,
    first: Pid,
}

impl CriuFloor {
    fn start(directory: &Path, tree: Tree, criu: Vec<String>) -> io::Result<Self> {
        // What whoever started the bench has open is no part of a tree.
        skep_linux::close_on_execute_from(3)?;
        skep_linux::leave_namespaces(UnshareFlags::NEWNS)?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private)?;
        rustix::mount::mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), None)?;
        // A number is free for the next restore when its process is waited for, which is then
        // nobody's business but ours.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let pipe = directory.join("criu-floor-pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        let mut told = fs::OpenOptions::new().read(true).write(true).open(&pipe)?;
        let child = Command::new(std::env::current_exe()?)
            .arg(HELD_TREE)
            .arg(&pipe)
            .args([tree.bytes, tree.processes].map(|number| number.to_string()))
            .arg(std::process::id().to_string())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        for _ in 0..tree.processes {
            told.read_exact(&mut [0])?;
        }
        let first = i32::try_from(child.id()).map_err(io::Error::other)?;
        Ok(Self {
            criu,
            images: directory.join("criu-floor"),
            first: Pid::from_raw(first).ok_or(Errno::SRCH)?,
        })
    }

    fn answer(&self) -> io::Result<()> {
        let mut output = io::stdout().lock();
        writeln!(output, r#"{{"ready":true}}"#)?;
        output.flush()?;
        for line in io::stdin().lock().lines() {
            let took = match line?.as_str() {
                "dump" => self.dump()?,
                "restore" => self.restore()?,
                other => return Err(io::Error::other(format!("`{other}` is not known"))),
            };
            let took = took.as_secs_f64();
            writeln!(output, r#"{{"seconds":{took}}}"#)?;
            output.flush()?;
        }
        Ok(())
    }

    /// Writes the tree to an image, with which it ends.
    fn dump(&self) -> io::Result<Duration> {
        match fs::remove_dir_all(&self.images) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => fs::create_dir(&self.images)?,
        }
        let first = self.first.to_string();
        let took = self.call(&["dump", "--tree", &first])?;
        loop {
            match rustix::process::wait(WaitOptions::empty()) {
                Ok(_) => {}
                Err(Errno::CHILD) => return Ok(took),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn restore(&self) -> io::Result<Duration> {
        self.call(&["restore", "--restore-detached"])
    }

    fn call(&self, arguments: &[&str]) -> io::Result<Duration> {
        const COMMON: [&str; 4] = [
            "--no-default-config",
            "--manage-cgroups=ignore",
            "--log-file",
            "criu.log",
        ];
        let (program, first) = self.criu.split_first().ok_or(Errno::NOENT)?;
        let start = Instant::now();
        let status = Command::new(program)
            .args(first)
            .args(arguments)
            .args(COMMON)
            .arg("--images-dir")
            .arg(&self.images)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        let took = start.elapsed();
        if status.success() {
            return Ok(took);
        }
        let log = fs::read_to_string(self.images.join("criu.log")).unwrap_or_default();
        // It goes on with fewer descriptors where root may not raise its own limits.
        let harmless = "RLIMIT_NOFILE for self";
        let mut errors = log.lines().filter(|line| line.contains("Error ("));
        let said = errors.find(|line| !line.contains(harmless));
        Err(io::Error::other(format!(
            "criu gave up: {}",
            said.unwrap_or("it does not say why")
        )))
    }
}

impl Drop for CriuFloor {
    fn drop(&mut self) {
        // All of the session. None is left if it is in an image; one that lives on sees that the
        // floor is gone.
        rustix::process::kill_process_group(self.first, Signal::KILL).ok();
    }
}
