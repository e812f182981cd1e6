//! Asking the host's resolvers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hickory_proto::op::Message;
use skep_types::random_bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use super::LONGEST_UDP;
use super::answer::Question;

/// Time limit for one resolver before the next is asked.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Transport that a query came over and is passed on over: TCP is asked for when UDP was too small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Udp,
    Tcp,
}

/// The host's resolvers, in the order in which they are asked.
#[derive(Debug)]
pub(super) struct Upstreams(Vec<SocketAddr>);

impl Upstreams {
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Self {
        Self(addresses)
    }

    /// The first answer that any resolver gives; `None` if none does in its time.
    pub(super) async fn ask(&self, question: &Question, way: Way) -> Option<Message> {
        for address in &self.0 {
            let asked = async {
                match way {
                    Way::Udp => over_udp(*address, question).await,
                    Way::Tcp => over_tcp(*address, question).await,
                }
            };
            match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
                Ok(Ok(answer)) => return Some(answer),
                Ok(Err(error)) => tracing::debug!(%address, %error, "resolver failed"),
                Err(_) => tracing::debug!(%address, "resolver did not answer"),
            }
        }
        None
    }
}

/// A new socket for each question, so that its port is as hard to guess as its id.
async fn over_udp(address: SocketAddr, question: &Question) -> io::Result<Message> {
    let local = if address.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let socket = UdpSocket::bind(local).await?;
    socket.connect(address).await?;
    let (id, bytes) = numbered(question)?;
    socket.send(&bytes).await?;
    let mut buffer = [0; LONGEST_UDP];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(answer) = question.answered_by(id, &buffer[..length]) {
            return Ok(answer);
        }
    }
}

async fn over_tcp(address: SocketAddr, question: &Question) -> io::Result<Message> {
    let mut stream = TcpStream::connect(address).await?;
    let (id, bytes) = numbered(question)?;
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes()[..], &bytes].concat())
        .await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await?;
    question
        .answered_by(id, &answer)
        .ok_or_else(|| io::Error::other("an answer to another question"))
}

fn numbered(question: &Question) -> io::Result<(u16, Vec<u8>)> {
    let id = u16::from_be_bytes(random_bytes());
    let message = question
        .for_upstream(id)
        .ok_or_else(|| io::Error::other("a question without a name"))?;
    Ok((id, message))
}
