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
use skep_proxy::{CertificateError, CertificateSource, Certificates, Listener, LocalCa};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::stage::{
    DOMAIN, Ending, Stage, accept_head, ending, host, listen, read_until, serve_app,
};

/// A frontend that speaks TLS, and whom its clients have to trust.
struct Secure {
    stage: Stage,
    certificates: Arc<Certificates>,
    roots: RootCertStore,
    _folder: TempDir,
}

impl Secure {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ca = LocalCa::open(folder.path(), DOMAIN, SystemTime::now()).unwrap();
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_file(ca.certificate_file()).unwrap();
        roots.add(root).unwrap();
        let source = CertificateSource::Local(Box::new(ca));
        let certificates = Certificates::load(source, SystemTime::now()).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let listener = Listener::tls(tcp, certificates.server_config().unwrap());
        Self {
            stage: Stage::listening(listener, address, |_| {}),
            certificates,
            roots,
            _folder: folder,
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
async fn the_certificate_is_for_the_domain_and_this_machine_and_nobody_else() {
    let secure = Secure::new().await;
    for name in [
        "skep.test",
        "api.skep.test",
        "localhost",
        "127.0.0.1",
        "::1",
    ] {
        secure.connect(name, &[]).await.unwrap();
    }
    for name in ["example.com", "a.b.skep.test"] {
        let error = secure.connect(name, &[]).await.unwrap_err();
        assert!(
            error.to_string().contains("not valid for name"),
            "{name}: {error}"
        );
    }
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

fn shown(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_to_the_next_client() {
    let secure = Secure::new().await;
    let first = secure.connect("localhost", &[]).await.unwrap();
    let second = secure.connect("localhost", &[]).await.unwrap();
    assert_eq!(shown(&first), shown(&second));
    secure.certificates.renew(SystemTime::now()).unwrap();
    let third = secure.connect("localhost", &[]).await.unwrap();
    assert_ne!(shown(&first), shown(&third));
}

#[tokio::test]
async fn own_certificates_are_read_again_when_they_were_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = (
        folder.path().join("chain.pem"),
        folder.path().join("key.pem"),
    );
    let place = || {
        let made = rcgen::generate_simple_self_signed(["own.test".to_owned()]).unwrap();
        std::fs::write(&chain, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        made.cert.der().to_vec()
    };
    let mut roots = RootCertStore::empty();
    let first = place();
    roots.add(CertificateDer::from(first)).unwrap();
    let source = || CertificateSource::Files {
        chain: chain.clone(),
        key: key.clone(),
    };
    let certificates = Certificates::load(source(), SystemTime::now()).unwrap();

    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let listener = Listener::tls(tcp, certificates.server_config().unwrap());
    let stage = Stage::listening(listener, address, |_| {});
    let mut secure = Secure {
        stage,
        certificates,
        roots,
        _folder: folder,
    };
    secure.connect("own.test", &[]).await.unwrap();

    let second = place();
    secure.certificates.renew(SystemTime::now()).unwrap();
    secure
        .roots
        .add(CertificateDer::from(second.clone()))
        .unwrap();
    assert_eq!(
        shown(&secure.connect("own.test", &[]).await.unwrap()),
        second
    );

    // What cannot be read leaves the old one in place.
    std::fs::write(&key, "nonsense").unwrap();
    let error = secure.certificates.renew(SystemTime::now()).unwrap_err();
    assert!(
        matches!(error, CertificateError::File { what: "a key", .. }),
        "{error}"
    );
    assert_eq!(
        shown(&secure.connect("own.test", &[]).await.unwrap()),
        second
    );

    let other = rcgen::KeyPair::generate().unwrap();
    std::fs::write(&key, other.serialize_pem()).unwrap();
    let error = Certificates::load(source(), SystemTime::now()).unwrap_err();
    assert!(
        matches!(error, CertificateError::Mismatch { .. }),
        "{error}"
    );
}
