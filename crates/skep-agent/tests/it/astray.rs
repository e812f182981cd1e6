//! Attempts to lead the agent to files that its callers must not reach.
//!
//! In a sandbox these are the cgroups of the host, of which the agent holds descriptors. Here
//! it is a directory that this process, which the agent is a part of, holds open.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use crate::agent::{Answer, TestAgent};

const RAW: (&str, &str) = ("content-type", "application/octet-stream");
const JSON: (&str, &str) = ("content-type", "application/json");

/// Everything that can be asked for with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Stat,
    MakeDirectory,
    List,
    Remove,
    Watch,
    MoveAway,
    MoveTo,
    Upload,
    LargeUpload,
    Download,
    ComposeFrom,
    ComposeTo,
}

use Operation::{
    ComposeFrom, ComposeTo, Download, LargeUpload, List, MakeDirectory, MoveAway, MoveTo, Remove,
    Stat, Upload, Watch,
};

const ALL: [Operation; 12] = [
    Stat,
    MakeDirectory,
    List,
    Remove,
    Watch,
    MoveAway,
    MoveTo,
    Upload,
    LargeUpload,
    Download,
    ComposeFrom,
    ComposeTo,
];

impl Operation {
    /// Does it to `path`, with the file `mine` where another one is needed.
    async fn attempt(self, agent: &TestAgent, path: &str) -> Answer {
        let rpc = async |method: &str, body: serde_json::Value| {
            agent
                .call(&format!("filesystem.Filesystem/{method}"), body)
                .await
        };
        let upload = async |size| {
            let query = format!("/files?path={path}");
            agent.post(&query, &[RAW], vec![b'x'; size]).await
        };
        let compose = async |sources: &[&str], destination: &str| {
            let body = json!({"source_paths": sources, "destination": destination});
            agent
                .post("/files/compose", &[JSON], body.to_string())
                .await
        };
        match self {
            Stat => rpc("Stat", json!({"path": path})).await,
            MakeDirectory => rpc("MakeDir", json!({"path": path})).await,
            List => rpc("ListDir", json!({"path": path})).await,
            Remove => rpc("Remove", json!({"path": path})).await,
            Watch => rpc("CreateWatcher", json!({"path": path})).await,
            MoveAway => rpc("Move", json!({"source": path, "destination": "taken"})).await,
            MoveTo => rpc("Move", json!({"source": "mine", "destination": path})).await,
            Upload => upload(10).await,
            LargeUpload => upload(600_000).await,
            Download => agent.get(&format!("/files?path={path}")).await,
            ComposeFrom => compose(&[path], "composed").await,
            ComposeTo => compose(&["mine"], path).await,
        }
    }

    /// Returns the state of the path before the operation.
    fn needs(self) -> Needs {
        match self {
            MakeDirectory | MoveTo | Upload | LargeUpload | ComposeTo => Needs::New,
            List | Watch => Needs::Directory,
            Remove => Needs::Tree,
            Stat | MoveAway | Download | ComposeFrom => Needs::File,
        }
    }
}

enum Needs {
    File,
    Directory,
    /// A directory that may go.
    Tree,
    /// A name that nothing has.
    New,
}

/// A directory with a file and a directory in it, held open by this process.
struct Outside {
    directory: tempfile::TempDir,
    held: File,
}

impl Outside {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let held = File::open(directory.path()).unwrap();
        let outside = Self { directory, held };
        std::fs::write(outside.path().join("file"), "secret").unwrap();
        std::fs::create_dir(outside.path().join("inner")).unwrap();
        outside
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The link that leads there.
    fn link(&self) -> String {
        format!("/proc/self/fd/{}", self.held.as_raw_fd())
    }

    #[track_caller]
    fn check(&self, what: &str) {
        let mut names: Vec<_> = std::fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["file", "inner"], "{what}");
        let file = std::fs::read_to_string(self.path().join("file")).unwrap();
        assert_eq!(file, "secret", "{what}");
        let inner = std::fs::read_dir(self.path().join("inner")).unwrap();
        assert_eq!(inner.count(), 0, "{what}");
    }
}

