//! A registry that says what a test wants, to the byte.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use skep_telemetry::Tasks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// An answer, to the byte, and whether it waits for the gate before its last byte.
#[derive(Clone)]
pub(crate) struct Answer {
    bytes: Vec<u8>,
    waits: bool,
}

/// A registry on a port of this machine. It ends with this value.
pub(crate) struct Registry {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    _tasks: Tasks,
}

struct State {
    answers: Mutex<HashMap<String, Answer>>,
    /// Heads of requests, as they came.
    heads: Mutex<Vec<String>>,
    gate: watch::Sender<bool>,
}

impl Answer {
    pub(crate) fn ok(kind: &str, body: impl AsRef<[u8]>) -> Self {
        Self::with(200, &[("content-type", kind)], body)
    }

    pub(crate) fn with(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        Self::announcing(status, headers, body.len(), body)
    }

    /// An answer that announces another length than it has.
    pub(crate) fn announcing(
        status: u16,
        headers: &[(&str, &str)],
        length: usize,
        body: impl AsRef<[u8]>,
    ) -> Self {
        let mut head =
            format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let bytes = [head.as_bytes(), body.as_ref()].concat();
        Self {
            bytes,
            waits: false,
        }
    }

    /// The same, of which the last byte waits for [`Registry::open_gate`].
    pub(crate) fn waiting(mut self) -> Self {
        self.waits = true;
        self
    }
}

impl Registry {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            answers: Mutex::default(),
            heads: Mutex::default(),
            gate: watch::channel(false).0,
        });
        let tasks = Tasks::default();
        let (own, serving) = (tasks.clone(), Arc::clone(&state));
        tasks.spawn("registry", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&serving);
                own.spawn("answer", async move { answer(stream, &state).await });
            }
        });
        Self {
            address,
            state,
            _tasks: tasks,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn put(&self, path: &str, answer: Answer) {
        self.state.answers.lock().insert(path.to_owned(), answer);
    }

    pub(crate) fn open_gate(&self) {
        self.state.gate.send_replace(true);
    }

    /// Number of requests for a path.
    pub(crate) fn asked(&self, path: &str) -> usize {
        let line = format!("GET {path} HTTP/1.1\r\n");
        let heads = self.state.heads.lock();
        heads.iter().filter(|head| head.starts_with(&line)).count()
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.state.heads.lock().clone()
    }
}

async fn answer(mut stream: TcpStream, state: &State) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    state.heads.lock().push(head);
    let known = state.answers.lock().get(&path).cloned();
    let answer = known.unwrap_or_else(|| Answer::with(404, &[], "no such thing"));
    let until = answer.bytes.len() - usize::from(answer.waits);
    let (first, last) = answer.bytes.split_at(until);
    // A client that has had enough is its own affair.
    stream.write_all(first).await.ok();
    if answer.waits {
        state.gate.subscribe().wait_for(|open| *open).await.unwrap();
        stream.write_all(last).await.ok();
    }
}
