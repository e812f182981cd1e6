//! A process that may enter what is below it, and sandboxes below it.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use skep_launch::{Ended, Privileges, Started, Users};

use crate::plan::{Bench, DEADLINE, asking, check, fresh_users, launcher};

crate::tests![
    who_may_enter_has_that_right_alone,
    a_sandbox_below_another_namespace_is_held_as_any_other,
    the_network_below_belongs_to_the_parent,
    what_is_counted_for_the_parent_is_shared_fairly,
    what_it_leaves_behind_is_reaped_by_its_launcher,
    what_it_leaves_behind_stopped_is_ended,
];

/// Number of ids of a sandbox, and of the namespace above it for itself.
const IDS: u32 = 65_536;

/// A process that keeps a user namespace for itself and one sandbox.
struct Holder {
    first: u32,
    started: Started,
    /// It ends when this is closed.
    _hold: PipeWriter,
    _directory: tempfile::TempDir,
}

fn entering(mut bench: Bench) -> Bench {
    // Twice as many ids as a sandbox has, of which no other test takes any.
    let (Users::Range { first, .. }, _) = (fresh_users(), fresh_users()) else {
        unreachable!("tests have ranges")
    };
    let first = first + 0x0800_0000;
    bench.plan.users = Users::Range {
        first,
        count: 2 * IDS,
    };
    bench.plan.privileges = Privileges::Enter;
    bench.plan.process.user = 1000;
    bench.plan.process.group = 1000;
    bench
}

impl Holder {
    fn start() -> Self {
        let mut bench = entering(Bench::new(&["wait"]));
        let Users::Range { first, .. } = bench.plan.users else {
            unreachable!("it has a range")
        };
        let (theirs, hold) = std::io::pipe().unwrap();
        bench.plan.stdin(theirs);
        let started = launcher()
            .launch(bench.plan, DEADLINE)
            .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)));
        Self {
            first,
            started,
            _hold: hold,
            _directory: bench.directory,
        }
    }

    fn namespace(&self) -> File {
        File::open(format!("/proc/{}/ns/user", self.started.pid)).unwrap()
    }

    /// Lets a sandbox be made below.
    fn above(&self, mut bench: Bench) -> Bench {
        bench.plan.users = Users::Range {
            first: self.first + IDS,
            count: IDS,
        };
        bench.plan.below(self.namespace(), IDS);
        bench
    }
}

fn who_may_enter_has_that_right_alone() {
    let entering_alone = "0000000000200000";
    let expected = [
        ("id", "1000:1000"),
        ("status=CapBnd", entering_alone),
        ("status=CapEff", entering_alone),
        ("status=CapPrm", entering_alone),
        ("status=CapAmb", entering_alone),
        ("status=Seccomp_filters", "1"),
        ("status=NoNewPrivs", "0"),
        // It is among the host's processes and sees none of them.
        ("list=/proc/1", "ENOENT"),
        ("unshare=user", "EPERM"),
        ("unshare=net", "EPERM"),
        ("mount", "EPERM"),
        ("write=/etc/new", "EACCES"),
        ("list=/sys/class/net", "lo"),
    ];
    check(entering(asking(&expected)), &expected);
}

fn a_sandbox_below_another_namespace_is_held_as_any_other() {
    let expected = [
        ("pid", "1"),
        ("id", "0:0"),
        ("hostname", "e2b.local"),
        ("status=NoNewPrivs", "0"),
        ("status=Seccomp_filters", "1"),
        ("status=CapBnd", "00000000a00405fb"),
        ("status=CapEff", "00000008a00405fb"),
        ("list=/", "dev etc probe proc run sys tmp"),
        ("list=/sys/class/net", "lo"),
        ("read=/proc/kmsg", ""),
        ("write=/proc/sys/kernel/core_pattern", "EROFS"),
        ("owner=/etc", "0:0"),
        ("owner=/proc/1", "0:0"),
        ("write=/etc/new", "ok"),
        ("owner=/etc/new", "0:0"),
        ("read=/proc/self/uid_map", "0      65536      65536"),
        ("read=/proc/sys/user/max_user_namespaces", "0"),
        ("read=/proc/sys/user/max_inotify_instances", "128"),
        ("protect", "ok"),
        ("run=read:/proc/1/mem", "EACCES"),
        ("unshare=user", "EPERM"),
        ("mount", "EPERM"),
        ("unmount=/proc/kmsg", "EPERM"),
        ("socket=packet", "EAFNOSUPPORT"),
        ("socket=raw", "EPERM"),
        ("bind=127.0.0.1:80", "ok"),
        ("socket=ping", "ok"),
        ("descriptors", "0 1 2"),
    ];
    let holder = Holder::start();
    let mut bench = holder.above(asking(&expected));
    // What the host calls its ids is seen from inside as the parent's numbers.
    bench.plan.hostname = "e2b.local".into();
    let directory = check(bench, &expected);
    let on_disk = std::fs::metadata(directory.path().join("upper/etc/new")).unwrap();
    assert_eq!((on_disk.uid(), on_disk.gid()), (0, 0));
}

