//! The desk at which connections ask the server for hosts.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use skep_types::HostName;
use tokio::sync::{Notify, oneshot};

use super::upstream::{Held, Stream, Upstream};
use crate::channel::Channel;
use crate::message::{Connection, Ended, FromProxy, Leaf, Refusal, ToProxy, Wanted, Way};

/// Ended requests that wait to be told. Beyond that the oldest are forgotten: a sandbox that makes
/// so many has a server that lags behind.
const MOST_UNTOLD: usize = 1024;

type Answer = Result<Said, Refusal>;

/// The server's answer.
enum Said {
    Connected {
        socket: OwnedFd,
        rule: Option<String>,
        is_pipe: bool,
    },
    Inspect(Option<Leaf>),
}

/// Destination of a connection.
#[derive(Debug, Clone)]
pub(super) struct Destination {
    /// Name of the host, if one was read.
    pub(super) host: Option<HostName>,
    /// Address and port that the sandbox has connected to.
    pub(super) address: Ipv4Addr,
    pub(super) port: u16,
}

/// The answer to a question for a host.
pub(super) enum Reached {
    /// It is connected.
    Connected(Upstream),
    /// A rule looks into requests to it. With what the sandbox is shown, where it speaks TLS.
    Inspect(Option<Leaf>),
}

/// The desk at which connections ask the server for hosts.
pub(super) struct Desk {
    channel: Arc<Channel>,
    last: AtomicU64,
    waiting: Mutex<HashMap<Connection, oneshot::Sender<Answer>>>,
    untold: Mutex<Untold>,
    told: Notify,
}

#[derive(Default)]
struct Untold {
    /// Questions and ends of connections, of which there are no more than connections.
    connections: VecDeque<FromProxy>,
    requests: VecDeque<Ended>,
}

impl Desk {
    pub(super) fn new(channel: Arc<Channel>) -> Arc<Self> {
        Arc::new(Self {
            channel,
            last: AtomicU64::new(0),
            waiting: Mutex::default(),
            untold: Mutex::default(),
            told: Notify::new(),
        })
    }

    /// Asks for a host. The server waits for its answer, and gives up in time.
    pub(super) async fn ask(
        self: &Arc<Self>,
        aim: &Destination,
        way: Way,
    ) -> Result<Reached, Refusal> {
        let connection = self.last.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().insert(connection, sender);
        let mut unused = Unused(self, Some(connection));
        self.say(FromProxy::Dial(Wanted {
            connection,
            host: aim.host.as_ref().map(HostName::to_string),
            address: aim.address,
            port: aim.port,
            way,
        }));
        let answer = answer.await.map_err(|_| Refusal::NoAnswer)?;
        let (socket, rule, is_pipe) = match answer.inspect_err(|_| unused.1 = None)? {
            Said::Inspect(leaf) => {
                unused.1 = None;
                return Ok(Reached::Inspect(leaf));
            }
            Said::Connected {
                socket,
                rule,
                is_pipe,
            } => (socket, rule, is_pipe),
        };
        let stream = Stream::new(socket, is_pipe).map_err(|_| Refusal::NoAnswer)?;
        unused.1 = None;
        let held = Held::new(Arc::clone(self), connection);
        Ok(Reached::Connected(Upstream::new(stream, held, rule)))
    }

    /// Tells the server that a connection is over.
    pub(super) fn done(&self, connection: Connection) {
        self.say(FromProxy::Done { connection });
    }

    /// Tells the server of a request that has ended, in a message of bounded size.
    pub(super) fn note(&self, ended: Ended) {
        let ended = ended.shortened();
        let mut untold = self.untold.lock();
        if untold.requests.len() >= MOST_UNTOLD {
            untold.requests.pop_front();
        }
        untold.requests.push_back(ended);
        drop(untold);
        self.told.notify_one();
    }

    fn say(&self, message: FromProxy) {
        self.untold.lock().connections.push_back(message);
        self.told.notify_one();
    }

    /// Tells the server what there is to tell, until it is gone.
    pub(super) async fn tell(&self) -> io::Result<()> {
        loop {
            while let Some(message) = self.next() {
                match self.channel.send(&message, &[]).await {
                    Err(error) if is_too_large(&error) => {}
                    sent => sent?,
                }
            }
            self.told.notified().await;
        }
    }

    fn next(&self) -> Option<FromProxy> {
        let mut untold = self.untold.lock();
        let connection = untold.connections.pop_front();
        connection.or_else(|| untold.requests.pop_front().map(FromProxy::Ended))
    }

    /// Hears the server's answers, until it is gone.
    pub(super) async fn hear(&self) -> io::Result<()> {
        while let Some((message, sockets)) = self.channel.receive::<ToProxy>().await? {
            let (connection, answer) = match message {
                ToProxy::Connected {
                    connection,
                    rule,
                    is_pipe,
                } => {
                    let socket = sockets.into_iter().next();
                    let said = Said::Connected {
                        socket: socket.ok_or(io::ErrorKind::InvalidData)?,
                        rule,
                        is_pipe,
                    };
                    (connection, Ok(said))
                }
                ToProxy::Inspect { connection, leaf } => (connection, Ok(Said::Inspect(leaf))),
                ToProxy::Refused {
                    connection,
                    refusal,
                } => (connection, Err(refusal)),
            };
            let waiting = self.waiting.lock().remove(&connection);
            match waiting {
                Some(waiting) => drop(waiting.send(answer)),
                // Whoever asked has gone, and has told so perhaps before the connection was there.
                None if matches!(answer, Ok(Said::Connected { .. })) => self.done(connection),
                None => {}
            }
        }
        Ok(())
    }
}

/// Returns true if a message was not sent because of its size. Everybody else goes on.
fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
}

/// A connection that was asked for and is not used yet. Who goes before it comes gives it back.
struct Unused<'a>(&'a Arc<Desk>, Option<Connection>);

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.1 {
            self.0.waiting.lock().remove(&connection);
            self.0.done(connection);
        }
    }
}
