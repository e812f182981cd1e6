use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::routing::any;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use skep_domain::Domain;
use skep_proxy::{Listener, ProxyConfig};
use skep_testkit::wait_until;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::crowds::{CALLER, call};
use crate::stage::{
    DEADLINE, DOMAIN, Ending, Stage, accept_head, ending, host, listen, read_until, serve_app,
};

/// A proxy that speaks TLS, and the authority that its clients have to trust.
struct Secure {
    stage: Stage,
    roots: RootCertStore,
    _directory: TempDir,
}

impl Secure {
    async fn new() -> Self {
        Self::with(Listener::tls, |_| {}).await
    }

    /// A proxy that speaks clear text on the same port.
    async fn both(change: impl FnOnce(&mut ProxyConfig)) -> Self {
        Self::with(Listener::plain_and_tls, change).await
    }

    async fn with(
        listener: impl FnOnce(TcpListener, Arc<rustls::ServerConfig>) -> Listener,
        change: impl FnOnce(&mut ProxyConfig),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let domain = Domain::local(DOMAIN, directory.path(), SystemTime::now()).unwrap();
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_file(domain.authority().unwrap()).unwrap();
        roots.add(root).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let listener = listener(tcp, domain.server_config().unwrap());
        Self {
            stage: Stage::listening(listener, address, change),
            roots,
            _directory: directory,
        }
    }

    /// A connection to `name` that offers `protocols`.
    async fn connect(
        &self,
        name: &str,
        protocols: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, self.stage.connect().await).await
    }
}

#[tokio::test]
async fn one_listener_speaks_http_1_with_and_without_a_choice_of_protocol() {
    let secure = Secure::new().await;
    let route = secure.stage.sandbox();
    let app = Router::new().fallback(any(|headers: http::HeaderMap| async move {
        headers["x-forwarded-proto"].to_str().unwrap().to_owned()
    }));
    let port = serve_app(&route, app).await;
    let host = host(&route, port);
    for protocols in [&[][..], &["http/1.1"]] {
        let mut client = secure.connect(&host, protocols).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        read_until(&mut client, "\r\n\r\nhttps").await;
    }
}

#[tokio::test]
async fn a_client_that_can_speaks_http_2() {
    let secure = Secure::new().await;
    let stream = secure
        .connect("api.skep.test", &["h2", "http/1.1"])
        .await
        .unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.unwrap();
    skep_telemetry::spawn("client", connection);
    let request = Request::get("https://api.skep.test/sandboxes")
        .body(Full::<Bytes>::default())
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "the api");
}

#[tokio::test]
async fn a_kill_resets_a_stream_over_tls() {
    let secure = Secure::new().await;
    let route = secure.stage.sandbox();
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let mut client = secure.connect(&host, &[]).await.unwrap();
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let (mut service, _) = accept_head(&listener).await;
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    service.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut client, "hello").await;
    secure.stage.routes.kill(&route.id);
    assert_eq!(ending(&mut client).await, Ending::Reset);
}

#[tokio::test]
async fn clear_text_on_a_tls_port_is_told_so() {
    let secure = Secure::new().await;
    let mut client = secure
        .stage
        .say("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    let answer = read_until(&mut client, "}").await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("https://"), "{answer}");
}

#[tokio::test]
async fn one_port_speaks_clear_text_and_tls_as_each_client_begins() {
    let secure = Secure::both(|_| {}).await;
    let route = secure.stage.sandbox();
    let app = Router::new().fallback(any(|headers: http::HeaderMap| async move {
        headers["x-forwarded-proto"].to_str().unwrap().to_owned()
    }));
    let port = serve_app(&route, app).await;
    let host = host(&route, port);
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
    for _ in 0..2 {
        let mut clear = secure.stage.say(&request).await;
        let heard = read_until(&mut clear, "\r\n\r\nhttp").await;
        assert!(heard.ends_with("\r\n\r\nhttp"), "{heard}");
        let mut client = secure.connect(&host, &["http/1.1"]).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        read_until(&mut client, "\r\n\r\nhttps").await;
    }
    // Clear-text HTTP/2 begins with letters, too.
    let io = TokioIo::new(secure.stage.connect().await);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    skep_telemetry::spawn("client", connection);
    let asked = Request::get(format!("http://{host}/"));
    let answer = sender.send_request(asked.body(Full::<Bytes>::default()).unwrap());
    let body = answer.await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(body.to_bytes(), "http");
    assert_eq!(secure.stage.metrics.handshakes_failed.get(), 0);
}

#[tokio::test]
async fn a_client_that_never_says_which_is_not_waited_for() {
    let secure = Secure::both(|config| config.head_timeout = Duration::from_millis(200)).await;
    let mut silent = secure.stage.connect().await;
    assert_eq!(ending(&mut silent).await, Ending::Orderly);
    assert_eq!(secure.stage.metrics.connections_expired.get(), 1);
    // One byte decides and does not buy more time, whichever it is.
    for first in [b"G", b"\x16"] {
        let mut slow = secure.stage.connect().await;
        slow.write_all(first).await.unwrap();
        ending(&mut slow).await;
    }
}

#[tokio::test]
async fn a_silent_client_holds_up_no_stop() {
    let secure = Secure::both(|config| config.drain = DEADLINE).await;
    let _silent = secure.stage.connect().await;
    wait_until(DEADLINE, || async {
        match secure.stage.metrics.connections_accepted.get() {
            0 => Err("not accepted"),
            _ => Ok(()),
        }
    })
    .await;
    let start = Instant::now();
    secure.stage.shutdown.cancel();
    let served = tokio::time::timeout(DEADLINE, secure.stage.served).await;
    served.expect("it stops").unwrap();
    assert!(start.elapsed() < DEADLINE / 2, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_full_server_says_so_in_either_protocol() {
    let secure = Secure::both(|config| config.connections = 1).await;
    let (_caller, heard) = call(&secure.stage, CALLER).await;
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    let (_, heard) = call(&secure.stage, CALLER).await;
    assert!(heard.starts_with("HTTP/1.1 503"), "{heard}");
    let mut refused = secure.connect("localhost", &["http/1.1"]).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    refused.write_all(request).await.unwrap();
    let heard = read_until(&mut refused, "\r\n\r\n").await;
    assert!(heard.starts_with("HTTP/1.1 503"), "{heard}");
    // Whoever connects to a full server and says nothing is not listened to for long.
    let mut silent = secure.stage.connect().await;
    assert_eq!(ending(&mut silent).await, Ending::Orderly);
}
