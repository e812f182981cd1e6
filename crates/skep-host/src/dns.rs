//! Names for sandboxes, answered at the gateway.
//!
//! The host's resolver usually sits where sandboxes may not go, so the server asks on their
//! behalf. What comes back is checked: an answer that points into a denied range is taken out,
//! so a name under somebody's control cannot lead a sandbox to a private address. The packet
//! filter would stop the connection anyway; this stops the question from being useful.

mod answer;
mod lookup;
mod upstream;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::Ipv4Net;
use parking_lot::Mutex;
use skep_telemetry::{Chain, Tasks};
use skep_types::{Egress, Names};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use answer::{Verdict, judge};
use upstream::Upstreams;

/// The port of the service.
pub(crate) const PORT: u16 = 53;
/// Questions of one sandbox that are asked at a time. One more is dropped, as a busy network
/// would; resolvers ask again.
const IN_FLIGHT: usize = 64;
/// Time limit for a TCP client to send its next query.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);
/// No question is longer, and no UDP answer either.
const LONGEST_UDP: usize = 4096;

/// The sandboxes that may resolve names.
pub(crate) trait Clients: Send + Sync + 'static {
    /// The policy of the sandbox at this address, if there is one.
    fn egress(&self, address: Ipv4Addr) -> Option<Egress>;
}

/// Configuration of the DNS forwarder.
#[derive(Debug, Clone)]
pub(crate) struct DnsConfig {
    /// Address that the forwarder listens on, over UDP and TCP.
    pub(crate) listen: SocketAddr,
    /// Upstream resolvers, in the order in which they are tried.
    pub(crate) upstreams: Vec<SocketAddr>,
    /// Ranges that no answer may point into.
    pub(crate) denied: Vec<Ipv4Net>,
    /// Ranges that may be pointed into although they are denied.
    pub(crate) allowed: Vec<Ipv4Net>,
}

/// Answers questions of sandboxes for names, and of those who reach hosts on their behalf.
pub(crate) struct Service {
    upstreams: Upstreams,
    denied: Vec<Ipv4Net>,
    allowed: Vec<Ipv4Net>,
    clients: Arc<dyn Clients>,
    /// Number of queries under way for each sandbox.
    in_flight: Mutex<HashMap<IpAddr, usize>>,
}

/// Listens and answers until `tasks` are stopped. Returns the address it listens on, and who answers.
///
/// # Errors
///
/// If the address cannot be bound.
pub(crate) async fn serve(
    config: DnsConfig,
    clients: Arc<dyn Clients>,
    tasks: &Tasks,
) -> io::Result<(SocketAddr, Arc<Service>)> {
    let udp = UdpSocket::bind(config.listen).await?;
    let address = udp.local_addr()?;
    let tcp = TcpListener::bind(address).await?;
    let service = Arc::new(Service {
        upstreams: Upstreams::new(config.upstreams),
        denied: config.denied,
        allowed: config.allowed,
        clients,
        in_flight: Mutex::default(),
    });
    let stop = tasks.stopping();
    let udp_service = Arc::clone(&service);
    let udp_tasks = tasks.clone();
    tasks.spawn("dns over udp", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = udp_service.serve_udp(Arc::new(udp), &udp_tasks) => {}
        }
    });
    let stop = tasks.stopping();
    let (tcp_service, tcp_tasks) = (Arc::clone(&service), tasks.clone());
    tasks.spawn("dns over tcp", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = tcp_service.serve_tcp(tcp, &tcp_tasks) => {}
        }
    });
    Ok((address, service))
}

impl Service {
    async fn serve_udp(self: &Arc<Self>, socket: Arc<UdpSocket>, tasks: &Tasks) {
        let mut buffer = [0; LONGEST_UDP];
        loop {
            let (length, client) = match socket.recv_from(&mut buffer).await {
                Ok(received) => received,
                // An earlier answer could not be delivered; the socket goes on.
                Err(error) => {
                    tracing::debug!(%error, "dns socket");
                    continue;
                }
            };
            // Like a packet that was lost: the client asks again, and what is dropped costs
            // nothing.
            let Some(turn) = Turn::take(self, client.ip()) else {
                continue;
            };
            let question = buffer[..length].to_vec();
            let (service, socket, stop) = (Arc::clone(self), Arc::clone(&socket), tasks.stopping());
            tasks.spawn("dns question", async move {
                let _turn = turn;
                let answered = tokio::select! {
                    () = stop.cancelled() => None,
                    answer = service.answer(&question, client.ip(), upstream::Way::Udp) => answer,
                };
                if let Some(answer) = answered
                    && let Err(error) = socket.send_to(&answer, client).await
                {
                    tracing::debug!(error = %Chain(&error), "dns answer not delivered");
                }
            });
        }
    }

