use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use skep_testkit::wait_for;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A pool in the host's own v1 hierarchies, removed at the end.
struct Real {
    directories: Vec<(&'static str, PathBuf)>,
    pool: Arc<CgroupPool>,
}

impl Real {
    /// `None` where the hierarchies are not v1.
    fn new() -> Option<Self> {
        let name = format!("skep-agent-test-{}", crate::sandbox::identifier::random(8));
        let directories: Vec<_> = ["memory", "cpuacct", "blkio"]
            .into_iter()
            .map(|controller| (controller, Path::new("/sys/fs/cgroup").join(controller)))
            .filter(|(_, root)| root.join("cgroup.procs").exists())
            .map(|(controller, root)| (controller, root.join(&name)))
            .collect();
        if !directories
            .iter()
            .any(|(controller, _)| *controller == "memory")
        {
            return None;
        }
        let mut passed = Vec::new();
        for (controller, directory) in &directories {
            std::fs::create_dir(directory).unwrap();
            passed.push((
                (*controller).to_owned(),
                File::open(directory).unwrap().into(),
            ));
        }
        Some(Self {
            directories,
            pool: Arc::new(CgroupPool::new(passed).unwrap()),
        })
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        for (_, directory) in &self.directories {
            let below = std::fs::read_dir(directory).unwrap();
            for entry in below
                .filter_map(Result::ok)
                .filter(|entry| entry.path().is_dir())
            {
                // Processes that were killed take a moment to be gone.
                wait_for(TIMEOUT, || std::fs::remove_dir(entry.path()));
            }
            std::fs::remove_dir(directory).unwrap();
        }
    }
}

fn run(cgroup: &Cgroup, script: &str) -> Child {
    let join_fds = cgroup.join_fds().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "read line; eval \"$0\"", script]);
    // The shell waits for a line, so that it is inside before it does anything.
    let mut shell = shell
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    for join_fd in join_fds {
        rustix::io::write(join_fd, shell.id().to_string().as_bytes()).unwrap();
    }
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    shell
}

#[test]
fn a_group_counts_children_that_nobody_waited_for() {
    let Some(real) = Real::new() else { return };
    let cgroup = real.pool.take().unwrap();
    cgroup.reset_peak();
    let before = cgroup.usage().unwrap();
    // A grandchild in a session of its own does the work.
    let work = "python3 -c \"b = bytearray(64 << 20); sum(range(10**7))\"";
    let mut shell = run(&cgroup, &format!("setsid sh -c '{work}' & wait"));
    shell.wait().unwrap();
    wait_for(TIMEOUT, || match cgroup.processes().unwrap().len() {
        0 => Ok(()),
        left => Err(format!("{left} processes are left")),
    });
    let after = cgroup.usage().unwrap();
    assert!(after.processor - before.processor > Duration::from_millis(30));
    assert!(after.peak_memory > Some(64 << 20), "{after:?}");
    assert!(!cgroup.is_sampled());
    cgroup.reset_peak();
    assert!(cgroup.usage().unwrap().peak_memory < Some(64 << 20));
}

