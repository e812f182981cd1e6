use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};

use skep_testkit::Frozen;
use skep_types::SandboxId;

use super::*;

/// The real hierarchies of this host, with a parent that nobody else uses.
struct Real {
    cgroups: Cgroups,
}

impl Real {
    fn new() -> Self {
        let parent = format!("skep-test-{}", SandboxId::random());
        Self {
            cgroups: Cgroups::open(Path::new("/sys/fs/cgroup"), &parent).unwrap(),
        }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.cgroups
            .remove_parent()
            .expect("every test removes its groups");
    }
}

/// Makes a group with all its limits, as it is when the launcher is done.
fn create(cgroups: &Cgroups, group: &Group, resources: &Resources, io: Option<IoLimit>) {
    let settings = cgroups.create(group, resources, io).unwrap();
    if let Some(settings) = settings {
        settings.write().unwrap();
    }
}

/// A descriptor of something that is on a disk.
fn on_disk() -> File {
    File::open("/").unwrap()
}

fn destroy(real: &Real, group: &Group) {
    let deadline = Instant::now() + Duration::from_secs(60);
    real.cgroups.destroy(group, deadline).unwrap();
}

#[test]
fn limits_hold_a_process_and_the_end_leaves_nothing() {
    let real = Real::new();
    let group = Group::new(&SandboxId::random());
    let resources = Resources {
        pids: 16,
        memory_mib: 64,
        ..Resources::default()
    };
    create(&real.cgroups, &group, &resources, None);
    // The shell waits for a line, so that it is inside before it does anything.
    let mut shell = Command::new("sh")
        .args([
            "-c",
            "read line; for i in $(seq 64); do sleep 60 & done; wait",
        ])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for mut procs in real.cgroups.join_fds(&group, Child::Work).unwrap() {
        procs.write_all(shell.id().to_string().as_bytes()).unwrap();
    }
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    skep_testkit::wait_for(Duration::from_secs(10), || {
        match real.cgroups.usage(&group).unwrap().pids {
            16 => Ok(()),
            pids => Err(format!("{pids} processes")),
        }
    });
    assert!(real.cgroups.usage(&group).unwrap().memory_peak_bytes > 0);

    destroy(&real, &group);
    shell.wait().unwrap();
    destroy(&real, &group);
    assert_eq!(real.cgroups.list().unwrap(), Vec::<String>::new());
}

#[test]
fn a_group_that_was_ready_has_its_limits_and_open_doors() {
    let real = Real::new();
    let groups = ReadyGroups::new(&real.cgroups, 2, None).unwrap();
    let resources = Resources {
        memory_mib: 64,
        ..Resources::default()
    };
    let all = [(); 4].map(|()| Group::new(&SandboxId::random()));
    for group in &all {
        let made = groups.make(&real.cgroups, group, &resources, on_disk().as_fd());
        let join_fds = made.unwrap();
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        for mut procs in join_fds.work {
            procs
                .write_all(sleeper.id().to_string().as_bytes())
                .unwrap();
        }
        assert_eq!(real.cgroups.usage(group).unwrap().pids, 1);
        if let Cgroups::V1(_) = &real.cgroups {
            let [directory, ..] = &real.cgroups.directories(group, Child::Work)[..] else {
                panic!("no hierarchy");
            };
            assert_eq!(
                read_number(directory, "memory.limit_in_bytes").unwrap(),
                64 << 20
            );
        }
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        while groups.wants_more() {
            groups.make_one_ready(&real.cgroups);
        }
    }
    // Those that were left by a server that was killed.
    let next = ReadyGroups::new(&real.cgroups, 2, None).unwrap();
    let left = real.cgroups.list().unwrap();
    assert_eq!(left.len(), all.len(), "{left:?}");
    for group in &all {
        destroy(&real, group);
    }
    next.clear(&real.cgroups);
}

#[test]
fn a_group_that_was_ready_and_is_gone_is_made_again() {
    let real = Real::new();
    let groups = ReadyGroups::new(&real.cgroups, 1, None).unwrap();
    let all = [(); 2].map(|()| Group::new(&SandboxId::random()));
    let resources = Resources::default();
    for group in &all {
        let made = groups.make(&real.cgroups, group, &resources, on_disk().as_fd());
        made.unwrap();
        groups.make_one_ready(&real.cgroups);
        for name in real.cgroups.list().unwrap() {
            if name.starts_with(crate::pool::PREFIX) {
                destroy(&real, &Group::ready(&name));
            }
        }
    }
    for group in &all {
        real.cgroups.usage(group).unwrap();
        destroy(&real, group);
    }
    groups.clear(&real.cgroups);
}

