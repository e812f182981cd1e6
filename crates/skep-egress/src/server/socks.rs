//! A client of SOCKS5 (RFC 1928), with user and password (RFC 1929).
//!
//! It runs in the server, beside what is sealed, so it reads as little as there is to read: every answer
//! has a length that its first bytes say, of 262 bytes at most, and nothing beyond it is taken, because
//! the next byte is the host's.

use std::net::Ipv4Addr;

use skep_types::HostName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const VERSION: u8 = 5;
const LOGIN_VERSION: u8 = 1;
const ANONYMOUS: u8 = 0;
const BY_PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
const GRANTED: u8 = 0;
/// Verdict of a proxy whose own rules do not have the target.
const NOT_ALLOWED: u8 = 2;
/// The last of the reasons for which a host is not reached.
const LAST_REASON: u8 = 8;

/// User and password.
#[derive(Clone, Copy)]
pub(super) struct Login<'a> {
    pub(super) username: &'a str,
    pub(super) password: &'a str,
}

/// Destination of a connection through a proxy.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target<'a> {
    /// A host that the proxy looks up.
    Name(&'a HostName),
    Address(Ipv4Addr),
}

/// The reason for which a proxy leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It has hung up.
    BrokenOff,
    /// It says what nobody says in SOCKS5.
    NotUnderstood,
    /// It wants another user or password, or wants them by other means.
    Login,
    /// It does not want to reach the target.
    NotAllowed,
    /// It does not get there.
    NotReached,
}

/// Has a proxy connect to a target. What is read from the stream after that is the target's. It waits
/// for as long as the proxy does.
pub(super) async fn connect<S>(
    stream: &mut S,
    login: Option<Login<'_>>,
    target: Target<'_>,
    port: u16,
) -> Result<(), Fault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let methods: &[u8] = match login {
        Some(_) => &[VERSION, 2, ANONYMOUS, BY_PASSWORD],
        None => &[VERSION, 1, ANONYMOUS],
    };
    say(stream, methods).await?;
    match (read::<2, S>(stream).await?, login) {
        ([VERSION, ANONYMOUS], _) => {}
        ([VERSION, BY_PASSWORD], Some(login)) => log_in(stream, login).await?,
        ([VERSION, NO_METHOD], _) => return Err(Fault::Login),
        (_, _) => return Err(Fault::NotUnderstood),
    }
    say(stream, &request(target, port)?).await?;
    let [version, verdict, _reserved, kind] = read(stream).await?;
    match (version, verdict) {
        (VERSION, GRANTED) => {}
        (VERSION, NOT_ALLOWED) => return Err(Fault::NotAllowed),
        (VERSION, GRANTED..=LAST_REASON) => return Err(Fault::NotReached),
        (_, _) => return Err(Fault::NotUnderstood),
    }
    // The address from which the proxy has connected, which nobody needs.
    match kind {
        IPV4 => {
            read::<6, S>(stream).await?;
        }
        IPV6 => {
            read::<18, S>(stream).await?;
        }
        NAME => {
            let [length] = read(stream).await?;
            let mut rest = [0; u8::MAX as usize + 2];
            let rest = &mut rest[..usize::from(length) + 2];
            let whole = stream.read_exact(rest).await;
            whole.map_err(|_| Fault::BrokenOff)?;
        }
        _ => return Err(Fault::NotUnderstood),
    }
    Ok(())
}

async fn log_in<S>(stream: &mut S, login: Login<'_>) -> Result<(), Fault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut words = vec![LOGIN_VERSION];
    for word in [login.username, login.password] {
        words.push(length(word)?);
        words.extend(word.as_bytes());
    }
    say(stream, &words).await?;
    match read(stream).await? {
        [LOGIN_VERSION, GRANTED] => Ok(()),
        [LOGIN_VERSION, _] => Err(Fault::Login),
        [_, _] => Err(Fault::NotUnderstood),
    }
}

fn request(target: Target<'_>, port: u16) -> Result<Vec<u8>, Fault> {
    let mut request = vec![VERSION, CONNECT, 0];
    match target {
        Target::Name(name) => {
            request.extend([NAME, length(name.as_str())?]);
            request.extend(name.as_str().as_bytes());
        }
        Target::Address(address) => {
            request.push(IPV4);
            request.extend(address.octets());
        }
    }
    request.extend(port.to_be_bytes());
    Ok(request)
}

/// The length of a text that has one byte for it. Names and words that are longer are refused before.
fn length(text: &str) -> Result<u8, Fault> {
    u8::try_from(text.len()).map_err(|_| Fault::NotUnderstood)
}

async fn say<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> Result<(), Fault> {
    let said = stream.write_all(bytes).await;
    said.map_err(|_| Fault::BrokenOff)
}

async fn read<const LENGTH: usize, S>(stream: &mut S) -> Result<[u8; LENGTH], Fault>
where
    S: AsyncRead + Unpin,
{
    let mut bytes = [0; LENGTH];
    let whole = stream.read_exact(&mut bytes).await;
    whole.map_err(|_| Fault::BrokenOff)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
