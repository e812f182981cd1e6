//! The launched program: looks around and says what it finds, one line per question.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::ExitCode;

use rustix::io::Errno;
use rustix::thread::UnshareFlags;
use skep_linux::Cloned;

/// Answers every question in turn. A question is a word, followed by its arguments after `=`.
pub(crate) fn run(questions: &[String]) -> ExitCode {
    let mut out = std::io::stdout().lock();
    for question in questions {
        let (word, argument) = question.split_once('=').unwrap_or((question, ""));
        match word {
            "exit" => return ExitCode::from(argument.parse::<u8>().unwrap()),
            "wait" => {
                std::io::stdin().read_line(&mut String::new()).unwrap();
                continue;
            }
            _ => {}
        }
        writeln!(out, "{question} -> {}", answer(word, argument)).unwrap();
    }
    ExitCode::SUCCESS
}

#[expect(
    clippy::disallowed_methods,
    reason = "which variables a program gets is what the test asks"
)]
fn answer(word: &str, argument: &str) -> String {
    match word {
        "pid" => std::process::id().to_string(),
        "id" => format!(
            "{}:{}",
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw()
        ),
        "hostname" => rustix::system::uname().nodename().to_string_lossy().into(),
        "cwd" => std::env::current_dir().unwrap().display().to_string(),
        "environment" => {
            let mut all: Vec<_> = std::env::vars().collect();
            all.sort();
            format!("{all:?}")
        }
        "status" => status(argument),
        "limit" => limit(argument),
        "read" => said(fs::read_to_string(argument).map(|text| text.trim().replace('\n', "|"))),
        "write" => said(fs::write(argument, "written").map(|()| "ok".into())),
        "overwrite" => overwrite(argument),
        "list" => said(list(argument)),
        "link" => said(fs::read_link(argument).map(|target| target.display().to_string())),
        "owner" => said(owner(argument)),
        "device" => said(device(argument)),
        "terminal" => {
            let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
            errno(rustix::pty::openpt(flags).map(drop))
        }
        "terminal-owner" => said(terminal_owner()),
        "thread" => std::thread::spawn(|| "ok".to_owned()).join().unwrap(),
        "descriptors" => said(descriptors()),
        "mount" => errno(rustix::mount::mount(
            c"none",
            c"/tmp",
            c"tmpfs",
            rustix::mount::MountFlags::empty(),
            None::<&std::ffi::CStr>,
        )),
        "unmount" => errno(rustix::mount::unmount(
            argument,
            rustix::mount::UnmountFlags::DETACH,
        )),
        "unshare" => unshare(argument),
        "socket" => socket(argument),
        "bind" => said(std::net::TcpListener::bind(argument).map(|_| "ok".into())),
        "protect" => said(skep_linux::protect_first_process().map(|()| "ok".into())),
        "run" => run_program(argument),
        "orphan" => orphan(|| {
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }),
        "stopped-orphan" => orphan(|| {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::STOP).unwrap();
        }),
        _ => panic!("no such question: {word}"),
    }
}

/// Writes at the start of an open file.
fn overwrite(descriptor: &str) -> String {
    let number = descriptor.parse().unwrap();
    let file = skep_linux::take_inherited(number).unwrap();
    errno(rustix::io::pwrite(file, b"written: ", 0).map(drop))
}

/// The number of a child that does this and ends.
fn orphan(life: impl FnOnce()) -> String {
    match skep_linux::clone_process(UnshareFlags::empty()).unwrap() {
        Cloned::Parent(child) => child.pid.to_string(),
        Cloned::Child => {
            life();
            skep_linux::exit_now(0)
        }
    }
}

fn said(result: std::io::Result<String>) -> String {
    result.unwrap_or_else(|error| match error.raw_os_error() {
        Some(code) => name(Errno::from_raw_os_error(code)),
        None => error.to_string(),
    })
}

fn name(error: Errno) -> String {
    match error {
        Errno::PERM => "EPERM",
        Errno::ACCESS => "EACCES",
        Errno::ROFS => "EROFS",
        Errno::NOENT => "ENOENT",
        Errno::AFNOSUPPORT => "EAFNOSUPPORT",
        _ => return error.to_string(),
    }
    .into()
}