/// A directory that looks like the unified tree of a real host, as far as files go: the
/// kernel makes the files of a group with the group, so the test does.
fn recorded_tree(directory: &Path, group: &Group) -> Cgroups {
    let files = |directory: &Path| {
        fs::create_dir_all(directory).unwrap();
        for (name, content) in [
            (
                "cgroup.controllers",
                "cpuset cpu io memory hugetlb pids rdma misc",
            ),
            ("cgroup.subtree_control", "memory pids"),
            ("cgroup.procs", ""),
            ("memory.max", "max"),
            ("memory.swap.max", "max"),
            ("memory.current", "8192"),
            ("memory.peak", "16384"),
            ("memory.stat", "anon 4096\nfile 2048\nkernel 1024"),
            ("memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1"),
            ("pids.max", "max"),
            ("pids.current", "3"),
            ("cpu.max", "max 100000"),
            ("cpu.weight", "100"),
            ("io.max", ""),
            ("cpu.stat", "usage_usec 1500000\nuser_usec 1000000"),
        ] {
            fs::write(directory.join(name), content).unwrap();
        }
    };
    files(directory);
    let parent = directory.join("skep");
    for name in [
        "",
        "agent",
        "work",
        "work/rest",
        "work/kernels",
        "work/kernels/entry",
    ] {
        files(&parent.join(&group.name).join(name));
    }
    files(&parent);
    Cgroups::open(directory, "skep").unwrap()
}

#[test]
fn the_unified_tree_gets_limits_with_a_reserve_for_the_agent() {
    let directory = tempfile::tempdir().unwrap();
    let group = Group::new(&SandboxId::random());
    let cgroups = recorded_tree(directory.path(), &group);
    assert_eq!(cgroups.version(), "v2");
    let io = IoLimit {
        disk: (254, 0),
        bytes_per_second: 1000,
    };
    create(&cgroups, &group, &Resources::default(), Some(io));

    let sandbox = directory.path().join("skep").join(&group.name);
    let written = |path: &str| fs::read_to_string(sandbox.join(path)).unwrap();
    assert_eq!(written("work/memory.max"), (1024_u64 << 20).to_string());
    assert_eq!(written("memory.max"), (1088_u64 << 20).to_string());
    assert_eq!(written("work/pids.max"), "1024");
    assert_eq!(written("pids.max"), "1056");
    assert_eq!(written("work/cpu.max"), "200000 100000");
    assert_eq!(written("memory.swap.max"), "0");
    assert_eq!(written("work/io.max"), "254:0 rbps=1000 wbps=1000");
    let enabled = "+cpu +memory +pids +io";
    assert_eq!(written("cgroup.subtree_control"), enabled);
    assert_eq!(written("work/cgroup.subtree_control"), enabled);
}

#[test]
fn nothing_is_enabled_below_a_group_of_the_unified_tree_before_the_launcher_has_left_it() {
    let directory = tempfile::tempdir().unwrap();
    let group = Group::new(&SandboxId::random());
    let cgroups = recorded_tree(directory.path(), &group);
    let sandbox = directory.path().join("skep").join(&group.name);
    fs::write(sandbox.join("cgroup.subtree_control"), "").unwrap();
    let created = cgroups.create(&group, &Resources::default(), None);
    let settings = created.unwrap().unwrap();
    let text = |path: &str| fs::read_to_string(sandbox.join(path)).unwrap();
    assert_eq!(text("cgroup.subtree_control"), "");
    // The limits of all are there from the beginning.
    assert_eq!(text("memory.max"), (1088_u64 << 20).to_string());
    let (first, _) = settings.files.first().unwrap();
    assert_eq!(first, "cgroup.subtree_control");
}

#[test]
fn on_the_unified_tree_the_agent_owns_the_directory_of_its_groups_and_no_limit() {
    use std::os::unix::fs::MetadataExt as _;
    let directory = tempfile::tempdir().unwrap();
    let group = Group::new(&SandboxId::random());
    let cgroups = recorded_tree(directory.path(), &group);
    let given = cgroups.delegate(&group, Some(100_000)).unwrap();
    let names: Vec<_> = given.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["unified", "entry"]);

    let work = directory.path().join("skep").join(&group.name).join("work");
    let owner = |path: &str| fs::metadata(work.join(path)).unwrap().uid();
    for theirs in [
        "kernels",
        "kernels/cgroup.procs",
        "kernels/cgroup.subtree_control",
    ] {
        assert_eq!(owner(theirs), 100_000, "{theirs}");
    }
    for ours in [
        "",
        "memory.max",
        "cgroup.procs",
        "kernels/memory.max",
        "kernels/pids.max",
        "kernels/entry/cgroup.procs",
    ] {
        assert_eq!(owner(ours), 0, "{ours}");
    }
}

