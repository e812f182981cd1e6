//! TLS in tests: an authority of the test, hosts that speak it, and clients in a sandbox's network.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use skep_isolation::Launched;
use tokio::io::AsyncWriteExt as _;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, BufReader};
use tokio_rustls::TlsAcceptor;

use crate::network::first_process;
use crate::web::sent_on_to;

/// Names of the hosts that speak TLS; others send back whatever they hear.
const HOSTS: &str = "tls.test";

/// An authority of the test, and a certificate for every host below a name.
pub(crate) struct Authority {
    /// Certificate that clients have to trust, in PEM.
    pub(crate) trusted: String,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// The authority of this process.
pub(crate) static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "authority of a test");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate().unwrap();
    let trusted = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let leaf =
        CertificateParams::new(vec![format!("*.{HOSTS}"), format!("*.edge.{HOSTS}")]).unwrap();
    let pair = KeyPair::generate().unwrap();
    let certificate = leaf.signed_by(&pair, &issuer).unwrap().der().to_vec();
    Authority {
        trusted,
        certificate,
        key: pair.serialize_der(),
    }
});

impl Authority {
    /// Arguments of a process of hosts.
    pub(crate) fn arguments(&self) -> [String; 2] {
        arguments(&self.certificate, &self.key)
    }
}

/// Arguments of a process of hosts with this certificate, in DER, and its key.
pub(crate) fn arguments(certificate: &[u8], key: &[u8]) -> [String; 2] {
    [hex(certificate), hex(key)]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(text: &str) -> Vec<u8> {
    let digits = (0..text.len()).step_by(2);
    digits
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// Serves a connection to port 443: as one of the hosts, or as one that sends everything back.
pub(crate) struct Hosts(Option<TlsAcceptor>, tokio::runtime::Runtime);

impl Hosts {
    pub(crate) fn new(arguments: &[String]) -> Self {
        let acceptor = match arguments {
            [certificate, key] => Some(acceptor(bytes_of(certificate), bytes_of(key))),
            _ => None,
        };
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        Self(
            acceptor,
            runtime.worker_threads(1).enable_all().build().unwrap(),
        )
    }

    pub(crate) fn serve(&self, stream: TcpStream) {
        let mut first = [0; 1024];
        let count = stream.peek(&mut first).unwrap_or_default();
        let is_ours = String::from_utf8_lossy(&first[..count]).contains(HOSTS);
        match self.0.clone().filter(|_| is_ours) {
            Some(acceptor) => {
                stream.set_nonblocking(true).unwrap();
                drop(self.1.spawn(async move {
                    let stream = tokio::net::TcpStream::from_std(stream).unwrap();
                    drop(be_host(acceptor, stream).await);
                }));
            }
            None => drop(std::io::copy(&mut &stream, &mut &stream)),
        }
    }
}

fn acceptor(certificate: Vec<u8>, key: Vec<u8>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(certificate)],
            PrivatePkcs8KeyDer::from(key).into(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

async fn be_host(acceptor: TlsAcceptor, stream: tokio::net::TcpStream) -> std::io::Result<()> {
    let stream = acceptor.accept(stream).await?;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        let service = hyper::service::service_fn(tell);
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service);
        connection.await.map_err(std::io::Error::other)
    } else {
        speak(stream).await
    }
}

/// Answers a request of HTTP/2 with all that it says.
async fn tell(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut said = format!("h2 {} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        said += &format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()));
    }
    let body = request
        .into_body()
        .collect()
        .await
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    said += &String::from_utf8_lossy(&body);
    Ok(Response::new(Full::new(said.into())))
}

/// Answers requests of HTTP/1.1 with their heads, as they have arrived, and their bodies.
async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let lower = head.to_ascii_lowercase();
        if lower.contains("upgrade: websocket") {
            let switched = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                            upgrade: websocket\r\nsec-websocket-accept: yes\r\n\r\n";
            stream.write_all(switched.as_bytes()).await?;
            stream.flush().await?;
            let (mut reader, mut writer) = tokio::io::split(stream);
            tokio::io::copy(&mut reader, &mut writer).await?;
            return writer.shutdown().await;
        }
        let field = |name: &str| {
            let line = lower.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
        };
        let mut body = Vec::new();
        if let Some(length) = field("content-length:") {
            body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).await?;
        } else if field("transfer-encoding:").is_some() {
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).await?;
                let length = usize::from_str_radix(line.trim(), 16).unwrap();
                let mut chunk = vec![0; length + 2];
                stream.read_exact(&mut chunk).await?;
                body.extend_from_slice(&chunk[..length]);
                if length == 0 {
                    break;
                }
            }
        }
        if let Some(host) = sent_on_to(&lower) {
            let sent = format!(
                "HTTP/1.1 302 Found\r\nlocation: https://{host}/x\r\ncontent-length: 0\r\n\r\n"
            );
            stream.write_all(sent.as_bytes()).await?;
            stream.flush().await?;
            continue;
        }
        if lower.contains(" /wait ") {
            // It never answers.
            std::future::pending::<()>().await;
        }
        let said = format!(
            "{}{}",
            head.replace('\r', ""),
            String::from_utf8_lossy(&body)
        );
        let said = if lower.contains(" /quiet ") {
            String::new()
        } else {
            said
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{said}",
            said.len()
        );
        stream.write_all(answer.as_bytes()).await?;
        stream.flush().await?;
    }
}

