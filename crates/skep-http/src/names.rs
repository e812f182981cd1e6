//! Host names of servers, resolved without the C library.
//!
//! A static executable that asks glibc for a name loads the host's NSS modules, which were built
//! for another glibc, and dies of it. So names are resolved here: `localhost` and everything below
//! it is this host, then come `/etc/hosts` and the resolvers of `/etc/resolv.conf`.

mod hosts;
mod query;
mod settings;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use query::{Answer, ask};
use settings::Settings;

const HOSTS: &str = "/etc/hosts";
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Resolver of host names, for every HTTP client of ours.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostNames;

/// A name could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// Everybody who was asked says that there is no such name.
    #[error("there is no host `{0}`")]
    Unknown(String),
    /// Nobody who was asked gave an answer. The call may be repeated.
    #[error("no resolver answers for `{name}`; asked {}", list(resolvers))]
    Silent {
        /// The name that was looked for.
        name: String,
        /// The resolvers that were asked.
        resolvers: Vec<SocketAddr>,
    },
    /// The name cannot be one of DNS.
    #[error("`{0}` is not a host name")]
    Malformed(String),
    /// A file with names or resolvers cannot be read.
    #[error("cannot read `{path}`")]
    File {
        /// Path of the file.
        path: &'static str,
        /// Failure of the system call.
        source: io::Error,
    },
}

fn list(resolvers: &[SocketAddr]) -> String {
    let texts: Vec<_> = resolvers.iter().map(SocketAddr::to_string).collect();
    texts.join(", ")
}

impl HostNames {
    /// The addresses of a host, those of IPv4 first.
    ///
    /// # Errors
    ///
    /// [`NameError`]
    pub async fn lookup(self, name: &str) -> Result<Vec<IpAddr>, NameError> {
        if let Some(addresses) = local(name) {
            return Ok(addresses);
        }
        let hosts = read(HOSTS).await?;
        let settings = Settings::parse(&read(RESOLV_CONF).await?);
        lookup(name, &hosts, &settings).await
    }
}

