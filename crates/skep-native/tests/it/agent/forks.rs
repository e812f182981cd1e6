//! Asking the server for a kernel, as the real agent does, or as one that is up to no good.

use std::fs::File;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use skep_agent_protocol::fork::{ForkAnswer, ForkRequest, GO, MAX_ANSWER};
use skep_linux::packet::{self, Packet};

use crate::double::QUESTION;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

fn request(uid: u32, question: &str) -> Vec<u8> {
    let request = ForkRequest {
        uid,
        gid: 1000,
        groups: Vec::new(),
        environment: [(QUESTION.to_owned(), question.to_owned())].into(),
        directory: "/".into(),
    };
    serde_json::to_vec(&request).unwrap()
}

fn sealed(content: &[u8]) -> OwnedFd {
    skep_linux::sealed_file("fork-request", content).unwrap()
}

fn exchange(server: &OwnedFd, descriptors: &[std::os::fd::BorrowedFd<'_>]) -> Option<Packet> {
    packet::send(server, b"f", descriptors).ok()?;
    packet::receive(server, MAX_ANSWER, Instant::now() + ANSWER_TIMEOUT)
        .ok()
        .flatten()
}

/// Forks a kernel that answers the question on the connection. `None` if it does.
pub(super) fn ask(server: &OwnedFd, question: &str, stream: &TcpStream) -> Option<String> {
    let null = File::open("/dev/null").unwrap();
    let file = sealed(&request(1000, question));
    let descriptors = [file.as_fd(), null.as_fd(), stream.as_fd(), stream.as_fd()];
    let answer = exchange(server, &descriptors);
    let forked = answer.and_then(
        |answer| match serde_json::from_slice(&answer.bytes).unwrap() {
            ForkAnswer::Forked { .. } => answer.descriptors.into_iter().next(),
            ForkAnswer::Refused => None,
        },
    );
    match forked {
        Some(go) => {
            packet::send(&go, GO, &[]).unwrap();
            None
        }
        None => Some("refused".into()),
    }
}

/// Asks for what cannot be, and says what the answer was.
pub(super) fn nonsense(server: &OwnedFd, kind: &str) -> String {
    let null = File::open("/dev/null").unwrap();
    let unsealed = || {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = rustix::fs::memfd_create("request", flags).unwrap();
        rustix::io::write(&file, &request(1000, "pid")).unwrap();
        file
    };
    let file = match kind {
        "fork-as-root" => sealed(&request(0, "pid")),
        "fork-as-stranger" => sealed(&request(65_536, "pid")),
        "fork-unsealed" => unsealed(),
        _ => sealed(b"{}"),
    };
    let descriptors = [file.as_fd(), null.as_fd(), null.as_fd(), null.as_fd()];
    let descriptors = match kind {
        "fork-nothing" => &descriptors[..1],
        _ => &descriptors[..],
    };
    match exchange(server, descriptors) {
        Some(answer) => match serde_json::from_slice(&answer.bytes).unwrap() {
            ForkAnswer::Forked { .. } => "forked".into(),
            ForkAnswer::Refused => "refused".into(),
        },
        None => "no answer".into(),
    }
}