fn what_is_counted_for_the_parent_is_shared_fairly() {
    let holder = Holder::start();
    let questions = ["limit=Max msgqueue size", "limit=Max pending signals"];
    let (_, said, _directory) = holder.above(Bench::new(&questions)).run();
    let capabilities = rustix::thread::capabilities(None).unwrap();
    let may_raise = capabilities
        .effective
        .contains(rustix::thread::CapabilitySet::SYS_RESOURCE);
    let part = |resource| {
        let limit = rustix::process::getrlimit(resource).maximum.unwrap();
        // Where the parent has no limit, each below has what it would have had without one.
        if may_raise {
            limit
        } else {
            limit / u64::from(skep_launch::MAX_PER_PARENT)
        }
    };
    let expected = format!(
        "limit=Max msgqueue size -> {}\nlimit=Max pending signals -> {}\n",
        part(rustix::process::Resource::Msgqueue),
        part(rustix::process::Resource::Sigpending),
    );
    assert_eq!(said, expected);
}

fn the_network_below_belongs_to_the_parent() {
    let holder = Holder::start();
    let mut bench = holder.above(Bench::new(&["wait"]));
    let (theirs, mut hold) = std::io::pipe().unwrap();
    bench.plan.stdin(theirs);
    let started = launcher().launch(bench.plan, DEADLINE).unwrap();
    let open = |kind: &str| File::open(format!("/proc/{}/ns/{kind}", started.pid)).unwrap();
    let owner = |namespace: &File| skep_linux::owner_of_namespace(namespace).unwrap();
    let inode = |file: &File| file.metadata().unwrap().ino();
    assert_eq!(
        inode(&File::from(owner(&open("net")))),
        inode(&holder.namespace()),
    );
    for kind in ["mnt", "pid", "ipc", "uts", "cgroup"] {
        assert_eq!(
            inode(&File::from(owner(&open(kind)))),
            inode(&open("user")),
            "{kind}"
        );
    }
    hold.write_all(b"\n").unwrap();
}

fn what_it_leaves_behind_is_reaped_by_its_launcher() {
    let mut bench = entering(Bench::new(&["orphan"]));
    let (theirs, hold) = std::io::pipe().unwrap();
    bench.plan.stdin(theirs);
    let (mut started, output) = run_to_its_end(bench);
    // The control: it waits for what is there.
    assert!(!started.wait_for_orphans(Duration::ZERO).unwrap());
    drop(hold);
    assert!(started.wait_for_orphans(DEADLINE).unwrap());
    assert!(!std::fs::exists(orphan(output)).unwrap());
}

fn what_it_leaves_behind_stopped_is_ended() {
    let (mut started, output) = run_to_its_end(entering(Bench::new(&["stopped-orphan"])));
    assert!(started.wait_for_orphans(DEADLINE).unwrap());
    assert!(!std::fs::exists(orphan(output)).unwrap());
}

fn run_to_its_end(bench: Bench) -> (Started, PipeReader) {
    let launched = launcher().launch(bench.plan, DEADLINE);
    let mut started = launched.unwrap();
    let ended = started.wait(Some(DEADLINE)).unwrap();
    assert_eq!(ended, Some(Ended::Code(0)));
    (started, bench.output)
}

/// Returns the path in `/proc` of a child that was left behind, as its parent has said.
fn orphan(mut output: PipeReader) -> String {
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    let (_, number) = said.trim().split_once(" -> ").unwrap();
    format!("/proc/{number}")
}