#[test]
fn groups_that_others_made_are_killed_counted_and_removed_with_the_sandbox() {
    let real = Real::new();
    let group = Group::new(&SandboxId::random());
    create(&real.cgroups, &group, &Resources::default(), None);
    let given = real.cgroups.delegate(&group, None).unwrap();
    let mut shell = Command::new("sleep").arg("60").spawn().unwrap();
    for (_, directory) in given.iter().filter(|(name, _)| *name != "entry") {
        move_into(&make_group(directory, "made"), shell.id());
    }
    destroy(&real, &group);
    shell.wait().unwrap();
    assert_eq!(real.cgroups.list().unwrap(), Vec::<String>::new());
}

#[test]
fn the_unified_tree_tells_what_was_used() {
    let directory = tempfile::tempdir().unwrap();
    let group = Group::new(&SandboxId::random());
    let usage = recorded_tree(directory.path(), &group)
        .usage(&group)
        .unwrap();
    assert_eq!(usage.cpu_time, Duration::from_millis(1500));
    assert_eq!((usage.memory_bytes, usage.memory_peak_bytes), (8192, 16384));
    assert_eq!(
        (usage.cache_bytes, usage.pids, usage.out_of_memory_kills),
        (2048, 3, 1)
    );
}

#[test]
fn reading_and_writing_is_limited_on_a_real_disk() {
    let Some(io) = DiskSpeed::new(Path::new("/"), 50 << 20).on_host_disk() else {
        // A host whose root is on no disk of its own has nothing to limit.
        return;
    };
    let real = Real::new();
    let group = Group::new(&SandboxId::random());
    create(&real.cgroups, &group, &Resources::default(), Some(io));
    assert!(real.cgroups.limits_io(&group).unwrap());
    destroy(&real, &group);
}

#[test]
fn a_machine_without_the_controllers_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("cgroup.controllers"), "cpu io").unwrap();
    let error = Cgroups::open(directory.path(), "skep").unwrap_err();
    assert_eq!(error.to_string(), "no cgroup hierarchy offers memory, pids");
}

/// A name as long as the kernel takes.
fn long_name() -> String {
    "n".repeat(240)
}

fn make_group(directory: &impl std::os::fd::AsFd, name: &str) -> OwnedFd {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(0o755)).unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty()).unwrap()
}

fn move_into(directory: &impl std::os::fd::AsFd, process: u32) {
    use rustix::fs::{Mode, OFlags};
    let procs = rustix::fs::openat(directory, "cgroup.procs", OFlags::WRONLY, Mode::empty());
    rustix::io::write(procs.unwrap(), process.to_string().as_bytes()).unwrap();
}

#[test]
fn groups_that_no_path_can_name_are_counted_killed_and_removed() {
    let real = Real::new();
    let group = Group::new(&SandboxId::random());
    create(&real.cgroups, &group, &Resources::default(), None);
    let given = real.cgroups.delegate(&group, None).unwrap();
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    for (_, directory) in given.iter().filter(|(name, _)| *name != "entry") {
        // 17 are longer than a path may be, 40 are deeper than a walk that only looks goes.
        let mut lowest = make_group(directory, &long_name());
        for _ in 0..40 {
            lowest = make_group(&lowest, &long_name());
        }
        move_into(&lowest, sleeper.id());
    }
    real.cgroups.usage(&group).unwrap();
    destroy(&real, &group);
    sleeper.wait().unwrap();
    assert_eq!(real.cgroups.list().unwrap(), Vec::<String>::new());
}

#[test]
fn thousands_of_groups_are_removed() {
    let real = Real::new();
    let group = Group::new(&SandboxId::random());
    create(&real.cgroups, &group, &Resources::default(), None);
    let given = real.cgroups.delegate(&group, None).unwrap();
    let (_, directory) = given.first().unwrap();
    for number in 0..1000 {
        let outer = make_group(directory, &format!("{number}-{}", "x".repeat(200)));
        make_group(&outer, "inner");
    }
    real.cgroups.usage(&group).unwrap();
    destroy(&real, &group);
    assert_eq!(real.cgroups.list().unwrap(), Vec::<String>::new());
}

