//! A user's program: tries something and says what became of it.

mod sockets;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name, RecordType};

/// Time after which something that is not allowed is taken for never happening.
const NEVER: Duration = Duration::from_millis(700);
/// Time between two bytes of somebody who is slow.
const TRICKLE: Duration = Duration::from_millis(250);
/// Time limit for somebody who is there to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let answer = answer(&arguments[0]);
    std::io::stdout().write_all(answer.as_bytes()).unwrap();
    ExitCode::SUCCESS
}

pub(crate) fn answer(question: &str) -> String {
    let (word, argument) = question.split_once('=').unwrap_or((question, ""));
    match word {
        "pid" => std::process::id().to_string(),
        "verify_fork" => verify_fork(),
        "processes" => processes(),
        "rights" => rights(argument.parse().unwrap()),
        "read" => said(fs::read_to_string(argument).map(|text| text.trim().to_owned())),
        "write" => said(fs::write(argument, "written").map(|()| "ok".into())),
        "fill" => fill(argument),
        "memory" => memory(argument.parse().unwrap()),
        "fork" => fork(argument.parse().unwrap()),
        "processor" => processor(argument.parse().unwrap()),
        "wait" => loop {
            std::thread::park();
        },
        "restless" => restless(argument.parse().unwrap()),
        "again" => again(),
        "keep" => keep(),
        "kept" => said(kept()),
        "hold-sockets" => sockets::hold(),
        "sockets-held" => said(sockets::held()),
        "watch" => watch(argument),
        "follow" => follow(),
        "mkdir" => said(fs::create_dir(argument).map(|()| "ok".into())),
        "link" => said(fs::read_link(argument).map(|path| path.display().to_string())),
        "connect" => connect(argument.parse().unwrap()),
        "converse" => converse(argument.parse().unwrap()),
        "say" => {
            let (server, words) = argument.split_once('/').unwrap();
            said(say(server.parse().unwrap(), &hex(words)))
        }
        "silent" => {
            let (server, count) = argument.split_once('/').unwrap();
            silent(server.parse().unwrap(), count.parse().unwrap())
        }
        "trickle" => {
            let (server, words) = argument.split_once('/').unwrap();
            let (count, words) = words.split_once('/').unwrap();
            trickle(server.parse().unwrap(), count.parse().unwrap(), &hex(words))
        }
        "datagram" => datagram(argument.parse().unwrap()),
        "resolve" => {
            let (server, name) = argument.split_once('/').unwrap();
            said(resolve(server.parse().unwrap(), name))
        }
        "questions" => {
            let (server, count) = argument.split_once('/').unwrap();
            said(questions(server.parse().unwrap(), count.parse().unwrap()))
        }
        _ => format!("no such question: {word}"),
    }
}