/// A client of TLS in a sandbox's network.
pub(crate) struct TlsClient<'a> {
    pub(crate) sandbox: &'a Launched,
    pub(crate) address: SocketAddr,
    /// A file with the authority that it trusts.
    pub(crate) trusts: &'a Path,
}

impl TlsClient<'_> {
    /// Says something to a host, and returns all that it answers.
    pub(crate) fn say(&self, host: &str, words: &str) -> String {
        self.run("http/1.1", host, words)
    }

    /// Asks for these, one after the other on one connection of HTTP/2: a method, an authority and a
    /// path each, and perhaps a header.
    pub(crate) fn ask(&self, host: &str, requests: &[&str]) -> String {
        self.run("h2", host, &requests.join("\n"))
    }

    fn run(&self, protocol: &str, host: &str, words: &str) -> String {
        let mut client = self.start(protocol, host, words);
        let mut said = String::new();
        client
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        client.wait().unwrap();
        said
    }

    pub(crate) fn start(&self, protocol: &str, host: &str, words: &str) -> std::process::Child {
        let namespace = format!("--net=/proc/{}/ns/net", first_process(self.sandbox));
        let mut client = Command::new("nsenter")
            .arg(namespace)
            .arg(std::env::current_exe().unwrap())
            .args(["tls-client", protocol, host, &self.address.to_string()])
            .arg(self.trusts)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = client.stdin.take().unwrap();
        input.write_all(words.as_bytes()).unwrap();
        client
    }
}

/// The program of a [`TlsClient`].
pub(crate) fn be_client(arguments: &[String]) -> ExitCode {
    let [protocol, host, address, trusts] = arguments else {
        return ExitCode::FAILURE;
    };
    let mut words = String::new();
    std::io::stdin().read_to_string(&mut words).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(trusts).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from(host.clone()).unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let said = if protocol == "h2" {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime
            .unwrap()
            .block_on(http2(config, name, address, &words))
    } else {
        http1(config, name, address, &words)
    };
    let said = said.unwrap_or_else(|error| format!("error: {error}"));
    std::io::stdout().write_all(said.as_bytes()).unwrap();
    ExitCode::SUCCESS
}

fn http1(
    config: ClientConfig,
    name: ServerName<'static>,
    address: SocketAddr,
    words: &str,
) -> std::io::Result<String> {
    let connection =
        ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address)?);
    stream.write_all(words.as_bytes())?;
    // It has no more to say, and hears the rest.
    stream.conn.send_close_notify();
    stream.flush()?;
    let mut said = Vec::new();
    let read = stream.read_to_end(&mut said);
    if said.is_empty() {
        read?;
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

async fn http2(
    config: ClientConfig,
    name: ServerName<'static>,
    address: SocketAddr,
    words: &str,
) -> std::io::Result<String> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, stream).await?;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(std::io::Error::other)?;
    drop(skep_telemetry::spawn("connection", async move {
        drop(connection.await);
    }));
    let mut all = String::new();
    for line in words.lines() {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        let mut request =
            Request::builder()
                .method(word())
                .uri(format!("https://{}{}", word(), word()));
        if let Some((name, value)) = word().split_once('=') {
            request = request.header(name, value);
        }
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let answer = sender
            .send_request(request)
            .await
            .map_err(std::io::Error::other)?;
        all += &format!("status {}\n", answer.status().as_u16());
        let body = answer
            .into_body()
            .collect()
            .await
            .map_err(std::io::Error::other)?
            .to_bytes();
        all += &String::from_utf8_lossy(&body);
    }
    Ok(all)
}
