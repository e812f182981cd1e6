//! Requests that a rule looks into: they are read here, and sent by the other process of the sandbox.

mod pipes;

use std::convert::Infallible;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use skep_types::HostName;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsAcceptor;

use super::desk::{Desk, Destination};
use super::web::{self, Body};
use super::{HEAD_BYTES, HELLO_TIMEOUT};
use crate::message::{Ended, Leaf, Refusal};
pub(super) use pipes::{Failure, Pipes, Scheme};

/// Requests of one connection that are open at a time. Each has a connection to the host.
const MOST_STREAMS: u32 = 32;
/// Bytes that a request, and a connection, may send before they are read.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Bytes that wait to be sent to a client.
const SEND_BUFFER: usize = 64 * 1024;
/// Interval at which a client of HTTP/2 is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

const H2: &[u8] = b"h2";

/// Ends a sandbox's TLS, and passes on the requests in it.
pub(super) async fn serve(
    stream: TcpStream,
    said: Vec<u8>,
    leaf: Leaf,
    desk: Arc<Desk>,
    aim: Destination,
    place: Arc<OwnedSemaphorePermit>,
) {
    let Some(host) = aim.host.clone() else {
        return;
    };
    let Ok(config) = config(leaf) else {
        return;
    };
    let (reader, writer) = stream.into_split();
    let stream = tokio::io::join(Cursor::new(said).chain(reader), writer);
    let accepting = TlsAcceptor::from(Arc::new(config)).accept(stream);
    let accepted = tokio::time::timeout(HELLO_TIMEOUT, accepting).await;
    // A client that does not trust what it is shown has said so, and goes.
    let Ok(Ok(stream)) = accepted else {
        desk.note(Ended {
            host: Some(host.to_string()),
            port: aim.port,
            refusal: Some(Refusal::NotTrusted),
            ..Ended::default()
        });
        return;
    };
    let tls = stream.get_ref().1;
    // Both have read the same first message, and must have read the same in it.
    let is_same = tls.server_name().and_then(|name| name.parse().ok()) == Some(host.clone());
    if !is_same {
        return;
    }
    let is_http2 = tls.alpn_protocol() == Some(H2);
    let port = aim.port;
    let guest = Arc::new(Guest {
        pipes: Pipes::new(
            Arc::clone(&desk),
            aim,
            Scheme::Https { h2: is_http2 },
            place,
        ),
        desk,
        host,
        port,
    });
    let passing = service_fn(move |request| {
        let guest = Arc::clone(&guest);
        async move { Ok::<_, Infallible>(guest.pass(request).await) }
    });
    let stream = TokioIo::new(stream);
    if is_http2 {
        let most = u32::try_from(HEAD_BYTES).expect("it is a small number");
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(MOST_STREAMS)
            .max_header_list_size(most)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(KEEP_ALIVE)
            .serve_connection(stream, passing);
        drop(connection.await);
    } else {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HELLO_TIMEOUT)
            .max_buf_size(HEAD_BYTES)
            .preserve_header_case(true)
            .half_close(true)
            .serve_connection(stream, passing)
            .with_upgrades();
        drop(connection.await);
    }
}

/// TLS as one host.
fn config(leaf: Leaf) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = vec![CertificateDer::from(leaf.certificate)];
    let key = PrivatePkcs8KeyDer::from(leaf.key).into();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    // A session that is taken up again would have to be one of the same host and rules.
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// A client of TLS, and the host that it believes to speak with.
struct Guest {
    desk: Arc<Desk>,
    host: HostName,
    port: u16,
    pipes: Arc<Pipes>,
}

impl Guest {
    async fn pass(&self, request: Request<Incoming>) -> Response<Body> {
        let mut ended = Ended {
            host: Some(self.host.to_string()),
            port: self.port,
            method: Some(request.method().to_string()),
            path: Some(request.uri().path().to_owned()),
            ..Ended::default()
        };
        let passed = match self.check(&request) {
            Ok(()) => self.pipes.pass(request).await,
            Err(refusal) => Err(Failure::Untold(refusal)),
        };
        passed.unwrap_or_else(|failure| {
            let refusal = failure.refusal();
            if let Failure::Untold(_) = failure {
                ended.status = Some(refusal.status());
                ended.refusal = Some(refusal);
                self.desk.note(ended);
            }
            web::refused(refusal, Some(self.host.as_str()))
        })
    }

    /// Checks that a request is for the host of its connection. What is said in two places must be the
    /// same: hosts read the one or the other.
    fn check(&self, request: &Request<Incoming>) -> Result<(), Refusal> {
        names_host(
            request.method(),
            request.uri(),
            request.headers().get_all(HOST).iter(),
            (&self.host, self.port),
        )
    }
}

fn names_host<'a>(
    method: &Method,
    uri: &hyper::Uri,
    mut headers: impl Iterator<Item = &'a HeaderValue>,
    (host, port): (&HostName, u16),
) -> Result<(), Refusal> {
    if method == Method::CONNECT {
        return Err(Refusal::Tunnel);
    }
    if uri.scheme_str().is_some_and(|scheme| scheme != "https") {
        return Err(Refusal::NotUnderstood);
    }
    let header = headers.next();
    if headers.next().is_some() {
        return Err(Refusal::TwoNames);
    }
    let header = header.map(|header| header.to_str().unwrap_or_default());
    let authority = uri.authority().map(hyper::http::uri::Authority::as_str);
    let mut names = [authority, header].into_iter().flatten().peekable();
    names.peek().ok_or(Refusal::NoName)?;
    for name in names {
        if web::name(name, port).as_ref() != Ok(host) {
            return Err(Refusal::OtherHost);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: (&str, &str), hosts: &[&str], expected: Result<(), Refusal>) {
        let host: HostName = "a.test".parse().unwrap();
        let method: Method = line.0.parse().unwrap();
        let hosts: Vec<_> = hosts
            .iter()
            .map(|host| HeaderValue::from_str(host).unwrap())
            .collect();
        let found = names_host(
            &method,
            &line.1.parse().unwrap(),
            hosts.iter(),
            (&host, 443),
        );
        assert_eq!(found, expected, "{line:?} {hosts:?}");
    }

    #[test]
    fn a_request_is_for_the_host_of_its_connection_wherever_it_names_it() {
        let other = Err(Refusal::OtherHost);
        check(("GET", "/"), &["A.test"], Ok(()));
        check(("GET", "/"), &["a.test:443"], Ok(()));
        check(("GET", "https://a.test/x"), &[], Ok(()));
        check(("GET", "https://a.test:443/x"), &["a.test"], Ok(()));
        check(("GET", "/"), &[], Err(Refusal::NoName));
        check(("GET", "/"), &["b.test"], other);
        check(("GET", "/"), &["a.test:80"], other);
        check(("GET", "https://b.test/"), &["a.test"], other);
        check(("GET", "https://a.test/"), &["b.test"], other);
        check(("GET", "https://u@a.test/"), &["a.test"], other);
        check(("GET", "/"), &["a.test", "a.test"], Err(Refusal::TwoNames));
        check(
            ("GET", "http://a.test/"),
            &["a.test"],
            Err(Refusal::NotUnderstood),
        );
        check(("CONNECT", "a.test:443"), &["a.test"], Err(Refusal::Tunnel));
    }
}
