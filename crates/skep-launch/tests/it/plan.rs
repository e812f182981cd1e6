//! Plans for tests, and what became of them.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use skep_launch::{
    Descriptors, Ended, ForkServer, LaunchPlan, LaunchedBy, Launcher, Process, Program, Root,
    SpawnError, Top, Users,
};
use tempfile::TempDir;

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A directory with a layer, a top and a staging place, and a plan that uses them.
pub(crate) struct Bench {
    pub(crate) directory: TempDir,
    pub(crate) plan: LaunchPlan,
    pub(crate) output: std::io::PipeReader,
}

/// Ids that no other test uses at the same time.
pub(crate) fn fresh_users() -> Users {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let slot = NEXT.fetch_add(1, Ordering::Relaxed) + std::process::id() % 256 * 32;
    Users::Range {
        first: 0x7000_0000 + slot * 65_536,
        count: 65_536,
    }
}

impl Bench {
    /// A plan for a sandbox that asks the probe these questions.
    pub(crate) fn new(questions: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        for name in [
            "layer",
            "layer/etc",
            "layer/tmp",
            "upper",
            "work",
            "staging",
        ] {
            fs::create_dir(path.join(name)).unwrap();
        }
        fs::set_permissions(path.join("layer/tmp"), PermissionsExt::from_mode(0o1777)).unwrap();
        let executable = std::env::current_exe().unwrap();
        fs::copy(&executable, path.join("layer/probe")).unwrap();
        let mut descriptors = Descriptors::default();
        let program = descriptors.add(File::open(&executable).unwrap());
        let (output, theirs) = std::io::pipe().unwrap();
        let stdout = descriptors.add(theirs);
        let arguments = ["probe".into(), "probe".into()]
            .into_iter()
            .chain(questions.iter().map(ToString::to_string));
        let root = Root {
            staging: path.join("staging"),
            layers: vec![path.join("layer")],
            below: Vec::new(),
            top: Top::Directories {
                upper: path.join("upper"),
                work: path.join("work"),
            },
        };
        let mut process = Process::new(Program::Descriptor(program), arguments);
        process.environment = vec![("HOME".into(), "/root".into())];
        process.stdout = Some(stdout);
        process.open_files = (1024, 4096);
        let mut plan = LaunchPlan::new(descriptors, fresh_users(), root, process);
        plan.shared_memory_bytes = 1 << 20;
        plan.run_bytes = Some(1 << 20);
        plan.hostname = "e2b.local".into();
        Self {
            directory,
            plan,
            output,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Launches the program, and returns how it ended and what it said.
    pub(crate) fn run(mut self) -> (Ended, String, TempDir) {
        let (mut started, launched_by) = shared_server()
            .launch(self.plan, DEADLINE)
            .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)));
        assert_eq!(launched_by, LaunchedBy::Fork);
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        let ended = started.wait(Some(DEADLINE)).unwrap().expect("it ends");
        (ended, said, self.directory)
    }

    /// Launches a plan that must fail.
    pub(crate) fn fail(self) -> (SpawnError, TempDir) {
        let launched = launcher().launch(self.plan, DEADLINE);
        (launched.expect_err("the plan fails"), self.directory)
    }
}

/// The launcher that all tests share which do not hurt it.
pub(crate) fn shared_server() -> &'static ForkServer {
    static SHARED: OnceLock<ForkServer> = OnceLock::new();
    SHARED.get_or_init(|| ForkServer::new(launcher()))
}

pub(crate) fn launcher() -> Launcher {
    Launcher::new(std::env::current_exe().unwrap(), ["launch"])
}

/// Asks a sandbox and checks every answer.
#[track_caller]
pub(crate) fn check(bench: Bench, expected: &[(&str, &str)]) -> TempDir {
    let (ended, said, directory) = bench.run();
    let wanted: String = expected
        .iter()
        .map(|(question, answer)| format!("{question} -> {answer}\n"))
        .collect();
    assert_eq!(said, wanted);
    assert_eq!(ended, Ended::Code(0));
    directory
}

/// A bench whose questions are those that have an expected answer.
pub(crate) fn asking(expected: &[(&str, &str)]) -> Bench {
    let questions: Vec<_> = expected.iter().map(|(question, _)| *question).collect();
    Bench::new(&questions)
}

/// Makes an ext4 image of a few megabytes.
pub(crate) fn make_image(path: &Path) {
    File::create(path).unwrap().set_len(16 << 20).unwrap();
    let made = std::process::Command::new("mkfs.ext4")
        .args(["-q", "-F", "-O", "^has_journal"])
        .arg(path)
        .status()
        .unwrap();
    assert!(made.success());
}
