//! Connections of TLS: the name is read from the first message, and all of it is passed on as it is,
//! unless a rule looks inside.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use skep_types::HostName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::desk::{Desk, Destination, Reached};
use super::{HELLO_TIMEOUT, inside};
use crate::client_hello::{self, Hello};
use crate::message::{Ended, Refusal, Way};

/// Bytes that a connection holds in each direction.
pub(super) const BUFFER: usize = 16 * 1024;
/// Time for a client to hear that it is refused.
const LINGER: Duration = Duration::from_secs(1);

/// Alerts of TLS, by which a client's library tells its user something.
const ACCESS_DENIED: u8 = 49;
const INTERNAL_ERROR: u8 = 80;
const UNRECOGNIZED_NAME: u8 = 112;

/// Passes a connection on to the host that it names, or reads the requests in it, where a rule looks
/// into them.
pub(super) async fn serve(
    mut stream: TcpStream,
    desk: Arc<Desk>,
    mut aim: Destination,
    place: Arc<OwnedSemaphorePermit>,
) {
    let mut said = Vec::new();
    let read = tokio::time::timeout(HELLO_TIMEOUT, read_name(&mut stream, &mut said)).await;
    let named = match read {
        Ok(Ok(named)) => named,
        // Nothing was asked for, and nobody is left to be told.
        Ok(Err(_)) => return,
        Err(_) => Err(Refusal::NotUnderstood),
    };
    aim.host = named.as_ref().ok().cloned();
    let mut ended = Ended {
        host: aim.host.as_ref().map(HostName::to_string),
        port: aim.port,
        ..Ended::default()
    };
    // Without a name it may still be that the address is allowed, whatever is said to it.
    let reached = desk
        .ask(&aim, Way::Opaque)
        .await
        .map_err(|refusal| match named {
            Err(unnamed) if refusal == Refusal::NoName => unnamed,
            Err(_) | Ok(_) => refusal,
        });
    let mut upstream = match reached {
        Ok(Reached::Connected(upstream)) => upstream,
        Ok(Reached::Inspect(Some(leaf))) => {
            inside::serve(stream, said, leaf, desk, aim, place).await;
            return;
        }
        Ok(Reached::Inspect(None)) => return,
        Err(refusal) => {
            ended.refusal = Some(refusal);
            desk.note(ended);
            refuse(stream, refusal).await;
            return;
        }
    };
    ended.rule.clone_from(&upstream.rule);
    let traffic = upstream.traffic();
    let passed = async {
        upstream.write_all(&said).await?;
        drop(said);
        copy_bidirectional_with_sizes(&mut stream, &mut upstream, BUFFER, BUFFER).await
    };
    // However it ended, it is over for both sides, and all that is told of it are the bytes.
    let _over: io::Result<(u64, u64)> = passed.await;
    (ended.sent, ended.received) = traffic.so_far();
    desk.note(ended);
}

/// Reads the first message, and keeps what was read for the host.
async fn read_name(
    stream: &mut TcpStream,
    said: &mut Vec<u8>,
) -> io::Result<Result<HostName, Refusal>> {
    loop {
        if stream.read_buf(said).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        return Ok(match client_hello::read(said) {
            Hello::Unfinished if said.len() <= client_hello::LONGEST => continue,
            Hello::Unfinished | Hello::Invalid => Err(Refusal::NotUnderstood),
            Hello::Nameless => Err(Refusal::NoName),
            Hello::Encrypted => Err(Refusal::EncryptedName),
            Hello::Named(name) => Ok(name),
        });
    }
}

/// Tells a client by an alert that it is refused.
async fn refuse(mut stream: TcpStream, refusal: Refusal) {
    let description = match refusal {
        Refusal::NoAddress => UNRECOGNIZED_NAME,
        Refusal::NoAnswer
        | Refusal::TooMany
        | Refusal::BrokenOff
        | Refusal::Unverified
        | Refusal::UnknownSecret
        | Refusal::UnknownToken
        | Refusal::NoValue
        | Refusal::ProxyNoAddress
        | Refusal::ProxySilent
        | Refusal::ProxyNotUnderstood
        | Refusal::ProxyLogin
        | Refusal::ProxyNotAllowed
        | Refusal::ProxyNoAnswer => INTERNAL_ERROR,
        Refusal::NotAllowed
        | Refusal::NoName
        | Refusal::EncryptedName
        | Refusal::NotUnderstood
        | Refusal::Tunnel
        | Refusal::TwoNames
        | Refusal::NotTrusted
        | Refusal::OtherHost
        | Refusal::RequestNotAllowed
        | Refusal::TooFast
        | Refusal::Spent => ACCESS_DENIED,
    };
    let alert = [21, 3, 3, 0, 2, 2, description];
    let told = async {
        stream.write_all(&alert).await?;
        stream.shutdown().await?;
        // A connection that is closed before its peer's bytes are read is reset, and the alert lost.
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    drop(tokio::time::timeout(LINGER, told).await);
}
