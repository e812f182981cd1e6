//! The client in a sandbox's network: it connects, asks and holds, and says how long that took.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{HOST, TLS, tls};

/// Time limit of one action, which is below that of an answer.
const LIMIT: Duration = Duration::from_secs(85);
/// Longest head of an answer.
const HEAD: usize = 4096;

type Connection = BufReader<TlsStream<TcpStream>>;

/// A client and the connections that it holds.
pub(super) struct Load {
    route: Arc<Route>,
    held: Vec<Connection>,
}

/// The way to the host.
struct Route {
    tls: Arc<ClientConfig>,
    /// Address that it connects to: of the host, or of a proxy that is asked for it.
    at: SocketAddr,
    asks_proxy: bool,
}

impl Load {
    pub(super) fn new(at: SocketAddr, asks_proxy: bool, authority: &Path) -> io::Result<Self> {
        let route = Route {
            tls: tls::client(authority)?,
            at,
            asks_proxy,
        };
        Ok(Self {
            route: Arc::new(route),
            held: Vec::new(),
        })
    }

    /// Does what a line says. Returns the time it took.
    pub(super) async fn act(&mut self, line: &str) -> io::Result<Duration> {
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "it took too long");
        timeout(LIMIT, self.act_in_time(line)).await.map_err(late)?
    }

    async fn act_in_time(&mut self, line: &str) -> io::Result<Duration> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |text: &str| text.parse::<usize>().map_err(io::Error::other);
        match words[..] {
            ["open", count, at_once] => self.open(number(count)?, number(at_once)?).await,
            ["fetch", bytes] => {
                let mut connection = self.route.connect().await?;
                ask(&mut connection, 1).await?;
                timed(ask(&mut connection, number(bytes)?)).await
            }
            ["new"] => {
                let start = Instant::now();
                let mut connection = self.route.connect().await?;
                ask(&mut connection, 1).await?;
                Ok(start.elapsed())
            }
            ["kept", count] => {
                let count = number(count)?;
                let mut connection = self.route.connect().await?;
                ask(&mut connection, 1).await?;
                let start = Instant::now();
                for _ in 0..count {
                    ask(&mut connection, 1).await?;
                }
                Ok(start.elapsed())
            }
            ["hold", count] => {
                let start = Instant::now();
                for _ in 0..number(count)? {
                    let mut connection = self.route.connect().await?;
                    ask(&mut connection, 1).await?;
                    self.held.push(connection);
                }
                Ok(start.elapsed())
            }
            _ => Err(io::Error::other(format!("unknown action `{line}`"))),
        }
    }

    /// Opens so many connections, some of them at a time, each for one request.
    async fn open(&self, count: usize, at_once: usize) -> io::Result<Duration> {
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for number in 0..at_once {
            let route = Arc::clone(&self.route);
            let share = count / at_once + usize::from(number < count % at_once);
            tasks.spawn(async move {
                for _ in 0..share {
                    let mut connection = route.connect().await?;
                    ask(&mut connection, 1).await?;
                }
                io::Result::Ok(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(io::Error::other)??;
        }
        Ok(start.elapsed())
    }
}

impl Route {
    async fn connect(&self) -> io::Result<Connection> {
        let stream = TcpStream::connect(self.at).await?;
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        if self.asks_proxy {
            let asked = format!("CONNECT {HOST}:{TLS} HTTP/1.1\r\nHost: {HOST}:{TLS}\r\n\r\n");
            stream.write_all(asked.as_bytes()).await?;
            read_head(&mut stream).await?;
        }
        let name = ServerName::try_from(HOST).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        // A host does not speak first in TLS, so nothing is left in the buffer.
        let stream = connector.connect(name, stream.into_inner()).await?;
        Ok(BufReader::new(stream))
    }
}

async fn timed(work: impl Future<Output = io::Result<()>>) -> io::Result<Duration> {
    let start = Instant::now();
    work.await?;
    Ok(start.elapsed())
}

/// Asks for so many bytes and reads them.
async fn ask(connection: &mut Connection, bytes: usize) -> io::Result<()> {
    let asked = format!("GET /{bytes} HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    connection.write_all(asked.as_bytes()).await?;
    connection.flush().await?;
    read_head(connection).await?;
    let mut body = connection.take(bytes as u64);
    let came = tokio::io::copy(&mut body, &mut tokio::io::sink()).await?;
    if came == bytes as u64 {
        return Ok(());
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// Reads the head of an answer, which has to be a good one.
async fn read_head(stream: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> io::Result<()> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await? == 0 || head.len() > HEAD {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    if head.split(' ').nth(1) == Some("200") {
        return Ok(());
    }
    let first = head.lines().next().unwrap_or_default();
    Err(io::Error::other(format!("it is answered `{first}`")))
}