/// Starts processes that never get far.
#[expect(
    clippy::zombie_processes,
    reason = "they outlive this one, and the first process of the sandbox waits for them"
)]
fn restless(count: usize) -> String {
    for _ in 0..count {
        Command::new("/probe")
            .args(["probe", "again"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
    }
    "ok".into()
}

/// Executes the same again from a process with other threads, which die of it.
fn again() -> String {
    for _ in 0..8 {
        let idle = || loop {
            std::thread::park();
        };
        let thread = std::thread::Builder::new().stack_size(1 << 16);
        thread.spawn(idle).unwrap();
    }
    let mut program = Command::new("/probe");
    said(Err(program.args(["probe", "again"]).exec()))
}

const KEEPER: &str = "/run/lock/keeper";

/// Holds a number, an open file, one that is deleted, and one in memory, and says what is in them
/// to whoever connects.
fn keep() -> ! {
    fs::write("/tmp/open", "0123456789").unwrap();
    fs::write("/tmp/deleted", "deleted").unwrap();
    fs::write("/dev/shm/memory", "memory").unwrap();
    let mut open = fs::File::open("/tmp/open").unwrap();
    let mut deleted = fs::File::open("/tmp/deleted").unwrap();
    fs::remove_file("/tmp/deleted").unwrap();
    let listener = std::os::unix::net::UnixListener::bind(KEEPER).unwrap();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"piped").unwrap();
    let mut count = 0;
    loop {
        let (mut stream, _) = listener.accept().unwrap();
        count += 1;
        let mut digit = [0];
        open.read_exact(&mut digit).unwrap();
        let mut text = String::new();
        std::io::Seek::rewind(&mut deleted).unwrap();
        deleted.read_to_string(&mut text).unwrap();
        let mut piped = [0; 5];
        reader.read_exact(&mut piped).unwrap();
        writer.write_all(&piped).unwrap();
        let memory = fs::read_to_string("/dev/shm/memory").unwrap();
        let (digit, piped) = (char::from(digit[0]), String::from_utf8_lossy(&piped));
        let line = format!("{count} {digit} {text} {memory} {piped}");
        stream.write_all(line.as_bytes()).ok();
    }
}

/// Asks the keeper.
fn kept() -> std::io::Result<String> {
    let mut stream = std::os::unix::net::UnixStream::connect(KEEPER)?;
    let mut line = String::new();
    stream.read_to_string(&mut line)?;
    Ok(line)
}

/// Watches a directory, and copies the names of what is made there to a file.
fn follow() -> ! {
    use rustix::fs::inotify;
    let watching = inotify::init(inotify::CreateFlags::empty()).unwrap();
    inotify::add_watch(&watching, "/tmp/followed", inotify::WatchFlags::CREATE).unwrap();
    fs::write("/tmp/following", "ready").unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watching, &mut buffer);
    loop {
        let event = events.next().unwrap();
        let name = event.file_name().map_or("", |name| name.to_str().unwrap());
        fs::write("/tmp/following", name).unwrap();
    }
}

/// Watches a file, which nobody can find again by its number alone.
fn watch(path: &str) -> ! {
    let watching = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::empty()).unwrap();
    let flags = rustix::fs::inotify::WatchFlags::MODIFY;
    rustix::fs::inotify::add_watch(&watching, path, flags).unwrap();
    fs::write("/tmp/watching", "").unwrap();
    loop {
        std::thread::park();
    }
}

/// Everything by which two processes of a sandbox could be told apart that should be the same.
fn verify_fork() -> String {
    const FIELDS: [&str; 16] = [
        "Umask",
        "Uid",
        "Gid",
        "Groups",
        "PPid",
        "TracerPid",
        "Threads",
        "SigBlk",
        "SigCgt",
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapBnd",
        "CapAmb",
        "NoNewPrivs",
        "Seccomp",
    ];
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let fields = status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| FIELDS.iter().any(|field| name.starts_with(field)));
    let mut lines: Vec<_> = fields
        .map(|(name, value)| format!("{name}: {}", value.trim()))
        .collect();
    for name in [
        "cgroup",
        "ipc",
        "mnt",
        "net",
        "pid",
        "pid_for_children",
        "time",
        "user",
        "uts",
    ] {
        let link = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        lines.push(format!("ns {name} {}", link.display()));
    }
    for name in ["limits", "cgroup", "oom_score_adj", "sessionid"] {
        let text = fs::read_to_string(format!("/proc/self/{name}")).unwrap();
        lines.push(format!("{name} {}", text.trim()));
    }
    for name in ["uid_map", "gid_map"] {
        let text = fs::read_to_string(format!("/proc/self/{name}")).unwrap();
        lines.push(format!("map {name} {}", text.trim()));
    }
    let dumpable = rustix::process::dumpable_behavior().unwrap();
    let session = rustix::process::getsid(None).unwrap() == rustix::process::getpid();
    lines.push(format!("{dumpable:?}, leads its session: {session}"));
    let nice = rustix::process::getpriority_process(None).unwrap();
    lines.push(format!("nice {nice}"));
    let directory = std::env::current_dir().unwrap();
    lines.push(format!("in {}", directory.display()));
    // An ordinary file is no namespace, which only those hear who may ask at all.
    let file = fs::File::open("/proc/self/status").unwrap();
    let entering = rustix::thread::move_into_link_name_space(file.as_fd(), None);
    lines.push(format!("entering {entering:?}"));
    lines.join("\n") + "\n"
}

