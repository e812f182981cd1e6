//! Answers for the names of a domain that exists on this host only.
//!
//! A resolver that asks us for `*.<domain>` finds the proxy. Everything else is refused:
//! this is no resolver, and it is asked from this host alone.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use skep_telemetry::Tasks;
use skep_types::DomainName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The usual port, which is not that of DNS: a host that resolves names has somebody there.
const PORT: u16 = 5354;
/// Time to live of an answer, in seconds: short, because the address is free to change and asking
/// costs nothing.
const TTL: u32 = 60;
/// Limit on connections that are answered at a time; more wait.
const CONNECTIONS: usize = 16;
/// Idle timeout of a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after an error of the socket.
const PAUSE: Duration = Duration::from_millis(50);
/// The largest question we read. Ours are much smaller.
const QUESTION_MAX: usize = 4096;

/// The names below a domain, all of one host.
#[derive(Debug)]
pub struct LocalDns {
    domain: Name,
    addresses: Vec<IpAddr>,
}

/// A domain that cannot be one.
#[derive(Debug, thiserror::Error)]
#[error("`{domain}` is not a domain name")]
pub struct LocalDnsError {
    domain: String,
    source: hickory_proto::ProtoError,
}

impl LocalDns {
    /// Answers with `addresses` for `domain` and everything below it.
    ///
    /// # Errors
    ///
    /// If `domain` is no domain name.
    pub fn new(domain: &str, addresses: Vec<IpAddr>) -> Result<Self, LocalDnsError> {
        let mut name =
            Name::from_ascii(DomainName::new(domain).as_str()).map_err(|source| LocalDnsError {
                domain: domain.to_owned(),
                source,
            })?;
        name.set_fqdn(true);
        Ok(Self {
            domain: name,
            addresses,
        })
    }

