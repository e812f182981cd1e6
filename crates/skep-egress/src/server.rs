//! The server's side: starts the process of a sandbox, judges the names that it has read, connects,
//! and hands the connections over.

mod dial;
mod judge;
mod leaves;
mod live;
mod log;
mod sender;
mod socks;
mod starter;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use skep_telemetry::{Chain, Tasks};
use skep_types::{EgressProxy, HostName, Redacted, RequestRule, ValueRequest};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::channel::{Channel, OF_CONNECTIONS};
use crate::message::{FromProxy, ToProxy, Wanted};
use crate::process::{Part, Terms};
use crate::{FillError, Inspection};
use dial::Reached;
use judge::Ledger;
use leaves::Leaves;
use live::Live;
pub use log::RequestLog;
use sender::Sender;
pub use starter::Program;

/// Hosts of one sandbox that are resolved and connected to at a time. Others wait.
const DIALS: usize = 64;
/// Time after which a process that has ended is started again.
const RESTART: Duration = Duration::from_secs(1);

/// The answer to a question for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// Addresses that a sandbox may reach, in the order in which they are tried. Perhaps none.
    Found(Vec<Ipv4Addr>),
    /// It is a name of this platform's own, which answers here.
    Here(SocketAddr),
    /// Nobody has answered.
    Failed,
}

/// The policy of a sandbox, as it is in force at the moment.
pub trait Gate: Send + Sync + 'static {
    /// The rule that allows a host at a port, in its owner's words.
    fn rule_for(&self, host: &HostName, port: u16) -> Option<String>;

    /// Returns true if an address may be reached whatever host is there.
    fn reaches(&self, address: Ipv4Addr) -> bool;

    /// Returns true if its owner denies no address.
    fn denies_nothing(&self) -> bool;

    /// The proxy through which everything goes, if its owner has one.
    fn proxy(&self) -> Option<EgressProxy>;

    /// Returns true if the server may connect to an address for a sandbox, whatever its owner says.
    fn may_connect(&self, address: Ipv4Addr) -> bool;

    /// The rule for requests to a host, and the name that it is of.
    fn request_rule(&self, host: &HostName) -> Option<(String, RequestRule)>;

    /// The value of a header, for one request, or the password of the proxy.
    fn fill<'a>(
        &'a self,
        wanted: ValueRequest<'a>,
    ) -> BoxFuture<'a, Result<Redacted<String>, FillError>>;

    /// Addresses of a host, without those that no sandbox reaches.
    fn look_up<'a>(&'a self, host: &'a HostName) -> BoxFuture<'a, Lookup>;

    /// Returns true if a connection to this address that is there may stay. Its host is known if it
    /// was read; its address is not, if a proxy has looked it up.
    fn may_stay(&self, host: Option<&HostName>, port: u16, address: Option<Ipv4Addr>) -> bool;
}

/// The place of a process.
#[derive(Debug)]
pub struct Seat {
    /// Listener to which the packet filter leads the sandbox's connections.
    pub listener: TcpListener,
    /// Address of the sandbox.
    pub sandbox: Ipv4Addr,
    /// User id of the process, which nobody else has.
    pub user: u32,
    /// User id of the process that sends requests, which nobody else has either.
    pub sender_user: u32,
    /// Means to look into requests. Until they are there those that a rule looks into are
    /// refused.
    pub inspection: Arc<OnceLock<Inspection>>,
}

/// The proxy of one sandbox. Its process and all connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    live: Arc<Live>,
    stop: CancellationToken,
}

impl Proxy {
    /// Starts a proxy, and starts its process again whenever that has ended. Connections wait until
    /// it is there.
    ///
    /// # Errors
    ///
    /// If the listener cannot be used.
    pub fn start(
        program: Program,
        seat: Seat,
        gate: Arc<dyn Gate>,
        log: Arc<RequestLog>,
        tasks: &Tasks,
        runtime: &tokio::runtime::Handle,
    ) -> io::Result<Self> {
        let port = seat.listener.local_addr()?.port();
        seat.listener.set_nonblocking(true)?;
        let proxy = Self {
            port,
            live: Arc::new(Live::new(gate)),
            stop: tasks.stopping().child_token(),
        };
        let room = SandboxState {
            program,
            live: Arc::clone(&proxy.live),
            log,
            ledger: Ledger::default(),
            leaves: Leaves::default(),
            inspection: seat.inspection,
            sender: tokio::sync::Mutex::default(),
            sender_user: seat.sender_user,
            stop: proxy.stop.clone(),
        };
        let keeper = Keeper {
            listener: seat.listener.into(),
            terms: Terms {
                user: seat.user,
                part: Part::Reader {
                    sandbox: seat.sandbox,
                },
            },
            room: Arc::new(room),
        };
        let _guard = runtime.enter();
        tasks.spawn("egress proxy", keeper.keep());
        Ok(proxy)
    }