/// The numbers of all processes that live.
fn processes() -> String {
    let names = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let lives = |number: &u32| {
        let status = fs::read_to_string(format!("/proc/{number}/status"));
        status.is_ok_and(|status| !status.contains("State:\tZ"))
    };
    let mut numbers: Vec<u32> = names
        .filter_map(|name| name.parse().ok())
        .filter(lives)
        .collect();
    numbers.sort_unstable();
    let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
    numbers.join(" ")
}

/// Looks at all processes that come until so many have been seen, and says what one of them had
/// that this one does not have.
fn rights(count: usize) -> String {
    const SEARCH_TIMEOUT: Duration = Duration::from_secs(25);
    let field = |status: &str, name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let bounds = field(&own, "CapBnd:").unwrap();
    let before: BTreeSet<String> = numbers().collect();
    let mut seen = BTreeSet::new();
    let start = Instant::now();
    while seen.len() < count && start.elapsed() < SEARCH_TIMEOUT {
        for number in numbers().filter(|number| !before.contains(number)) {
            let Ok(status) = fs::read_to_string(format!("/proc/{number}/status")) else {
                continue;
            };
            let has = field(&status, "CapPrm:").unwrap_or(0);
            let may = field(&status, "CapBnd:").unwrap_or(0) & !bounds;
            if has | may != 0 {
                return format!("process {number} has {has:x} and may have {may:x}");
            }
            seen.insert(number);
        }
    }
    format!("{} processes without rights", seen.len().min(count))
}

/// The numbers of all processes.
fn numbers() -> impl Iterator<Item = String> {
    let names = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.parse::<u32>().is_ok())
}

fn said(result: std::io::Result<String>) -> String {
    result.unwrap_or_else(|error| format!("error: {:?}", error.kind()))
}

/// Writes until it may not, and says how many whole mebibytes that were and why it ended.
fn fill(path: &str) -> String {
    let mut file = fs::File::create(path).unwrap();
    let block = vec![7; 1 << 20];
    let mut written = 0;
    loop {
        match file.write_all(&block) {
            Ok(()) => written += 1,
            Err(error) => return format!("{written} {:?}", error.kind()),
        }
    }
}

/// Uses so many mebibytes.
fn memory(mebibytes: usize) -> String {
    let mut held = Vec::new();
    for _ in 0..mebibytes {
        held.push(std::hint::black_box(vec![7_u8; 1 << 20]));
    }
    held.len().to_string()
}

/// Starts processes until it may not, and says how many there are.
fn fork(most: usize) -> String {
    let mut children = Vec::new();
    while children.len() < most {
        let mut child = Command::new("/probe");
        // The connection must not stay open for as long as they live.
        child
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match child.args(["probe", "wait"]).spawn() {
            Ok(child) => children.push(child),
            Err(error) => return format!("{} {:?}", children.len(), error.kind()),
        }
    }
    format!("{} no limit", children.len())
}

/// Computes on four threads for so many milliseconds, and says how much time it got.
fn processor(milliseconds: u64) -> String {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    let threads: Vec<_> = (0..4)
        .map(|_| std::thread::spawn(move || while Instant::now() < end {}))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks: Vec<u64> = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse().unwrap())
        .collect();
    (ticks.iter().sum::<u64>() * 10).to_string()
}

/// Connects, and says what the other side calls us.
fn connect(address: SocketAddr) -> String {
    let connected = TcpStream::connect_timeout(&address, NEVER);
    said(connected.and_then(|mut stream| {
        stream.set_read_timeout(Some(NEVER))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }))
}

