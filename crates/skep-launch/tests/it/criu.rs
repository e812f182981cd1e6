//! CRIU as its launcher runs it: with a deadline of its own, and with fewer rights than root has.

use std::fs::{self, File};
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode};
use skep_checkpoint::{ANSWER, HOOK, STAGE};
use skep_launch::{CheckpointTool, DumpPlan};
use tempfile::TempDir;

use crate::plan::{DEADLINE, launcher};

crate::tests![
    a_tool_that_does_not_end_is_killed_by_its_launcher,
    a_tool_has_no_rights_that_it_does_not_need,
    a_hook_whose_launcher_is_gone_is_told_no,
];

/// A dump by a shell script in place of CRIU, in the network of this process.
fn plan(directory: &TempDir, script: &str, timeout: Duration) -> DumpPlan {
    let images = directory.path().join("processes");
    fs::create_dir(&images).unwrap();
    let tool = CheckpointTool {
        command: ["/bin/sh", "-c"].map(str::to_owned).into(),
        hook: "/bin/false".into(),
        images,
        cache: directory.path().join("cache"),
        timeout,
        cgroup: None,
    };
    let network = File::open("/proc/self/ns/net").unwrap();
    DumpPlan::new(tool, vec![script.to_owned()], network)
}

fn a_tool_that_does_not_end_is_killed_by_its_launcher() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(&directory, "exec sleep 3600", Duration::from_millis(300));
    let begun = Instant::now();
    let failed = launcher()
        .dump(&plan, DEADLINE, &mut |_, _| true)
        .unwrap_err();
    assert!(failed.damages_processes(), "{failed}");
    assert!(begun.elapsed() < DEADLINE, "the server did not have to");
}

/// A line of a process's `status`, as a set.
fn set(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
}

fn a_tool_has_no_rights_that_it_does_not_need() {
    const SYS_MODULE: u64 = 1 << 16;
    const SYS_PTRACE: u64 = 1 << 19;
    let directory = tempfile::tempdir().unwrap();
    let script = "cat /proc/self/status /proc/self/limits > seen; ls /run > run";
    let plan = plan(&directory, script, DEADLINE);
    launcher().dump(&plan, DEADLINE, &mut |_, _| true).unwrap();
    let read = |name: &str| fs::read_to_string(directory.path().join("processes").join(name));
    let seen = read("seen").unwrap();
    let own = fs::read_to_string("/proc/self/status").unwrap();
    assert_ne!(
        set(&own, "CapEff:") & SYS_PTRACE,
        0,
        "the control: tests run as root"
    );
    for name in ["CapEff:", "CapPrm:", "CapBnd:"] {
        assert_eq!(set(&seen, name) & SYS_MODULE, 0, "{name}");
        assert_ne!(set(&seen, name) & SYS_PTRACE, 0, "{name}");
    }
    let limit = seen
        .lines()
        .find(|line| line.starts_with("Max address space"));
    assert!(limit.unwrap().contains("2147483648"), "{limit:?}");
    let run = read("run").unwrap();
    let is_its_own = |name: &str| ["cgroups", "criu.kdat"].contains(&name);
    assert!(run.lines().all(is_its_own), "its own: {run}");
}

fn a_hook_whose_launcher_is_gone_is_told_no() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = |name: &str| {
        let path = directory.path().join(name);
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        File::options().read(true).write(true).open(path).unwrap()
    };
    let (mut stages, answers) = (pipe(STAGE), pipe(ANSWER));
    let mut hook = Command::new("/bin/sh")
        .args(["-c", HOOK])
        .env("CRTOOLS_SCRIPT_ACTION", "post-dump")
        .env("CRTOOLS_INIT_PID", "42")
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = [0; 13];
    stages.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"post-dump 42\n");
    drop((stages, answers));
    skep_testkit::wait_for(DEADLINE, || match hook.try_wait().unwrap() {
        Some(ended) if !ended.success() => Ok(()),
        ended => Err(format!("{ended:?}")),
    });
}