#[tokio::test]
async fn no_operation_goes_through_a_link_into_a_descriptor() {
    let agent = TestAgent::start();
    let outside = Outside::new();
    symlink(outside.link(), agent.at("innocent")).unwrap();
    symlink("/proc/self/fd", agent.at("descriptors")).unwrap();
    let number = outside.held.as_raw_fd();
    for way in [
        outside.link(),
        format!("/proc/{}/fd/{number}", std::process::id()),
        format!("/proc/thread-self/fd/{number}"),
        format!("/dev/fd/{number}"),
        agent.at("innocent"),
        agent.at(&format!("descriptors/{number}")),
        format!("/proc/self/root{}", outside.path().display()),
    ] {
        for operation in ALL {
            std::fs::write(agent.at("mine"), "mine").unwrap();
            for end in [
                "",
                "/",
                "/file",
                "/inner",
                "/inner/new",
                "/new/deep",
                "/../x",
            ] {
                // The link itself may be looked at, and removed where it is the caller's own.
                let is_link =
                    end.trim_end_matches('/').is_empty() && way.starts_with(&agent.at(""));
                if is_link && matches!(operation, Stat | Remove | MoveAway | MoveTo | ComposeTo) {
                    continue;
                }
                let path = format!("{way}{end}");
                let answer = operation.attempt(&agent, &path).await;
                let what = format!("{operation:?} {path}: {}", answer.text());
                assert!(answer.status.is_client_error(), "{what}");
                outside.check(&what);
            }
            assert!(Path::new(&agent.at("mine")).exists(), "{operation:?} {way}");
        }
    }
}

#[tokio::test]
async fn the_agents_own_entries_in_procfs_are_refused_to_every_operation() {
    let agent = TestAgent::start();
    let pid = std::process::id();
    symlink("/proc/self", agent.at("innocent")).unwrap();
    for path in [
        format!("/proc/{pid}"),
        "/proc/self/".to_owned(),
        "/proc/self/fd".to_owned(),
        "/proc/thread-self/fd".to_owned(),
        format!("/proc/{pid}/task"),
        format!("/proc/{pid}/task/{pid}/fd"),
        format!("/proc/1/../{pid}/net"),
        agent.at("innocent/task"),
        agent.at("innocent/"),
    ] {
        for operation in [Stat, List, Watch] {
            let answer = operation.attempt(&agent, &path).await;
            let what = format!("{operation:?} {path}: {}", answer.text());
            assert_eq!(answer.status.as_u16(), 403, "{what}");
        }
    }
    for (operation, path) in [
        (Stat, "/proc/self"),
        (Stat, "/proc/thread-self"),
        (Stat, "/proc/self/root"),
        (Stat, "/proc/self/cwd"),
        (Stat, "/proc/self/exe"),
        (Stat, "/proc/self/environ"),
        (Download, "/proc/self/environ"),
        (Upload, "/proc/self/oom_score_adj"),
        (ComposeFrom, "/proc/self/maps"),
    ] {
        let answer = operation.attempt(&agent, path).await;
        let what = format!("{operation:?} {path}: {}", answer.text());
        assert_eq!(answer.status.as_u16(), 403, "{what}");
    }
}

#[tokio::test]
async fn a_listing_of_procfs_leaves_the_agent_out_and_shows_others() {
    let agent = TestAgent::start();
    let answer = agent
        .ask("filesystem.Filesystem/ListDir", json!({"path": "/proc"}))
        .await;
    let entries = answer["entries"].as_array().unwrap();
    let has = |name: &str| entries.iter().any(|entry| entry["name"] == name);
    assert!(!has("self") && !has("thread-self") && !has(&std::process::id().to_string()));
    assert!(has("1") && has("meminfo"));
}

/// Directories of cgroup file systems of both kinds, where this host has them.
fn cgroups() -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let kinds = fields.filter(|fields| matches!(fields[2], "cgroup" | "cgroup2"));
    kinds.map(|fields| fields[1].to_owned()).collect()
}

#[tokio::test]
async fn cgroups_are_refused_to_every_operation_even_where_they_are_mounted() {
    let agent = TestAgent::start();
    std::fs::write(agent.at("mine"), "mine").unwrap();
    let cgroups = cgroups();
    assert!(!cgroups.is_empty(), "a machine for tests has cgroups");
    for cgroup in cgroups {
        let new = format!("{cgroup}/skep-agent-test-{}", std::process::id());
        for operation in ALL {
            let path = match operation.needs() {
                // Nothing that exists here is put at risk.
                Needs::New | Needs::Tree => new.clone(),
                Needs::Directory => cgroup.clone(),
                Needs::File if operation == MoveAway => new.clone(),
                Needs::File => format!("{cgroup}/cgroup.procs"),
            };
            let answer = operation.attempt(&agent, &path).await;
            let what = format!("{operation:?} {path}: {}", answer.text());
            assert_eq!(answer.status.as_u16(), 403, "{what}");
            assert!(!Path::new(&new).exists(), "{what}");
        }
        let answer = Stat.attempt(&agent, &cgroup).await;
        assert_eq!(answer.status.as_u16(), 403, "{cgroup}: {}", answer.text());
    }
}

