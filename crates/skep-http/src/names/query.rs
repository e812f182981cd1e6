//! Questions to resolvers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::settings::Settings;

/// Longest answer over UDP to a question that offers no more.
const LONGEST_UDP: usize = 512;

/// Outcome of the question for a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Its addresses, those of IPv4 first.
    Addresses(Vec<IpAddr>),
    /// There is no such name, or it has no address.
    None,
    /// Nobody answered.
    Silence,
    /// Nobody can be asked for such a name.
    Malformed,
}

/// Asks for the addresses of one whole name.
pub(super) async fn ask(name: &str, settings: &Settings) -> Answer {
    let Ok(name) = Name::from_utf8(name) else {
        return Answer::Malformed;
    };
    let (old, new) = tokio::join!(
        records(&name, RecordType::A, settings),
        records(&name, RecordType::AAAA, settings)
    );
    let is_silent = old.is_none() && new.is_none();
    let addresses: Vec<_> = [old, new].into_iter().flatten().flatten().collect();
    match (addresses.is_empty(), is_silent) {
        (false, _) => Answer::Addresses(addresses),
        (true, false) => Answer::None,
        (true, true) => Answer::Silence,
    }
}

/// The addresses of one kind; `None` if no resolver says anything about them.
async fn records(name: &Name, kind: RecordType, settings: &Settings) -> Option<Vec<IpAddr>> {
    let query = Query::query(name.clone(), kind);
    for _ in 0..settings.attempts {
        for resolver in &settings.resolvers {
            if let Ok(Ok(answer)) = timeout(settings.timeout, exchange(*resolver, &query)).await
                && let Some(addresses) = addresses(&answer)
            {
                return Some(addresses);
            }
        }
    }
    None
}

/// The addresses in an answer; `None` if the resolver could not find out.
fn addresses(answer: &Message) -> Option<Vec<IpAddr>> {
    let code = answer.metadata.response_code;
    if ![ResponseCode::NoError, ResponseCode::NXDomain].contains(&code) {
        return None;
    }
    // Other names in it are those that the name stands for, and the resolver has followed them.
    #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign list that grows")]
    let address = |data: &RData| match data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    };
    let records = answer.answers.iter();
    Some(records.filter_map(|record| address(&record.data)).collect())
}

async fn exchange(resolver: SocketAddr, query: &Query) -> io::Result<Message> {
    let answer = over_udp(resolver, query).await?;
    if answer.metadata.truncation {
        return over_tcp(resolver, query).await;
    }
    Ok(answer)
}

/// A new socket for each question, so that its port is as hard to guess as its id.
async fn over_udp(resolver: SocketAddr, query: &Query) -> io::Result<Message> {
    let any: IpAddr = if resolver.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(resolver).await?;
    let (id, question) = question(query)?;
    socket.send(&question).await?;
    let mut buffer = [0; LONGEST_UDP];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // What somebody else sent is not the end of the wait.
        if let Some(answer) = answer(id, query, &buffer[..length]) {
            return Ok(answer);
        }
    }
}

async fn over_tcp(resolver: SocketAddr, query: &Query) -> io::Result<Message> {
    let mut stream = TcpStream::connect(resolver).await?;
    let (id, question) = question(query)?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes()[..], &question].concat())
        .await?;
    let length = stream.read_u16().await?;
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await?;
    answer(id, query, &bytes).ok_or_else(|| io::Error::other("an answer to another question"))
}

/// A question under an id that nobody can guess.
fn question(query: &Query) -> io::Result<(u16, Vec<u8>)> {
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    let id = u16::from_be_bytes(id);
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(query.clone());
    let bytes = message.to_vec().map_err(io::Error::other)?;
    Ok((id, bytes))
}

/// Parses bytes that answer this question under this id.
fn answer(id: u16, query: &Query, bytes: &[u8]) -> Option<Message> {
    let answer = Message::from_vec(bytes).ok()?;
    let is_ours = answer.metadata.id == id
        && answer.metadata.message_type == MessageType::Response
        && answer.queries.first() == Some(query);
    is_ours.then_some(answer)
}
