//! The server's side: starts the process of a sandbox, judges the names that it has read, connects,
//! and hands the connections over.

mod dial;
mod live;
mod log;
mod starter;

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use skep_telemetry::{Chain, Tasks};
use skep_types::HostName;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::channel::Channel;
use crate::message::{Connection, FromProxy, ToProxy};
use crate::process::Terms;
use live::Live;
pub use log::RequestLog;
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
    /// Nobody has answered.
    Failed,
}

/// The policy of a sandbox, as it is in force at the moment.
pub trait Gate: Send + Sync + 'static {
    /// The rule that allows a host at a port, in its owner's words.
    fn rule_for(&self, host: &HostName, port: u16) -> Option<String>;

    /// Addresses of a host, without those that no sandbox reaches.
    fn look_up<'a>(&'a self, host: &'a HostName) -> BoxFuture<'a, Lookup>;

    /// Returns true if a connection to this address of a host that is there may stay.
    fn may_stay(&self, host: &HostName, port: u16, address: Ipv4Addr) -> bool;
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
        let keeper = Keeper {
            program,
            listener: seat.listener.into(),
            terms: Terms {
                user: seat.user,
                sandbox: seat.sandbox,
            },
            live: Arc::clone(&proxy.live),
            log,
            stop: proxy.stop.clone(),
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

/// Whoever sees to it that there is a process.
struct Keeper {
    program: Program,
    listener: OwnedFd,
    terms: Terms,
    live: Arc<Live>,
    log: Arc<RequestLog>,
    stop: CancellationToken,
}

impl Keeper {
    async fn keep(self) {
        loop {
            let ended = tokio::select! {
                () = self.stop.cancelled() => break,
                ended = self.once() => ended,
            };
            self.live.clear();
            match ended {
                Ok(()) => {
                    tracing::warn!("the egress proxy of a sandbox has ended; it is started again")
                }
                Err(error) => {
                    tracing::error!(error = %Chain(&error), "the egress proxy of a sandbox has failed");
                }
            }
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = tokio::time::sleep(RESTART) => {}
            }
        }
        self.live.clear();
    }

    /// One process, from its start to its end.
    async fn once(&self) -> io::Result<()> {
        let (ours, theirs) = crate::channel::pair()?;
        let listener = self.listener.as_fd().try_clone_to_owned()?;
        let terms = serde_json::to_string(&self.terms)?;
        let process = self.program.start(terms, theirs, listener).await?;
        let channel = Arc::new(Channel::new(ours)?);
        let heard = self.hear(&channel).await;
        drop(process);
        heard
    }

    async fn hear(&self, channel: &Arc<Channel>) -> io::Result<()> {
        let dials = Arc::new(Semaphore::new(DIALS));
        while let Some((message, _nothing)) = channel.receive::<FromProxy>().await? {
            match message {
                FromProxy::Dial {
                    connection,
                    host,
                    port,
                } => {
                    let turn = Arc::clone(&dials).acquire_owned().await;
                    let turn = turn.expect("nobody closes the semaphore");
                    let (live, channel) = (Arc::clone(&self.live), Arc::clone(channel));
                    let asked = (live.process(), connection);
                    drop(skep_telemetry::spawn("dial a host", async move {
                        answer(&live, &channel, asked, &host, port).await;
                        drop(turn);
                    }));
                }
                FromProxy::Done { connection } => self.live.remove(connection),
                FromProxy::Ended(ended) => self.log.add(ended),
            }
        }
        Ok(())
    }
}

/// Answers the question for a host.
async fn answer(live: &Live, channel: &Channel, asked: (u64, Connection), host: &str, port: u16) {
    let reached = dial::reach(live, asked, host, port).await;
    let (_, connection) = asked;
    let sent = match &reached {
        Ok((socket, rule)) => {
            let rule = rule.clone();
            let message = ToProxy::Connected { connection, rule };
            channel.send(&message, Some(socket.as_fd())).await
        }
        Err(refusal) => {
            let refusal = *refusal;
            let message = ToProxy::Refused {
                connection,
                refusal,
            };
            channel.send(&message, None).await
        }
    };
    if let Err(error) = sent {
        // The process is gone, and with it whoever has asked.
        tracing::debug!(%error, "an answer to the egress proxy is not delivered");
    }
}
