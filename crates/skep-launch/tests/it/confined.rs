//! Rights that are left to a process that is confined to a directory.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Command, ExitCode};

use rustix::fs::{FileType, Mode, OFlags};
use skep_launch::{ConfinedLimits, confine};

crate::tests![a_confined_process_has_its_directory_and_nothing_else];

/// Confines itself and says what it can still do.
pub(crate) fn run() -> ExitCode {
    confine(ConfinedLimits {
        memory: 1 << 30,
        file: 1 << 20,
        processor_seconds: 10,
        open_files: 16,
    })
    .unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let directory = rustix::fs::openat(rustix::fs::CWD, ".", flags, Mode::empty()).unwrap();
    let root = directory.as_fd();
    let said = |outcome: io::Result<()>| match outcome {
        Ok(()) => "ok".to_owned(),
        Err(error) => error.raw_os_error().unwrap_or(0).to_string(),
    };
    let open = |path: &str| {
        let opened = rustix::fs::openat(root, path, OFlags::RDONLY, Mode::empty());
        opened.map(drop).map_err(io::Error::from)
    };
    let device = |number: u64| {
        let name = format!("device-{number}");
        let kind = FileType::CharacterDevice;
        rustix::fs::mknodat(root, name, kind, Mode::empty(), number).map_err(io::Error::from)
    };
    let answers = [
        ("own file", said(open("file"))),
        ("upwards", said(open("../../../../etc/passwd"))),
        ("host", said(open("/etc/passwd"))),
        ("kernel", said(open("/proc/self/status"))),
        ("mark", said(device(0))),
        ("null", said(device(0x103))),
        (
            "socket",
            said(std::net::TcpListener::bind("127.0.0.1:0").map(drop)),
        ),
        ("program", said(Command::new("/bin/true").spawn().map(drop))),
    ];
    let mut output = io::stdout().lock();
    for (name, answer) in answers {
        writeln!(output, "{name}: {answer}").unwrap();
    }
    ExitCode::SUCCESS
}

fn a_confined_process_has_its_directory_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .arg("confined")
        .current_dir(directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let (missing, no_call, refused) = (libc::ENOENT, libc::ENOSYS, libc::EPERM);
    let expected = [
        "own file: ok".to_owned(),
        format!("upwards: {missing}"),
        format!("host: {missing}"),
        format!("kernel: {missing}"),
        "mark: ok".to_owned(),
        format!("null: {refused}"),
        format!("socket: {no_call}"),
    ];
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(lines.len() >= expected.len(), "{said} {stderr}");
    assert_eq!(lines[..expected.len()], expected, "{stderr}");
    assert!(!lines.contains(&"program: ok"), "{said}");
}
