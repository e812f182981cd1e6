//! A mirror of the test's registries, and clients of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use skep_mirror::{Access, Metrics, Mirror, MirrorOptions, Registries, Sandboxes};
use skep_types::Redacted;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::registry::Registry;

/// Credentials that every registry is shown.
pub(crate) const LOGIN: &str = "Bearer of-the-operator";

/// Rules of the only sandbox there is.
#[derive(Debug)]
struct Rules(Mutex<Access>);

impl Sandboxes for Rules {
    fn access(&self, _address: Ipv4Addr, _registry: &str) -> Access {
        *self.0.lock()
    }
}

pub(crate) struct Site {
    address: SocketAddr,
    rules: Arc<Rules>,
    mirror: Mirror,
    directory: TempDir,
}

/// An answer of the mirror.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// All that was announced has come.
    pub(crate) is_whole: bool,
}

impl Received {
    /// A file that a client would take. One that fails early is an error, and later a cut connection.
    pub(crate) fn is_file(&self) -> bool {
        self.status == 200 && self.is_whole
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Site {
    /// A mirror that asks for an index whenever it is asked for one.
    pub(crate) async fn of(registry: &Registry) -> Self {
        Self::new(registry, 64 << 20, Duration::ZERO).await
    }

    pub(crate) async fn new(registry: &Registry, cache_bytes: u64, freshness: Duration) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let rules = Arc::new(Rules(Mutex::new(Access::Everything)));
        let at = |path: &str| skep_mirror::Registry {
            url: registry.url(path),
            authorization: Some(Redacted::new(LOGIN.to_owned())),
        };
        let mirror = Mirror::start(MirrorOptions {
            listener,
            registries: Registries {
                pypi: at("/simple/"),
                npm: at("/"),
                debian: at("/debian"),
                debian_security: at("/security"),
            },
            certificates: None,
            directory: directory.path().to_owned(),
            cache_bytes,
            freshness,
            sandboxes: Arc::<Rules>::clone(&rules),
        });
        Self {
            address,
            rules,
            mirror: mirror.await.unwrap(),
            directory,
        }
    }

    pub(crate) fn allow(&self, access: Access) {
        *self.rules.0.lock() = access;
    }

    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        self.mirror.metrics()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of files in the cache, incomplete ones included.
    pub(crate) fn files(&self) -> usize {
        let shelves = std::fs::read_dir(self.directory.path()).unwrap();
        shelves
            .map(|shelf| std::fs::read_dir(shelf.unwrap().path()).unwrap().count())
            .sum()
    }

    pub(crate) async fn get(&self, path: &str) -> Received {
        self.ask(path, &[]).await
    }

    pub(crate) async fn ask(&self, path: &str, headers: &[(&str, &str)]) -> Received {
        let mut stream = self.begin(path, headers).await;
        let mut answer = Vec::new();
        // A connection that is cut may be reset; what came counts.
        stream.read_to_end(&mut answer).await.ok();
        received(&answer)
    }

    /// Sends a request and reads nothing of the answer.
    pub(crate) async fn begin(&self, path: &str, headers: &[(&str, &str)]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut head = format!("GET {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str("host: mirror.test\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        // One that is not let in finds its connection closed.
        stream.write_all(head.as_bytes()).await.ok();
        stream
    }
}

pub(crate) fn received(answer: &[u8]) -> Received {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end else {
        return Received {
            status: 0,
            head: String::from_utf8_lossy(answer).into_owned(),
            body: Vec::new(),
            is_whole: false,
        };
    };
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let body = answer[end + 4..].to_vec();
    let lower = head.to_ascii_lowercase();
    let length: Option<usize> = lower
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map(|length| length.parse().unwrap());
    Received {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        is_whole: length == Some(body.len()),
        head: lower,
        body,
    }
}
