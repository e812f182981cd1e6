//! Speaking with a host: TLS, verified as usual, and HTTP/1.1 or HTTP/2 in it.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::upstream::Upstream;
use crate::message::Refusal;
use crate::pipe::PipeBody;
use crate::process::HEAD_BYTES;

/// Time limit for a host to agree on TLS and HTTP.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);

const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Client of hosts.
pub(super) struct Client {
    http1: TlsConnector,
    either: TlsConnector,
}

/// A host that listens.
pub(super) struct Host {
    speech: Speech,
    /// Ends with the connection.
    gone: CancellationToken,
}

enum Speech {
    Http1(http1::SendRequest<PipeBody>),
    Http2(http2::SendRequest<PipeBody>),
}

impl Client {
    pub(super) fn new(roots: RootCertStore) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let with = |protocols: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            TlsConnector::from(Arc::new(config))
        };
        Ok(Self {
            http1: with(&[HTTP1]),
            either: with(&[H2, HTTP1]),
        })
    }

    /// Begins to speak with a host.
    pub(super) async fn greet(
        &self,
        upstream: Upstream,
        host: &str,
        (secure, h2): (bool, bool),
    ) -> Result<Host, Refusal> {
        let greeting = async {
            if !secure {
                return http1(upstream).await;
            }
            let name = server_name(host)?;
            let connector = if h2 { &self.either } else { &self.http1 };
            let stream = connector
                .connect(name, upstream)
                .await
                .map_err(|error| reason(&error))?;
            if stream.get_ref().1.alpn_protocol() == Some(H2) {
                http2(stream).await
            } else {
                http1(stream).await
            }
        };
        let greeted = tokio::time::timeout(HELLO_TIMEOUT, greeting).await;
        greeted.unwrap_or(Err(Refusal::NoAnswer))
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, Refusal> {
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(ServerName::from(std::net::IpAddr::V4(address)));
    }
    ServerName::try_from(host.to_owned()).map_err(|_| Refusal::Unverified)
}

/// The reason for which there is no TLS.
fn reason(error: &std::io::Error) -> Refusal {
    let source = error.get_ref().and_then(|source| source.downcast_ref());
    match source {
        Some(rustls::Error::InvalidCertificate(_)) => Refusal::Unverified,
        Some(_) => Refusal::NoAnswer,
        None if error.kind() == std::io::ErrorKind::QuotaExceeded => Refusal::Spent,
        None => Refusal::NoAnswer,
    }
}

async fn http1<S>(stream: S) -> Result<Host, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES)
        .preserve_header_case(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|_| Refusal::NoAnswer)?;
    Ok(Host::new(Speech::Http1(sender), connection.with_upgrades()))
}

async fn http2<S>(stream: S) -> Result<Host, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let most = u32::try_from(HEAD_BYTES).expect("it is a small number");
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_header_list_size(most)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|_| Refusal::NoAnswer)?;
    Ok(Host::new(Speech::Http2(sender), connection))
}

impl Host {
    fn new<F>(speech: Speech, connection: F) -> Self
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let gone = CancellationToken::new();
        let ending = gone.clone().drop_guard();
        drop(skep_telemetry::spawn("host", async move {
            drop(connection.await);
            drop(ending);
        }));
        Self { speech, gone }
    }

    pub(super) fn is_http2(&self) -> bool {
        matches!(self.speech, Speech::Http2(_))
    }

    /// Waits until its connection is over.
    pub(super) async fn leave(&self) {
        self.gone.cancelled().await;
    }

    /// Waits until it takes a request; false if it takes none any more.
    pub(super) async fn is_ready(&mut self) -> bool {
        match &mut self.speech {
            Speech::Http1(sender) => sender.ready().await.is_ok(),
            Speech::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    pub(super) async fn send(
        &mut self,
        request: Request<PipeBody>,
    ) -> hyper::Result<Response<hyper::body::Incoming>> {
        match &mut self.speech {
            Speech::Http1(sender) => sender.send_request(request).await,
            Speech::Http2(sender) => sender.send_request(request).await,
        }
    }
}