    /// The answer to a question, both as on the wire. What is no question gets none.
    pub fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let question = Message::from_vec(question).ok()?;
        if question.metadata.message_type != MessageType::Query {
            return None;
        }
        let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
        answer.metadata.recursion_desired = question.metadata.recursion_desired;
        if question.edns.is_some() {
            answer.set_edns(Edns::new());
        }
        self.fill(&question, &mut answer);
        answer.queries = question.queries;
        answer.to_vec().ok()
    }

    fn fill(&self, question: &Message, answer: &mut Message) {
        if question.metadata.op_code != OpCode::Query {
            answer.metadata.response_code = ResponseCode::NotImp;
            return;
        }
        let [asked] = question.queries.as_slice() else {
            answer.metadata.response_code = ResponseCode::FormErr;
            return;
        };
        if asked.query_class() != DNSClass::IN || !self.domain.zone_of(asked.name()) {
            answer.metadata.response_code = ResponseCode::Refused;
            return;
        }
        answer.metadata.authoritative = true;
        for address in &self.addresses {
            let data = match (address, asked.query_type()) {
                (IpAddr::V4(address), RecordType::A) => RData::A(A(*address)),
                (IpAddr::V6(address), RecordType::AAAA) => RData::AAAA(AAAA(*address)),
                // The name is there and has nothing of that kind.
                (IpAddr::V4(_) | IpAddr::V6(_), _) => continue,
            };
            answer.add_answer(Record::from_rdata(asked.name().clone(), TTL, data));
        }
    }

    /// Answers on both sockets until `shutdown` fires.
    pub async fn serve(self, sockets: DnsSockets, shutdown: CancellationToken) {
        let dns = Arc::new(self);
        let tasks = Tasks::default();
        tokio::select! {
            () = dns.serve_datagrams(&sockets.udp) => {}
            () = dns.serve_connections(&sockets.tcp, &tasks) => {}
            () = shutdown.cancelled() => {}
        }
        tasks.finish().await;
    }

    async fn serve_datagrams(&self, udp: &UdpSocket) {
        let mut buffer = [0; QUESTION_MAX];
        loop {
            let answered = async {
                let (length, peer) = udp.recv_from(&mut buffer).await?;
                if let Some(answer) = self.answer(&buffer[..length]) {
                    udp.send_to(&answer, peer).await?;
                }
                io::Result::Ok(())
            };
            if let Err(error) = answered.await {
                tracing::debug!(%error, "DNS question could not be answered");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn serve_connections(self: &Arc<Self>, tcp: &TcpListener, tasks: &Tasks) {
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let permit = Arc::clone(&permits)
                .acquire_owned()
                .await
                .expect("the semaphore is never closed");
            match tcp.accept().await {
                Ok((stream, _)) => {
                    let (dns, stopping) = (Arc::clone(self), tasks.stopping());
                    tasks.spawn("DNS connection", async move {
                        tokio::select! {
                            result = dns.converse(stream) => if let Err(error) = result {
                                tracing::debug!(%error, "DNS connection broke");
                            },
                            () = stopping.cancelled() => {}
                        }
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "DNS connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let length = timeout(IDLE_TIMEOUT, stream.read_u16()).await??;
            let mut question = vec![0; length.into()];
            timeout(IDLE_TIMEOUT, stream.read_exact(&mut question)).await??;
            let Some(answer) = self.answer(&question) else {
                return Ok(());
            };
            let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
            timeout(IDLE_TIMEOUT, stream.write_u16(length)).await??;
            timeout(IDLE_TIMEOUT, stream.write_all(&answer)).await??;
        }
    }
}

/// Sockets for questions by datagram and by connection, on one address.
#[derive(Debug)]
pub struct DnsSockets {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl DnsSockets {
    /// Listens on the usual port of `ip`, or on another if that one is taken.
    ///
    /// # Errors
    ///
    /// If no port of the address can be used.
    pub async fn bind(ip: IpAddr) -> io::Result<Self> {
        // A resolver that was told the usual port finds it again after a restart; a second server
        // on this host takes another and says which.
        let udp = match UdpSocket::bind((ip, PORT)).await {
            Ok(socket) => socket,
            Err(_) => UdpSocket::bind((ip, 0)).await?,
        };
        let tcp = TcpListener::bind(udp.local_addr()?).await?;
        Ok(Self { udp, tcp })
    }

    /// The address of both sockets.
    ///
    /// # Errors
    ///
    /// If the system does not tell it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use hickory_proto::op::Query;
    use proptest::prelude::*;

    use super::*;

    fn local_dns() -> LocalDns {
        let addresses = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        LocalDns::new("skep.test", addresses).unwrap()
    }

    /// The code of the answer and the data in it.
    fn ask(name: &str, kind: RecordType) -> (ResponseCode, Vec<String>) {
        let mut question = Message::query();
        question.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        let answer = local_dns().answer(&question.to_vec().unwrap()).unwrap();
        let answer = Message::from_vec(&answer).unwrap();
        assert_eq!(answer.metadata.id, question.metadata.id);
        assert_eq!(answer.queries, question.queries);
        let data = answer.answers.iter().map(|record| record.data.to_string());
        (answer.metadata.response_code, data.collect())
    }

    #[test]
    fn every_name_of_the_domain_is_this_host() {
        for name in ["skep.test.", "api.skep.test.", "8080-i0.SKEP.test."] {
            assert_eq!(
                ask(name, RecordType::A),
                (ResponseCode::NoError, vec!["127.0.0.1".into()])
            );
            assert_eq!(
                ask(name, RecordType::AAAA),
                (ResponseCode::NoError, vec!["::1".into()])
            );
        }
        assert_eq!(
            ask("skep.test.", RecordType::TXT),
            (ResponseCode::NoError, vec![])
        );
    }

    #[test]
    fn names_of_others_are_refused() {
        for name in ["test.", "example.com.", "notskep.test."] {
            assert_eq!(ask(name, RecordType::A), (ResponseCode::Refused, vec![]));
        }
    }

    proptest! {
        #[test]
        fn nonsense_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            local_dns().answer(&bytes);
        }
    }

    #[test]
    fn an_answer_is_not_answered() {
        let answer = Message::response(7, OpCode::Query).to_vec().unwrap();
        assert_eq!(local_dns().answer(&answer), None);
    }
}