fn errno(result: rustix::io::Result<()>) -> String {
    said(result.map(|()| "ok".into()).map_err(Into::into))
}

fn status(field: &str) -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field));
    let value = line.and_then(|line| line.split_once(':'));
    value.map_or_else(
        || "none".into(),
        |(_, value)| value.trim().replace('\t', " "),
    )
}

/// The most that a limit may be raised to.
fn limit(name: &str) -> String {
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix(name));
    let mut numbers = line.unwrap().split_whitespace();
    numbers.nth(1).unwrap().to_owned()
}

fn list(path: &str) -> std::io::Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names.join(" "))
}

/// The owner of a new terminal.
fn terminal_owner() -> std::io::Result<String> {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let terminal = rustix::pty::openpt(flags)?;
    let path = rustix::pty::ptsname(&terminal, Vec::new())?;
    owner(&path.to_string_lossy())
}

fn owner(path: &str) -> std::io::Result<String> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::symlink_metadata(path)?;
    Ok(format!("{}:{}", metadata.uid(), metadata.gid()))
}

/// Makes a node of a kind and with numbers, and opens it: `block:7:0:/dev/disk`.
fn device(argument: &str) -> std::io::Result<String> {
    use rustix::fs::{CWD, FileType, Mode, makedev};
    let parts: Vec<&str> = argument.splitn(4, ':').collect();
    let [kind, major, minor, path] = parts[..] else {
        panic!("no device: {argument}");
    };
    let kind = match kind {
        "block" => FileType::BlockDevice,
        "character" => FileType::CharacterDevice,
        _ => panic!("no such kind: {kind}"),
    };
    let number = makedev(major.parse().unwrap(), minor.parse().unwrap());
    rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), number)?;
    fs::File::open(path).map(|_| "opened".into())
}

fn descriptors() -> std::io::Result<String> {
    // Reading the directory needs one more, which is not counted.
    let directory = rustix::fs::open(
        "/proc/self/fd",
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let own = std::os::fd::AsRawFd::as_raw_fd(&directory.as_fd()).to_string();
    let names: Vec<_> = list("/proc/self/fd")?
        .split(' ')
        .filter(|name| *name != own && fs::read_link(format!("/proc/self/fd/{name}")).is_ok())
        .map(str::to_owned)
        .collect();
    Ok(names.join(" "))
}

#[expect(deprecated, reason = "what it may do unsafely is refused here")]
fn unshare(kind: &str) -> String {
    let flags = match kind {
        "user" => UnshareFlags::NEWUSER,
        "mount" => UnshareFlags::NEWNS,
        "pid" => UnshareFlags::NEWPID,
        "net" => UnshareFlags::NEWNET,
        "files" => UnshareFlags::FS,
        _ => panic!("no such namespace: {kind}"),
    };
    errno(rustix::thread::unshare(flags))
}

fn socket(family: &str) -> String {
    use rustix::net::{AddressFamily, SocketType, ipproto, socket};
    let result = match family {
        "tcp" => socket(AddressFamily::INET, SocketType::STREAM, None),
        "route" => socket(AddressFamily::NETLINK, SocketType::RAW, None),
        "audit" => socket(
            AddressFamily::NETLINK,
            SocketType::RAW,
            Some(rustix::net::netlink::AUDIT),
        ),
        "vsock" => socket(AddressFamily::VSOCK, SocketType::STREAM, None),
        "packet" => socket(AddressFamily::PACKET, SocketType::RAW, None),
        "raw" => socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP)),
        "ping" => socket(AddressFamily::INET, SocketType::DGRAM, Some(ipproto::ICMP)),
        "sctp" => socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::SCTP)),
        _ => panic!("no such family: {family}"),
    };
    errno(result.map(drop))
}

/// Runs this program again, with a question for it.
fn run_program(question: &str) -> String {
    let output = std::process::Command::new("/probe")
        .args(["probe", &question.replace(':', "=")])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, answer) = text.trim().split_once(" -> ").unwrap();
    answer.into()
}