/// Sends every line of standard input over one connection, and says what comes back of each.
#[expect(clippy::print_stdout, reason = "the answers are for who asked")]
fn converse(address: SocketAddr) -> String {
    let mut stream = match TcpStream::connect_timeout(&address, NEVER) {
        Ok(stream) => stream,
        Err(error) => return said(Err(error)),
    };
    stream.set_read_timeout(Some(NEVER)).unwrap();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let digits = line.strip_prefix("hex:");
        let words = digits.map_or_else(|| line.clone().into_bytes(), hex);
        let mut back = vec![0; words.len()];
        let spoken = stream.write_all(&words);
        let answer = spoken.and_then(|()| stream.read_exact(&mut back));
        let answer = said(answer.map(|()| match digits {
            Some(_) => (back == words).to_string(),
            None => String::from_utf8(back).unwrap(),
        }));
        println!("{answer}");
    }
    String::new()
}

/// Says something, and returns all that comes back until the other side has no more to say.
fn say(address: SocketAddr, words: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, NEVER)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(words)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => heard.extend_from_slice(&buffer[..length]),
            // Cut off after it was answered.
            Err(_) if !heard.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(heard.iter().map(|byte| char::from(*byte)).collect())
}

/// The bytes that digits stand for.
fn hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

/// Opens so many connections, tells how many there are, and says nothing on them until it is killed.
#[expect(clippy::print_stdout, reason = "the number is for who asked")]
fn silent(address: SocketAddr, count: usize) -> String {
    let connect = |_| TcpStream::connect_timeout(&address, ANSWER_TIMEOUT).ok();
    let held: Vec<_> = (0..count).map_while(connect).collect();
    println!("{}", held.len());
    loop {
        std::thread::park();
    }
}

/// Opens so many connections, begins to say something on each, and goes on with a byte after another
/// as long as anybody listens. Tells how many connections are open, whenever that has changed.
#[expect(clippy::print_stdout, reason = "the number is for who asked")]
fn trickle(address: SocketAddr, count: usize, words: &[u8]) -> String {
    let connect = |_| {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT).ok()?;
        stream.write_all(words).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(stream)
    };
    let mut open: Vec<_> = (0..count).map_while(connect).collect();
    let mut told = None;
    loop {
        if told.replace(open.len()) != Some(open.len()) {
            println!("{}", open.len());
        }
        std::thread::park_timeout(TRICKLE);
        open.retain_mut(|stream| {
            is_open(stream.write(b"a")) && is_open(stream.read(&mut [0; 256]))
        });
    }
}

/// Returns true unless that has shown that the other side is gone.
fn is_open(done: std::io::Result<usize>) -> bool {
    match done {
        Ok(count) => count > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

fn datagram(address: SocketAddr) -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(NEVER)).unwrap();
    let mut buffer = [0; 64];
    said(
        socket
            .send_to(b"hello", address)
            .and_then(|_| socket.recv(&mut buffer))
            .map(|length| String::from_utf8_lossy(&buffer[..length]).into_owned()),
    )
}

/// Sends so many questions, each from a port of its own, and waits for no answer.
fn questions(server: SocketAddr, count: u32) -> std::io::Result<String> {
    let mut question = Message::query();
    let name = Name::from_ascii("example.test.").unwrap();
    question.add_query(Query::query(name, RecordType::A));
    let question = question.to_vec().unwrap();
    // A port is free again as soon as its socket is closed: they are taken in turn.
    for port in (0..count).map(|number| u16::try_from(20_000 + number).unwrap()) {
        UdpSocket::bind(("0.0.0.0", port))?.send_to(&question, server)?;
    }
    Ok(count.to_string())
}

fn resolve(server: SocketAddr, name: &str) -> std::io::Result<String> {
    let mut question = Message::query();
    question.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    socket.send_to(&question.to_vec().unwrap(), server)?;
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer)?;
    let answer = Message::from_vec(&buffer[..length]).unwrap();
    let addresses: Vec<_> = answer
        .answers
        .iter()
        .map(|record| record.data.to_string())
        .collect();
    Ok(format!(
        "{:?} {}",
        answer.metadata.response_code,
        addresses.join(" ")
    ))
}