    async fn serve_tcp(self: &Arc<Self>, listener: TcpListener, tasks: &Tasks) {
        loop {
            match listener.accept().await {
                Ok((stream, client)) => {
                    let Some(turn) = Turn::take(self, client.ip()) else {
                        continue;
                    };
                    let (service, stop) = (Arc::clone(self), tasks.stopping());
                    tasks.spawn("dns connection", async move {
                        let _turn = turn;
                        tokio::select! {
                            () = stop.cancelled() => {}
                            ended = service.converse(stream, client.ip()) => {
                                if let Err(error) = ended {
                                    tracing::debug!(%error, "dns connection ended");
                                }
                            }
                        }
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "dns listener");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn converse(&self, mut stream: TcpStream, client: IpAddr) -> io::Result<()> {
        loop {
            let length = tokio::time::timeout(QUESTION_TIMEOUT, stream.read_u16()).await??;
            let mut question = vec![0; usize::from(length)];
            tokio::time::timeout(QUESTION_TIMEOUT, stream.read_exact(&mut question)).await??;
            let Some(answer) = self.answer(&question, client, upstream::Way::Tcp).await else {
                return Ok(());
            };
            let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
            stream
                .write_all(&[&length.to_be_bytes()[..], &answer].concat())
                .await?;
        }
    }

    /// The bytes to send back; `None` for what is no question at all.
    async fn answer(&self, question: &[u8], client: IpAddr, way: upstream::Way) -> Option<Vec<u8>> {
        let egress = match client {
            IpAddr::V4(address) => self.clients.egress(address),
            IpAddr::V6(_) => None,
        };
        let names = egress.as_ref().map_or(Names::None, Egress::names);
        match judge(question, |name| names.include(name)) {
            Verdict::Ignore => None,
            Verdict::Answer(answer) => Some(answer),
            Verdict::Ask(query) => {
                let answer = match egress.as_ref().and_then(Egress::resolvers) {
                    Some(own) => self.own_upstreams(own).ask(&query, way).await,
                    None => self.upstreams.ask(&query, way).await,
                };
                Some(query.filtered(answer, &self.denied, &self.allowed))
            }
        }
    }

    /// Resolvers that the owner of a sandbox has named, without those that it may not reach: it is
    /// the host that asks them.
    fn own_upstreams(&self, own: &[Ipv4Addr]) -> Upstreams {
        let reached = own
            .iter()
            .filter(|address| self.is_reached(**address))
            .map(|address| SocketAddr::from((*address, PORT)));
        Upstreams::new(reached.collect())
    }

    fn is_reached(&self, address: Ipv4Addr) -> bool {
        let within = |ranges: &[Ipv4Net]| ranges.iter().any(|range| range.contains(&address));
        within(&self.allowed) || !within(&self.denied)
    }
}

/// One of the questions that a sandbox may have in flight.
struct Turn {
    service: Arc<Service>,
    client: IpAddr,
}

impl Turn {
    fn take(service: &Arc<Service>, client: IpAddr) -> Option<Self> {
        let mut in_flight = service.in_flight.lock();
        let count = in_flight.entry(client).or_default();
        if *count >= IN_FLIGHT {
            return None;
        }
        *count += 1;
        Some(Self {
            service: Arc::clone(service),
            client,
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut in_flight = self.service.in_flight.lock();
        if let Some(count) = in_flight.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                in_flight.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::{Message, Query, ResponseCode};
    use hickory_proto::rr::rdata::A;
    use hickory_proto::rr::{Name, RData, Record, RecordType};
    use skep_types::EgressRules;

    use super::*;

    struct Everybody(Egress);

    impl Clients for Everybody {
        fn egress(&self, _address: Ipv4Addr) -> Option<Egress> {
            Some(self.0.clone())
        }
    }

    /// Answers every question with these addresses.
    async fn resolver(addresses: &'static [[u8; 4]], tasks: &Tasks) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let stop = tasks.stopping();
        let serve = async move {
            let mut buffer = [0; LONGEST_UDP];
            loop {
                let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
                let question = Message::from_vec(&buffer[..length]).unwrap();
                let name = question.queries[0].name().clone();
                let mut answer = question.into_response();
                for [a, b, c, d] in addresses {
                    let data = RData::A(A::new(*a, *b, *c, *d));
                    answer.add_answer(Record::from_rdata(name.clone(), 60, data));
                }
                socket
                    .send_to(&answer.to_vec().unwrap(), client)
                    .await
                    .unwrap();
            }
        };
        tasks.spawn("resolver", async move {
            tokio::select! { () = stop.cancelled() => {}, () = serve => {} }
        });
        address
    }

    async fn ask(server: SocketAddr, kind: RecordType) -> Message {
        let mut question = Message::query();
        question.add_query(Query::query(
            Name::from_ascii("example.test.").unwrap(),
            kind,
        ));
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket
            .send_to(&question.to_vec().unwrap(), server)
            .await
            .unwrap();
        let mut buffer = [0; LONGEST_UDP];
        let (length, _) = socket.recv_from(&mut buffer).await.unwrap();
        let answer = Message::from_vec(&buffer[..length]).unwrap();
        assert_eq!(answer.metadata.id, question.metadata.id);
        answer
    }

    #[track_caller]
    fn addresses(answer: &Message) -> Vec<String> {
        answer
            .answers
            .iter()
            .map(|record| record.data.to_string())
            .collect()
    }

    async fn server(upstream: SocketAddr, egress: Egress, tasks: &Tasks) -> SocketAddr {
        let config = DnsConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            upstreams: vec![upstream],
            denied: vec![
                "10.0.0.0/8".parse().unwrap(),
                "169.254.0.0/16".parse().unwrap(),
            ],
            allowed: vec!["10.9.0.0/16".parse().unwrap()],
        };
        // The kernel chooses a port for datagrams; somebody may have it for connections.
        loop {
            match serve(config.clone(), Arc::new(Everybody(egress.clone())), tasks).await {
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
                served => return served.unwrap().0,
            }
        }
    }

    #[tokio::test]
    async fn public_addresses_pass_and_denied_ones_are_taken_out() {
        let tasks = Tasks::default();
        let answers: &[_] = &[
            [203, 0, 113, 7],
            [10, 0, 0, 1],
            [169, 254, 169, 254],
            [10, 9, 0, 1],
        ];
        let upstream = resolver(answers, &tasks).await;
        let server = server(upstream, Egress::default(), &tasks).await;
        let answer = ask(server, RecordType::A).await;
        assert_eq!(addresses(&answer), ["203.0.113.7", "10.9.0.1"]);
        tasks.finish().await;
    }

    #[tokio::test]
    async fn a_question_for_ipv6_is_answered_with_nothing() {
        let tasks = Tasks::default();
        let upstream = resolver(&[[203, 0, 113, 7]], &tasks).await;
        let answer = ask(
            server(upstream, Egress::default(), &tasks).await,
            RecordType::AAAA,
        )
        .await;
        assert_eq!(addresses(&answer), Vec::<String>::new());
        assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
        tasks.finish().await;
    }

    #[tokio::test]
    async fn a_sandbox_without_internet_is_refused() {
        let tasks = Tasks::default();
        let upstream = resolver(&[[203, 0, 113, 7]], &tasks).await;
        let answer = ask(
            server(upstream, Egress::closed(), &tasks).await,
            RecordType::A,
        )
        .await;
        assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
        tasks.finish().await;
    }

    #[tokio::test]
    async fn where_everything_is_denied_only_names_that_may_be_reached_are_asked_for() {
        let tasks = Tasks::default();
        let upstream = resolver(&[[203, 0, 113, 7]], &tasks).await;
        let only = |host: &str| {
            Egress::new(EgressRules {
                allowed: vec![host.into()],
                denied: vec!["0.0.0.0/0".into()],
                ..EgressRules::default()
            })
        };
        for (host, code) in [
            ("example.test", ResponseCode::NoError),
            ("*.example.test", ResponseCode::Refused),
        ] {
            let server = server(upstream, only(host).unwrap(), &tasks).await;
            let answer = ask(server, RecordType::A).await;
            assert_eq!(answer.metadata.response_code, code, "{host}");
        }
        tasks.finish().await;
    }

    #[tokio::test]
    async fn a_resolver_that_may_not_be_reached_is_not_asked() {
        let tasks = Tasks::default();
        let upstream = resolver(&[[203, 0, 113, 7]], &tasks).await;
        let egress = Egress::new(EgressRules {
            resolvers: Some(vec!["10.0.0.1".into()]),
            ..EgressRules::default()
        });
        let server = server(upstream, egress.unwrap(), &tasks).await;
        let answer = ask(server, RecordType::A).await;
        assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
        tasks.finish().await;
    }

    #[tokio::test]
    async fn a_silent_resolver_gives_a_failure_and_not_silence() {
        let tasks = Tasks::default();
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let server = server(silent.local_addr().unwrap(), Egress::default(), &tasks).await;
        let answer = ask(server, RecordType::A).await;
        assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
        tasks.finish().await;
    }
}