#[test]
fn what_sockets_of_a_group_hold_is_counted_for_the_group_above() {
    let Some(real) = Real::new() else { return };
    let cgroup = real.pool.take().unwrap();
    let fill = "
import socket
listener = socket.create_server((\"127.0.0.1\", 0))
sender = socket.create_connection(listener.getsockname())
sender.setblocking(False)
sender.send(b\"x\" * (4 << 20))
";
    let mut shell = run(&cgroup, &format!("exec python3 -I -c '{fill}'"));
    assert!(shell.wait().unwrap().success());
    let (_, memory) = &real.directories[0];
    let most: u64 = std::fs::read_to_string(memory.join("memory.kmem.tcp.max_usage_in_bytes"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(most > 256 << 10, "{most} bytes");
}

#[test]
fn what_is_written_counts_at_once_whoever_writes_it() {
    let Some(real) = Real::new() else { return };
    let cgroup = real.pool.take().unwrap();
    assert_eq!(cgroup.usage().unwrap().files, None);
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let path = directory.path().join("file").display().to_string();
    // A shell waits for the writer, and counts for it from then on.
    let write = format!("dd if=/dev/zero of={path} bs=1M count=8 2>/dev/null; sleep 60; true");
    let user = "setpriv --reuid=1234 --regid=1234 --clear-groups";
    let script = format!("exec {user} /bin/sh -c '{write}'");
    let mut shell = run(&cgroup, &script);
    wait_for(TIMEOUT, || match cgroup.usage().unwrap().files {
        Some(files) if files.written >= 8 << 20 => Ok(()),
        other => Err(format!("{other:?}")),
    });
    cgroup.kill();
    shell.wait().unwrap();
}

#[test]
fn a_limit_of_memory_kills_and_is_counted_and_lifted() {
    let Some(real) = Real::new() else { return };
    let cgroup = real.pool.take().unwrap();
    cgroup.limit_memory(Some(32 << 20)).unwrap();
    let mut shell = run(&cgroup, "exec python3 -c 'b = bytearray(128 << 20)'");
    let status = shell.wait().unwrap();
    assert!(!status.success(), "{status}");
    assert_eq!(cgroup.usage().unwrap().out_of_memory_kills, Some(1));
    cgroup.limit_memory(None).unwrap();
    let mut shell = run(&cgroup, "exec python3 -c 'b = bytearray(128 << 20)'");
    assert!(shell.wait().unwrap().success());
}

#[test]
fn a_limit_below_what_is_used_is_refused() {
    let Some(real) = Real::new() else { return };
    let cgroup = real.pool.take().unwrap();
    let mut shell = run(
        &cgroup,
        "exec python3 -c 'b = bytearray(64 << 20); input()'",
    );
    wait_for(TIMEOUT, || match cgroup.usage().unwrap().memory.unwrap() {
        enough if enough > 64 << 20 => Ok(()),
        memory => Err(format!("{memory} bytes")),
    });
    let refused = cgroup.limit_memory(Some(16 << 20)).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
    cgroup.limit_memory(None).unwrap();
    cgroup.kill();
    shell.wait().unwrap();
}

#[test]
fn everything_in_a_group_is_killed_whatever_its_session() {
    let Some(real) = Real::new() else { return };
    let cgroup = real.pool.take().unwrap();
    let mut shell = run(&cgroup, "setsid sleep 60 & setsid sleep 60 & wait");
    wait_for(TIMEOUT, || match cgroup.processes().unwrap().len() {
        3 => Ok(()),
        count => Err(format!("{count} processes")),
    });
    cgroup.kill();
    shell.wait().unwrap();
    wait_for(TIMEOUT, || match cgroup.processes().unwrap().len() {
        0 => Ok(()),
        left => Err(format!("{left} processes are left")),
    });
}

#[test]
fn a_group_is_used_again_only_when_nothing_is_left_in_it() {
    let Some(real) = Real::new() else { return };
    let cgroup = real.pool.take().unwrap();
    let mut left = run(&cgroup, "exec sleep 60");
    assert_eq!(cgroup.number, 1);
    drop(cgroup);
    let second = real.pool.take().unwrap();
    assert_eq!(second.number, 2);
    left.kill().unwrap();
    left.wait().unwrap();
    let first = real.pool.take().unwrap();
    assert_eq!(first.number, 1);
    drop((first, second));
    let mut numbers = real.pool.free.lock().numbers.clone();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2]);
}

/// Files as the unified tree has them. The kernel makes those of a cgroup with the cgroup, so the
/// test does.
fn recorded_tree(directory: &Path) -> Arc<CgroupPool> {
    let files = |directory: &Path| {
        std::fs::create_dir_all(directory).unwrap();
        for (name, content) in [
            ("cgroup.controllers", "cpu io memory pids\n"),
            ("cgroup.subtree_control", "\n"),
            ("cgroup.procs", ""),
            ("cpu.stat", "usage_usec 2500\nuser_usec 2000\n"),
            ("memory.current", "8192\n"),
            ("memory.peak", "16384\n"),
            ("memory.max", "max\n"),
            ("memory.stat", "anon 4096\nfile 4096\n"),
            ("memory.events", "low 0\noom 1\noom_kill 2\n"),
            ("io.stat", "254:0 rbytes=5 wbytes=6 rios=1 wios=1\n"),
        ] {
            std::fs::write(directory.join(name), content).unwrap();
        }
    };
    files(directory);
    files(&directory.join("entry"));
    files(&directory.join("kernel-1"));
    let open = |path: &Path| OwnedFd::from(File::open(path).unwrap());
    let passed = vec![
        ("unified".to_owned(), open(directory)),
        (
            "entry".to_owned(),
            open(&directory.join("entry/cgroup.procs")),
        ),
    ];
    Arc::new(CgroupPool::new(passed).unwrap())
}

#[test]
fn the_unified_tree_is_read_limited_and_entered_in_two_steps() {
    let directory = tempfile::tempdir().unwrap();
    let pool = recorded_tree(directory.path());
    let cgroup = pool.take().unwrap();
    let written = |path: &str| std::fs::read_to_string(directory.path().join(path)).unwrap();
    assert_eq!(written("cgroup.subtree_control"), "+io");
    assert_eq!(cgroup.join_fds().unwrap().len(), 2);
    assert!(!cgroup.is_beside_work());

    let usage = cgroup.usage().unwrap();
    assert_eq!(usage.processor, Duration::from_micros(2500));
    assert_eq!(
        (usage.memory, usage.out_of_memory_kills),
        (Some(8192), Some(2))
    );
    assert_eq!(
        usage.storage,
        Some(skep_kernels::Moved {
            read: 5,
            written: 6
        })
    );

    cgroup.limit_memory(Some(1 << 20)).unwrap();
    assert_eq!(written("kernel-1/memory.max"), (1 << 20).to_string());
    cgroup.limit_memory(None).unwrap();
    assert_eq!(written("kernel-1/memory.max"), "max");
    let refused = cgroup.limit_memory(Some(4096)).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
}

#[test]
fn where_the_peak_cannot_begin_anew_it_is_what_was_seen() {
    let directory = tempfile::tempdir().unwrap();
    let pool = recorded_tree(directory.path());
    // As on kernels before 5.19.
    std::fs::remove_file(directory.path().join("kernel-1/memory.peak")).unwrap();
    let cgroup = pool.take().unwrap();
    assert!(cgroup.is_sampled());
    let current = directory.path().join("kernel-1/memory.current");
    for (memory, peak) in [(9000, 9000), (100, 9000)] {
        std::fs::write(&current, memory.to_string()).unwrap();
        assert_eq!(cgroup.usage().unwrap().peak_memory, Some(peak));
    }
    cgroup.reset_peak();
    assert_eq!(cgroup.usage().unwrap().peak_memory, Some(100));
}

#[test]
fn a_sandbox_has_only_so_many_groups_and_uses_them_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut passed = Vec::new();
    for controller in ["memory", "cpuacct"] {
        let root = directory.path().join(controller);
        std::fs::create_dir(&root).unwrap();
        passed.push((controller.to_owned(), File::open(root).unwrap().into()));
    }
    let pool = Arc::new(CgroupPool::new(passed).unwrap());
    let mut taken: Vec<Cgroup> = (0..MAX_GROUPS).map(|_| pool.take().unwrap()).collect();
    let refused = pool.take().unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
    assert_eq!(
        refused.to_string(),
        "something runs in each of the 320 cgroups for kernels"
    );
    let free = taken.pop().unwrap().number;
    let list = directory
        .path()
        .join(format!("memory/kernel-{free}/cgroup.procs"));
    std::fs::write(list, "").unwrap();
    assert_eq!(pool.take().unwrap().number, free);
    let made = std::fs::read_dir(directory.path().join("memory")).unwrap();
    assert_eq!(made.count(), usize::try_from(MAX_GROUPS).unwrap());
}

#[test]
fn half_of_what_is_needed_is_nothing() {
    let some = || OwnedFd::from(File::open("/").unwrap());
    assert!(CgroupPool::new(Vec::new()).is_none());
    assert!(CgroupPool::new(vec![("memory".to_owned(), some())]).is_none());
    assert!(CgroupPool::new(vec![("unified".to_owned(), some())]).is_none());
}

#[test]
fn a_group_whose_memory_others_still_have_is_used_last() {
    let directory = tempfile::tempdir().unwrap();
    let mut passed = Vec::new();
    for controller in ["memory", "cpuacct"] {
        let root = directory.path().join(controller);
        std::fs::create_dir(&root).unwrap();
        passed.push((controller.to_owned(), File::open(root).unwrap().into()));
    }
    let pool = Arc::new(CgroupPool::new(passed).unwrap());
    let write = |number: u32, name: &str, content: &str| {
        let group = directory.path().join(format!("memory/kernel-{number}"));
        std::fs::write(group.join(name), content).unwrap();
    };
    let first = pool.take().unwrap().number;
    write(first, "cgroup.procs", "");
    write(first, "memory.usage_in_bytes", "3000000\n");
    write(first, "memory.stat", "cache 0\nrss 2000000\n");
    let second = pool.take().unwrap();
    assert_ne!(second.number, first, "a copy of its kernel has its memory");
    write(first, "memory.stat", "cache 2000000\nrss 0\n");
    assert_eq!(pool.take().unwrap().number, first, "files give theirs back");
}

#[test]
fn a_process_of_a_user_is_moved_from_group_to_group() {
    let Some(real) = Real::new() else { return };
    let (first, second) = (real.pool.take().unwrap(), real.pool.take().unwrap());
    let mut sleeper = Command::new("sleep").arg("60").uid(1234).spawn().unwrap();
    let pid = Pid::from_child(&sleeper);
    for group in [&first, &second] {
        group.admit(pid, 1234).unwrap();
        assert!(group.may_hold(sleeper.id()));
    }
    assert!(!first.may_hold(sleeper.id()));
    second.admit(pid, 4321).expect_err("it is not this user's");
    second.kill();
    sleeper.wait().unwrap();
}
