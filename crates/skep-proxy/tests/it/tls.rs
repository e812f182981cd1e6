use std::sync::Arc;
use std::time::SystemTime;

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
use skep_proxy::Listener;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::stage::{
    DOMAIN, Ending, Stage, accept_head, ending, host, listen, read_until, serve_app,
};

/// A proxy that speaks TLS, and the authority that its clients have to trust.
struct Secure {
    stage: Stage,
    roots: RootCertStore,
    _directory: TempDir,
}

impl Secure {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let domain = Domain::local(DOMAIN, directory.path(), SystemTime::now()).unwrap();
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_file(domain.authority().unwrap()).unwrap();
        roots.add(root).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let listener = Listener::tls(tcp, domain.server_config().unwrap());
        Self {
            stage: Stage::listening(listener, address, |_| {}),
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