impl Resolve for HostNames {
    fn resolve(&self, name: Name) -> Resolving {
        let names = *self;
        Box::pin(async move {
            let found = names.lookup(name.as_str()).await?;
            let addresses = found.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

/// The content of a file; that of one that does not exist is empty.
async fn read(path: &'static str) -> Result<String, NameError> {
    match tokio::fs::read(Path::new(path)).await {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(NameError::File { path, source }),
    }
}

/// Addresses that need nobody's answer: an address itself, and the names that are this host
/// whatever a file or a resolver says (RFC 6761).
fn local(name: &str) -> Option<Vec<IpAddr>> {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse() {
        return Some(vec![address]);
    }
    is_localhost(name).then(|| vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
}

/// Returns true for `localhost` and every name below it.
pub fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or(name);
    last.eq_ignore_ascii_case("localhost")
}

async fn lookup(name: &str, hosts: &str, settings: &Settings) -> Result<Vec<IpAddr>, NameError> {
    let listed = hosts::find(hosts, name);
    if !listed.is_empty() {
        return Ok(listed);
    }
    let mut answered = false;
    for candidate in settings.candidates(name) {
        match ask(&candidate, settings).await {
            Answer::Addresses(addresses) => return Ok(addresses),
            Answer::None => answered = true,
            Answer::Silence => {}
            Answer::Malformed => return Err(NameError::Malformed(name.to_owned())),
        }
    }
    Err(if answered {
        NameError::Unknown(name.to_owned())
    } else {
        NameError::Silent {
            name: name.to_owned(),
            resolvers: settings.resolvers.clone(),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hickory_proto::op::{Message, ResponseCode};
    use hickory_proto::rr::rdata::{A, AAAA};
    use hickory_proto::rr::{RData, Record, RecordType};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, UdpSocket};

    use super::*;

    /// A resolver that knows `db.corp.test` and `big.test`, which only fits into TCP.
    struct Resolver {
        udp: UdpSocket,
        tcp: TcpListener,
    }

    impl Resolver {
        async fn new() -> Self {
            loop {
                let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
                // The same port may be taken for TCP; then another one is tried.
                if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
                    return Self { udp, tcp };
                }
            }
        }

        fn settings(&self) -> Settings {
            Settings {
                resolvers: vec![self.udp.local_addr().unwrap()],
                search: vec!["corp.test".to_owned()],
                dots: 1,
                timeout: Duration::from_secs(10),
                attempts: 1,
            }
        }

        async fn serve(&self) -> std::convert::Infallible {
            let mut buffer = [0; 1024];
            loop {
                tokio::select! {
                    received = self.udp.recv_from(&mut buffer) => {
                        let (length, client) = received.unwrap();
                        let answer = answer(&buffer[..length], false);
                        self.udp.send_to(&answer, client).await.unwrap();
                    }
                    accepted = self.tcp.accept() => {
                        let (mut stream, _) = accepted.unwrap();
                        let length = stream.read_u16().await.unwrap();
                        let mut question = vec![0; length.into()];
                        stream.read_exact(&mut question).await.unwrap();
                        let answer = answer(&question, true);
                        let length = u16::try_from(answer.len()).unwrap();
                        stream.write_u16(length).await.unwrap();
                        stream.write_all(&answer).await.unwrap();
                    }
                }
            }
        }
    }

    fn answer(question: &[u8], is_tcp: bool) -> Vec<u8> {
        let question = Message::from_vec(question).unwrap();
        let query = question.queries[0].clone();
        let mut answer = question.into_response();
        let add = |data: RData, answer: &mut Message| {
            answer.add_answer(Record::from_rdata(query.name().clone(), 60, data));
        };
        let name = query.name().to_ascii();
        match (name.as_str(), query.query_type()) {
            ("big.test.", _) if !is_tcp => answer.metadata.truncation = true,
            ("db.corp.test." | "big.test.", RecordType::A) => {
                add(RData::A(A::new(192, 0, 2, 7)), &mut answer);
            }
            ("db.corp.test.", RecordType::AAAA) => {
                let data = AAAA::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
                add(RData::AAAA(data), &mut answer);
            }
            ("db.corp.test." | "big.test.", _) => {}
            _ => answer.metadata.response_code = ResponseCode::NXDomain,
        }
        answer.to_vec().unwrap()
    }

    /// Resolves a name as a host with this resolver and this file of hosts does.
    async fn found(name: &str, hosts: &str) -> Result<Vec<String>, String> {
        let resolver = Resolver::new().await;
        let settings = resolver.settings();
        let found = tokio::select! {
            found = lookup(name, hosts, &settings) => found,
            never = resolver.serve() => match never {},
        };
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.iter().map(IpAddr::to_string).collect())
    }

    #[tokio::test]
    async fn localhost_and_names_below_it_are_this_host_without_asking() {
        for name in ["localhost", "API.Skep.LocalHost", "x.localhost."] {
            let found = HostNames.lookup(name).await.unwrap();
            assert_eq!(found[0], Ipv4Addr::LOCALHOST, "{name}");
        }
        assert!(!is_localhost("localhost.example") && !is_localhost("notlocalhost"));
    }

    #[tokio::test]
    async fn names_are_found_in_the_file_first_then_with_the_search_list() {
        let hosts = "192.0.2.1 db.corp.test\n";
        assert_eq!(found("db.corp.test", hosts).await.unwrap(), ["192.0.2.1"]);
        let both = ["192.0.2.7", "2001:db8::7"];
        assert_eq!(found("db.corp.test", "").await.unwrap(), both);
        assert_eq!(found("db", "").await.unwrap(), both);
        // A dot at the end leaves no room for more.
        assert_eq!(
            found("db.", "").await.unwrap_err(),
            "there is no host `db.`"
        );
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_asked_for_again_by_tcp() {
        assert_eq!(found("big.test", "").await.unwrap(), ["192.0.2.7"]);
    }

    #[tokio::test]
    async fn a_resolver_that_is_not_there_is_named() {
        let closed = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = closed.local_addr().unwrap();
        drop(closed);
        let settings = Settings {
            resolvers: vec![address],
            attempts: 1,
            ..Settings::parse("")
        };
        let error = lookup("db.test", "", &settings).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("no resolver answers for `db.test`; asked {address}")
        );
    }
}
