//! Connections of TLS: the name is read from the first message, and all of it is passed on as it is.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use skep_types::HostName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;

use super::HELLO_TIMEOUT;
use super::desk::Desk;
use crate::client_hello::{self, Hello};
use crate::message::{Ended, Refusal};

/// Bytes that a connection holds in each direction.
const BUFFER: usize = 16 * 1024;
/// Time for a client to hear that it is refused.
const LINGER: Duration = Duration::from_secs(1);

/// Alerts of TLS, by which a client's library tells its user something.
const ACCESS_DENIED: u8 = 49;
const INTERNAL_ERROR: u8 = 80;
const UNRECOGNIZED_NAME: u8 = 112;

/// Passes a connection on to the host that it names.
pub(super) async fn serve(mut stream: TcpStream, desk: Arc<Desk>, port: u16) {
    let mut said = Vec::new();
    let read = tokio::time::timeout(HELLO_TIMEOUT, read_name(&mut stream, &mut said)).await;
    let named = match read {
        Ok(Ok(named)) => named,
        // Nothing was asked for, and nobody is left to be told.
        Ok(Err(_)) => return,
        Err(_) => Err(Refusal::NotUnderstood),
    };
    let host = named.as_ref().ok().map(HostName::to_string);
    let mut ended = Ended {
        host,
        port,
        ..Ended::default()
    };
    let upstream = match named {
        Ok(name) => desk.ask(&name, port).await,
        Err(refusal) => Err(refusal),
    };
    let mut upstream = match upstream {
        Ok(upstream) => upstream,
        Err(refusal) => {
            ended.refusal = Some(refusal);
            desk.note(ended);
            refuse(stream, refusal).await;
            return;
        }
    };
    ended.rule = Some(upstream.rule.clone());
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
        Refusal::NoAnswer | Refusal::TooMany | Refusal::BrokenOff => INTERNAL_ERROR,
        Refusal::NotAllowed
        | Refusal::NoName
        | Refusal::EncryptedName
        | Refusal::NotUnderstood
        | Refusal::Tunnel
        | Refusal::TwoNames => ACCESS_DENIED,
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