/// Swaps a directory for a link that leads outside, and back, as fast as it can.
fn swap(stage: &Path, link: &str, stop: &AtomicBool) {
    let (place, aside) = (stage.join("place"), stage.join("aside"));
    symlink(link, &aside).unwrap();
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, &place, CWD, &aside, RenameFlags::EXCHANGE).unwrap();
    }
}

/// Number of times that each operation is tried while the path to it changes.
const TRIES: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_swapped_for_a_link_leads_nowhere_else() {
    let agent = TestAgent::start();
    let outside = Outside::new();
    let (mut succeeded, mut refused) = (0, 0);
    for operation in ALL {
        let stage = agent.home().join(format!("{operation:?}"));
        std::fs::create_dir_all(stage.join("place/inner")).unwrap();
        std::fs::write(stage.join("place/file"), "mine").unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let swapper = scope.spawn(|| swap(&stage, &outside.link(), &stop));
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(async {
                    for number in 0..TRIES {
                        std::fs::write(agent.at("mine"), "mine").unwrap();
                        let name = match operation.needs() {
                            Needs::New => format!("new-{number}"),
                            Needs::Directory => String::new(),
                            Needs::Tree => "inner".to_owned(),
                            Needs::File => "file".to_owned(),
                        };
                        let place = format!("{}/place/{name}", stage.display());
                        let path = place.trim_end_matches('/');
                        let answer = operation.attempt(&agent, path).await;
                        assert!(!answer.text().contains("secret"), "{operation:?}");
                        assert_ne!(answer.status.as_u16(), 500, "{}", answer.text());
                        if answer.status.is_success() {
                            succeeded += 1;
                        } else {
                            refused += 1;
                        }
                        outside.check(&format!("{operation:?}"));
                    }
                });
            });
            stop.store(true, Ordering::Relaxed);
            swapper.join().unwrap();
        });
    }
    // The agent has seen both, so the swapping was not too fast or too slow for it.
    assert!(succeeded > 100 && refused > 100, "{succeeded} {refused}");
}

#[tokio::test]
async fn loops_and_names_that_are_too_long_are_the_callers_mistake() {
    let agent = TestAgent::start();
    std::fs::write(agent.at("mine"), "mine").unwrap();
    symlink("loop", agent.at("loop")).unwrap();
    let deep = format!("{}/x", "d".repeat(240)).repeat(17);
    for operation in ALL {
        for path in [
            agent.at("loop/x"),
            agent.at(&"n".repeat(256)),
            agent.at(&deep),
        ] {
            let answer = operation.attempt(&agent, &path).await;
            let what = format!("{operation:?} {path}: {}", answer.text());
            assert!(answer.status.is_client_error(), "{what}");
        }
    }
    let left: Vec<_> = std::fs::read_dir(agent.home()).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[tokio::test]
async fn a_tree_deeper_than_any_path_is_listed_watched_and_removed() {
    let agent = TestAgent::start();
    let plant = "import os\nos.mkdir('deep')\nos.chdir('deep')\nfor _ in range(5000):\n os.mkdir('d'); os.chdir('d')";
    let status = std::process::Command::new("python3")
        .args(["-c", plant])
        .current_dir(agent.home())
        .status()
        .unwrap();
    assert!(status.success());
    let listed = agent
        .ask(
            "filesystem.Filesystem/ListDir",
            json!({"path": "deep", "depth": 10_000}),
        )
        .await;
    // As deep as the kernel takes a path from the directory that is listed.
    let count = listed["entries"].as_array().unwrap().len();
    assert!((2000..5000).contains(&count), "{count}");
    agent
        .ask(
            "filesystem.Filesystem/CreateWatcher",
            json!({"path": "deep", "recursive": true}),
        )
        .await;
    agent
        .ask("filesystem.Filesystem/Remove", json!({"path": "deep"}))
        .await;
    assert!(!agent.home().join("deep").exists());
}
