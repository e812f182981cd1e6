//! The world outside: a namespace that answers as every address there is.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

use hickory_proto::op::Message;
use hickory_proto::rr::rdata::{A, CNAME};
use hickory_proto::rr::{Name, RData, Record};
use parking_lot::Mutex;
use rustix::thread::UnshareFlags;

/// The first argument that makes this executable the world.
pub(crate) const ROLE: &str = "world";
/// Address of the resolver of sandboxes.
pub(crate) const RESOLVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 53), 53);
/// The host's own address towards the world.
pub(crate) const MACHINE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 0);
/// One that only the operator's machines are to ask.
const PRIVATE_RESOLVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 53);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 80);
/// Port at which every address of this world answers.
const WEB: u16 = 80;
/// Remembers from whom a word came, and tells it to whoever asks over TCP.
const WITNESS: u16 = 7;
const LINK: &str = "uplink";

/// The world, which ends with this value.
#[derive(Debug)]
pub(crate) struct World(Child);

impl World {
    /// Makes the world and the only way to it. The caller is in a network namespace of its own.
    pub(crate) fn new() -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .arg(ROLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut hear = |expected: &str| {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            assert_eq!(line.trim(), expected);
        };
        hear("apart");
        let id = process.id().to_string();
        let (machine, gateway) = (MACHINE.to_string(), GATEWAY.to_string());
        ip(&["link", "set", "lo", "up"]);
        ip(&[
            "link", "add", LINK, "type", "veth", "peer", "name", LINK, "netns", &id,
        ]);
        ip(&["addr", "add", &machine, "peer", &gateway, "dev", LINK]);
        ip(&["link", "set", LINK, "up"]);
        ip(&["route", "add", "default", "via", &gateway]);
        process.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        hear("turning");
        Self(process)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {arguments:?}: {output:?}");
}

fn say(word: &str) {
    let mut out = std::io::stdout();
    out.write_all(format!("{word}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// The world's side. It ends with its parent: nobody else holds its standard input.
pub(crate) fn run() -> ExitCode {
    skep_linux::leave_namespaces(UnshareFlags::NEWNET).unwrap();
    say("apart");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let (machine, gateway) = (MACHINE.to_string(), GATEWAY.to_string());
    ip(&["link", "set", "lo", "up"]);
    ip(&["addr", "add", &gateway, "peer", &machine, "dev", LINK]);
    ip(&["link", "set", LINK, "up"]);
    // Every other address is this namespace itself, and may be heard from all the same.
    let heard = format!("/proc/sys/net/ipv4/conf/{LINK}/accept_local");
    std::fs::write(heard, "1").unwrap();
    ip(&[
        "route", "add", "local", "default", "dev", "lo", "table", "main",
    ]);
    let seen = Arc::new(Mutex::new(HashMap::new()));
    let everywhere = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let web = TcpListener::bind(everywhere(WEB)).unwrap();
    let witness = TcpListener::bind(everywhere(WITNESS)).unwrap();
    let words = UdpSocket::bind(everywhere(WITNESS)).unwrap();
    let names_over_tcp = TcpListener::bind(everywhere(RESOLVER.port())).unwrap();
    std::thread::spawn(move || web.incoming().flatten().for_each(greet));
    let told = Arc::clone(&seen);
    std::thread::spawn(move || witness.incoming().flatten().for_each(|s| tell(s, &told)));
    std::thread::spawn(move || remember(&words, &seen));
    for address in [*RESOLVER.ip(), PRIVATE_RESOLVER] {
        // Bound to its address, so that it answers from there.
        let names = UdpSocket::bind((address, RESOLVER.port())).unwrap();
        std::thread::spawn(move || resolve(&names));
    }
    std::thread::spawn(move || {
        names_over_tcp
            .incoming()
            .flatten()
            .for_each(resolve_over_tcp)
    });
    say("turning");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    ExitCode::SUCCESS
}

/// A client that goes away early is its own business.
fn greet(mut stream: TcpStream) {
    let (Ok(here), Ok(there)) = (stream.local_addr(), stream.peer_addr()) else {
        return;
    };
    let text = format!("I am {} and you are {}\n", here.ip(), there.ip());
    stream.write_all(text.as_bytes()).ok();
}

type Seen = Mutex<HashMap<String, String>>;

fn remember(words: &UdpSocket, seen: &Seen) {
    let mut buffer = [0; 512];
    loop {
        let (length, sender) = words.recv_from(&mut buffer).unwrap();
        let word = String::from_utf8_lossy(&buffer[..length]).into_owned();
        seen.lock().insert(word, sender.ip().to_string());
    }
}

fn tell(stream: TcpStream, seen: &Seen) {
    let mut word = String::new();
    BufReader::new(&stream).read_line(&mut word).ok();
    let sender = seen.lock().get(word.trim()).cloned();
    let answer = sender.unwrap_or_else(|| "nobody".into());
    (&stream).write_all(answer.as_bytes()).ok();
}

fn resolve(socket: &UdpSocket) {
    let mut buffer = [0; 4096];
    loop {
        let (length, client) = socket.recv_from(&mut buffer).unwrap();
        if let Some(bytes) = answer(&buffer[..length]) {
            socket.send_to(&bytes, client).ok();
        }
    }
}

fn resolve_over_tcp(mut stream: TcpStream) {
    let mut length = [0; 2];
    if stream.read_exact(&mut length).is_err() {
        return;
    }
    let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
    if stream.read_exact(&mut question).is_err() {
        return;
    }
    if let Some(bytes) = answer(&question) {
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        stream.write_all(&[&length[..], &bytes].concat()).ok();
    }
}

/// Names say what they point to: `a-10-0-0-1.mixed.test.` has a public address and 10.0.0.1.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    let question = Message::from_vec(question).ok()?;
    let name = question.queries.first()?.name().clone();
    let text = name.to_ascii();
    let (address, kind) = text.strip_prefix("a-")?.split_once('.')?;
    let address: Ipv4Addr = address.replace('-', ".").parse().ok()?;
    let mut message = question.into_response();
    let mut add = |name: &Name, data| {
        message.add_answer(Record::from_rdata(name.clone(), 0, data));
    };
    match kind {
        "direct.test." => add(&name, RData::A(A(address))),
        "mixed.test." => {
            add(&name, RData::A(A(PUBLIC)));
            add(&name, RData::A(A(address)));
        }
        "alias.test." => {
            let other = Name::from_ascii("elsewhere.test.").ok()?;
            add(&name, RData::CNAME(CNAME(other.clone())));
            add(&other, RData::A(A(address)));
        }
        "rebinding.test." => {
            // A different answer every time: public first.
            static ASKED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
            let asked = ASKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let now = if asked.is_multiple_of(2) {
                PUBLIC
            } else {
                address
            };
            add(&name, RData::A(A(now)));
        }
        _ => return None,
    }
    message.to_vec().ok()
}