#[test]
fn a_process_that_does_not_die_keeps_its_limits_and_is_named() {
    let real = Real::new();
    let group = Group::new(&SandboxId::random());
    let resources = Resources {
        memory_mib: 64,
        ..Resources::default()
    };
    create(&real.cgroups, &group, &resources, None);
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    for mut procs in real.cgroups.join_fds(&group, Child::Work).unwrap() {
        procs
            .write_all(sleeper.id().to_string().as_bytes())
            .unwrap();
    }
    let Some(frozen) = Frozen::new(&[sleeper.id().cast_signed()]) else {
        destroy(&real, &group);
        sleeper.wait().unwrap();
        return;
    };
    let start = Instant::now();
    let deadline = start + Duration::from_millis(300);
    let error = real.cgroups.destroy(&group, deadline).unwrap_err();
    assert!(matches!(error, CgroupError::Undead { .. }), "{error:?}");
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(real.cgroups.memory_limit(&group).unwrap(), 64 << 20);
    assert_eq!(
        real.cgroups.processes(&group).unwrap(),
        [Pid::from_child(&sleeper)]
    );
    frozen.thaw();
    destroy(&real, &group);
    sleeper.wait().unwrap();
}

#[test]
fn a_group_that_was_frozen_is_killed_all_the_same() {
    let real = Real::new();
    let group = Group::new(&SandboxId::random());
    create(&real.cgroups, &group, &Resources::default(), None);
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let directories = real.cgroups.directories(&group, Child::Work);
    for directory in &directories {
        fs::write(directory.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
    }
    for directory in &directories {
        let state = directory.join("freezer.state");
        if state.exists() {
            fs::write(state, "FROZEN").unwrap();
        }
    }
    destroy(&real, &group);
    sleeper.wait().unwrap();
}

#[test]
fn a_sandbox_with_its_agent_has_a_little_more_of_a_processor_than_its_work() {
    let real = Real::new();
    let group = Group::new(&SandboxId::random());
    let resources = Resources {
        cpus: 2,
        ..Resources::default()
    };
    create(&real.cgroups, &group, &resources, None);
    let quota = |child: Option<Child>| match &real.cgroups {
        Cgroups::V1(_) => {
            let directories = real
                .cgroups
                .directories(&group, child.unwrap_or(Child::Work));
            let directory = directories
                .iter()
                .find(|directory| directory.starts_with("/sys/fs/cgroup/cpu"))
                .unwrap();
            let directory = child.map_or(directory.parent().unwrap(), |_| directory);
            read(directory, "cpu.cfs_quota_us").unwrap()
        }
        Cgroups::V2(tree) => {
            let directory = tree.directory(&group);
            let directory = child.map_or(directory.clone(), |child| directory.join(child.name()));
            read(&directory, "cpu.max").unwrap()
        }
    };
    assert!(quota(None).starts_with("225000"), "{}", quota(None));
    let work = quota(Some(Child::Work));
    assert!(work.starts_with("200000"), "{work}");
    destroy(&real, &group);
}

/// Fills the buffers of connections to itself with up to 64 MiB, and says how many it got.
const FILL_SOCKETS: &str = "
import socket, sys
sys.stdin.readline()
listener = socket.create_server(('127.0.0.1', 0))
kept, total = [], 0
while total < 64 << 20 and len(kept) < 200:
    sender = socket.socket()
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    sender.connect(listener.getsockname())
    sender.setblocking(False)
    kept.append((sender, listener.accept()[0]))
    try:
        total += sender.send(b'x' * (8 << 20))
    except BlockingIOError:
        pass
print(total >> 20)
";

/// Mebibytes that a program can put into its sockets in a child of a group of 64 MiB.
fn mebibytes_in_sockets(cgroups: &Cgroups, child: Child) -> u32 {
    let group = Group::new(&SandboxId::random());
    let resources = Resources {
        memory_mib: 64,
        ..Resources::default()
    };
    create(cgroups, &group, &resources, None);
    let mut python = Command::new("python3")
        .args(["-I", "-c", FILL_SOCKETS])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    for mut procs in cgroups.join_fds(&group, child).unwrap() {
        procs.write_all(python.id().to_string().as_bytes()).unwrap();
    }
    python.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let output = python.wait_with_output().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    cgroups.destroy(&group, deadline).unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    said.trim().parse().unwrap()
}

#[test]
fn what_sockets_hold_is_limited_where_it_is_counted() {
    let real = Real::new();
    if let Cgroups::V2(_) = &real.cgroups {
        // There they are counted with all other memory.
        return;
    }
    for child in Child::ALL {
        let held = mebibytes_in_sockets(&real.cgroups, child);
        assert!(held < 24, "{held} MiB in {}", child.name());
    }
    let uncounted = real.cgroups.clone().without_counted_sockets();
    let held = mebibytes_in_sockets(&uncounted, Child::Work);
    assert!(held >= 64, "{held} MiB although nobody counts");
}
