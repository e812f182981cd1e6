//! The world outside: a host that speaks TLS, and the resolver that knows its address.

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{DNS, TLS, tls};

/// Bytes of a body that are written at a time.
const PIECE: usize = 64 << 10;

/// Serves until it is killed. `ready` is called when all is listened at.
pub(super) async fn serve(
    address: Ipv4Addr,
    certificate: &Path,
    key: &Path,
    ready: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let acceptor = TlsAcceptor::from(tls::server(certificate, key)?);
    let resolver = UdpSocket::bind((address, DNS)).await?;
    let listener = TcpListener::bind((address, TLS)).await?;
    ready()?;
    let accepting = async {
        let mut served = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await?;
            let acceptor = acceptor.clone();
            served.spawn(be_host(acceptor, stream));
            // A client that went away early is its own business.
            while served.try_join_next().is_some() {}
        }
    };
    tokio::select! {
        ended = accepting => ended,
        ended = resolve(resolver, address) => ended,
    }
}

async fn be_host(acceptor: TlsAcceptor, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    speak(BufReader::new(acceptor.accept(stream).await?)).await
}

/// Answers `GET /N` with so many bytes, again and again.
async fn speak(mut stream: BufReader<impl AsyncRead + AsyncWrite + Unpin>) -> io::Result<()> {
    let piece = vec![0; PIECE];
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let path = head
            .split(' ')
            .nth(1)
            .and_then(|path| path.strip_prefix('/'));
        let mut rest: usize = path.and_then(|path| path.parse().ok()).unwrap_or_default();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {rest}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        while rest > 0 {
            let now = rest.min(PIECE);
            stream.write_all(&piece[..now]).await?;
            rest -= now;
        }
        stream.flush().await?;
    }
}

/// Says of every name that it is at `address`.
async fn resolve(socket: UdpSocket, address: Ipv4Addr) -> io::Result<()> {
    let mut question = [0; 512];
    loop {
        let (length, client) = socket.recv_from(&mut question).await?;
        if let Some(answer) = answer(&question[..length], address) {
            socket.send_to(&answer, client).await?;
        }
    }
}

/// The answer to a question of one name: the address, or nothing if it is for another kind of
/// record.
fn answer(question: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    const HEAD: usize = 12;
    /// The name of the question, a record of an address in the Internet, a minute, four bytes.
    const RECORD: [u8; 12] = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4];
    let name = question.get(HEAD..)?;
    let mut end = 0;
    while *name.get(end)? != 0 {
        end += usize::from(name[end]) + 1;
    }
    // Behind the name are two bytes of its kind and two of its class.
    let asked = name.get(..end + 5)?;
    let is_address = asked[end + 1..] == [0, 1, 0, 1];
    // An answer without recursion: one question, one record or none.
    let mut said = [
        &question[..2],
        &[0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0],
    ]
    .concat();
    said.extend_from_slice(asked);
    if is_address {
        said.extend_from_slice(&RECORD);
        said.extend_from_slice(&address.octets());
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A question for a name of two words.
    fn question(kind: u8) -> Vec<u8> {
        let mut bytes = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(b"\x01a\x04test\0");
        bytes.extend_from_slice(&[0, kind, 0, 1]);
        bytes
    }

    #[test]
    fn names_have_one_address_and_nothing_else() {
        let address = Ipv4Addr::new(203, 0, 113, 10);
        let found = answer(&question(1), address).unwrap();
        assert_eq!(found[..8], [7, 9, 0x81, 0x80, 0, 1, 0, 1]);
        assert!(found.ends_with(&[0, 4, 203, 0, 113, 10]));
        let other = answer(&question(28), address).unwrap();
        assert_eq!(other[4..8], [0, 1, 0, 0]);
        assert_eq!(other.len(), question(28).len());
    }

    #[test]
    fn half_a_question_is_not_answered() {
        let whole = question(1);
        for length in 0..whole.len() {
            assert_eq!(answer(&whole[..length], Ipv4Addr::LOCALHOST), None);
        }
    }
}
