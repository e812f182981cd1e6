//! The process of a sandbox: reads what the sandbox sends, and passes on what the server lets it.

mod desk;
mod inside;
mod protocol;
mod tls;
mod unread;
mod upstream;
mod web;

use std::ffi::OsString;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_launch::{RelayLimits, confine_relay};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::channel::{Channel, OF_CONNECTIONS};
use crate::sender;
use desk::{Desk, Destination};
use protocol::Protocol;

/// First argument of such a process.
pub const EGRESS_PROXY: &str = "egress-proxy";

/// Connections that a sandbox may have at a time. Others wait until one of these is over.
pub(crate) const MOST_CONNECTIONS: usize = 512;
/// The largest head of a request or an answer.
pub(crate) const HEAD_BYTES: usize = 32 * 1024;
/// Ports at which nothing else is spoken.
const WEB: u16 = 80;
const TLS: u16 = 443;
/// Time limit for a client to say which host it wants.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which a client that says nothing is taken for one that is spoken to first, at ports at which
/// that is usual.
const QUIET: Duration = Duration::from_millis(500);

/// Two descriptors for each connection, and a few of its own.
const OPEN_FILES: u64 = 2 * MOST_CONNECTIONS as u64 + 32;
/// Address space. The heap is far below: each connection has two buffers.
const MEMORY: u64 = 1 << 30;

/// The terms under which a process works.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// User id that it takes on, which nobody else has.
    pub(crate) user: u32,
    pub(crate) part: Part,
}

/// The part that a process has.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Part {
    /// Reads what the sandbox at this address sends, the only one that is served.
    Reader { sandbox: Ipv4Addr },
    /// Speaks with hosts, where requests get headers on the way.
    Sender,
}

/// Serves a sandbox, whose connections arrive at the standard output. The server is at the standard
/// input; the process ends with it.
///
/// The process is confined before it reads a byte, which takes root and a process without other
/// threads.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let terms = arguments
        .next()
        .and_then(|text| serde_json::from_str::<Terms>(text.to_str()?).ok());
    match terms
        .ok_or(io::ErrorKind::InvalidInput.into())
        .and_then(|terms| match terms.part {
            Part::Reader { sandbox } => serve(terms.user, sandbox),
            Part::Sender => sender::serve(terms.user),
        }) {
        Ok(()) => ExitCode::SUCCESS,
        // The server sees that it has ended; there is nobody else to tell.
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve(user: u32, sandbox: Ipv4Addr) -> io::Result<()> {
    // The server starts programs without any code between fork and exec, and so has no other place
    // for the two.
    let channel = io::stdin().as_fd().try_clone_to_owned()?;
    let listener = io::stdout().as_fd().try_clone_to_owned()?;
    // It makes sockets for itself, and no thread.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    confine_relay(RelayLimits {
        user,
        memory: MEMORY,
        open_files: OPEN_FILES,
    })
    .map_err(io::Error::other)?;
    runtime.block_on(async {
        let channel = Arc::new(Channel::new(channel, OF_CONNECTIONS)?);
        let desk = Desk::new(Arc::clone(&channel));
        let listener = TcpListener::from_std(listener.into())?;
        tokio::select! {
            () = accept(&listener, &desk, sandbox) => Ok(()),
            ended = desk.hear() => ended,
            ended = desk.tell() => ended,
        }
    })
}

async fn accept(listener: &TcpListener, desk: &Arc<Desk>, sandbox: Ipv4Addr) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let place = Arc::clone(&places)
            .acquire_owned()
            .await
            .expect("nobody closes the semaphore");
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The client has gone again, or there is no descriptor at this moment.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // The packet filter leads nobody else here; this is the second lock.
        if client.ip() != sandbox {
            continue;
        }
        let desk = Arc::clone(desk);
        drop(skep_telemetry::spawn(
            "connection",
            converse(stream, desk, Arc::new(place)),
        ));
    }
}

/// Serves a connection, which has its place until it ends.
async fn converse(mut stream: TcpStream, desk: Arc<Desk>, place: Arc<OwnedSemaphorePermit>) {
    // What the client wanted to reach, before the packet filter led it here.
    let Ok(meant) = rustix::net::sockopt::ip_original_dst(&stream) else {
        return;
    };
    let aim = Destination {
        host: None,
        address: *meant.ip(),
        port: meant.port(),
    };
    let protocol = match aim.port {
        WEB => Protocol::Requests,
        TLS => Protocol::Tls,
        _ => match first_said(&stream, QUIET).await {
            Protocol::Other => {
                let Some(back) = unread::serve(stream, &desk, &aim).await else {
                    return;
                };
                stream = back;
                first_said(&stream, HELLO_TIMEOUT).await
            }
            spoken @ (Protocol::Tls | Protocol::Requests) => spoken,
        },
    };
    match protocol {
        Protocol::Tls => tls::serve(stream, desk, aim, place).await,
        // What is no request is refused there.
        Protocol::Requests | Protocol::Other => web::serve(stream, desk, aim, place).await,
    }
}

/// The protocol of a client, once it has said something or the time is over.
async fn first_said(stream: &TcpStream, limit: Duration) -> Protocol {
    let mut first = [0; protocol::ENOUGH];
    match tokio::time::timeout(limit, stream.peek(&mut first)).await {
        Ok(Ok(length)) => Protocol::of(&first[..length]),
        Ok(Err(_)) | Err(_) => Protocol::Other,
    }
}