    /// The port of the listener.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns true if it has no connection.
    pub fn is_idle(&self) -> bool {
        self.live.is_empty()
    }

    /// Cuts the connections that the policy in force does not allow any more.
    pub fn cut(&self) {
        self.live.cut();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// State that the processes of a sandbox share on the server's side.
struct SandboxState {
    program: Program,
    live: Arc<Live>,
    log: Arc<RequestLog>,
    ledger: Ledger,
    leaves: Leaves,
    inspection: Arc<OnceLock<Inspection>>,
    /// Held while the process that sends requests is started, so that there is one.
    sender: tokio::sync::Mutex<Sender>,
    sender_user: u32,
    stop: CancellationToken,
}

/// Keeper of a process: it sees to it that there is one.
struct Keeper {
    listener: OwnedFd,
    terms: Terms,
    room: Arc<SandboxState>,
}

impl Keeper {
    async fn keep(self) {
        let room = &self.room;
        loop {
            let ended = tokio::select! {
                () = room.stop.cancelled() => break,
                ended = self.once() => ended,
            };
            self.clear().await;
            match ended {
                Ok(()) => {
                    tracing::warn!("the egress proxy of a sandbox has ended; it is started again")
                }
                Err(error) => {
                    tracing::error!(error = %Chain(&error), "the egress proxy of a sandbox has failed");
                }
            }
            tokio::select! {
                () = room.stop.cancelled() => break,
                () = tokio::time::sleep(RESTART) => {}
            }
        }
        self.clear().await;
    }

    /// Ends what is left of a process.
    async fn clear(&self) {
        self.room.live.clear();
        sender::end(&self.room).await;
    }

    /// One process, from its start to its end.
    async fn once(&self) -> io::Result<()> {
        let (ours, theirs) = crate::channel::pair()?;
        let listener = self.listener.as_fd().try_clone_to_owned()?;
        let terms = serde_json::to_string(&self.terms)?;
        let process = self.room.program.start(terms, theirs, listener).await?;
        let channel = Arc::new(Channel::new(ours, OF_CONNECTIONS)?);
        let heard = self.hear(&channel).await;
        drop(process);
        heard
    }

    async fn hear(&self, channel: &Arc<Channel>) -> io::Result<()> {
        let dials = Arc::new(Semaphore::new(DIALS));
        while let Some((message, _nothing)) = channel.receive::<FromProxy>().await? {
            match message {
                FromProxy::Dial(wanted) => {
                    let turn = Arc::clone(&dials)
                        .acquire_owned()
                        .await
                        .expect("nobody closes the semaphore");
                    let (room, channel) = (Arc::clone(&self.room), Arc::clone(channel));
                    let process = room.live.process();
                    drop(skep_telemetry::spawn("dial a host", async move {
                        answer(&room, &channel, process, wanted).await;
                        drop(turn);
                    }));
                }
                FromProxy::Done { connection } => self.room.live.remove(connection),
                FromProxy::Ended(ended) => self.room.log.add(ended),
            }
        }
        Ok(())
    }
}

/// Answers the question for a host.
async fn answer(room: &Arc<SandboxState>, channel: &Channel, process: u64, wanted: Wanted) {
    let connection = wanted.connection;
    let connected = |rule, is_pipe| ToProxy::Connected {
        connection,
        rule,
        is_pipe,
    };
    let (message, descriptor) = match dial::reach(room, process, wanted).await {
        Ok(Reached::Socket(socket, rule)) => (connected(rule, false), Some(socket)),
        Ok(Reached::Pipe(pipe, rule)) => (connected(rule, true), Some(pipe)),
        Ok(Reached::Inspect(leaf)) => (ToProxy::Inspect { connection, leaf }, None),
        Err(refusal) => {
            let refused = ToProxy::Refused {
                connection,
                refusal,
            };
            (refused, None)
        }
    };
    let descriptors: Vec<_> = descriptor.iter().map(|socket| socket.as_fd()).collect();
    if let Err(error) = channel.send(&message, &descriptors).await {
        // The process is gone, and with it whoever has asked.
        tracing::debug!(%error, "an answer to the egress proxy is not delivered");
    }
}
