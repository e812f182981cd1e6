use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use skep_domain::{CertificateError, CertificateSource, Certificates, LocalCa};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A server that shakes hands and holds on, and the authority that its clients have to trust.
struct Secure {
    address: SocketAddr,
    certificates: Arc<Certificates>,
    roots: RootCertStore,
}

impl Secure {
    async fn new(source: CertificateSource, root: CertificateDer<'static>) -> Self {
        let certificates = Certificates::load(source, SystemTime::now()).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(certificates.server_config().unwrap());
        drop(skep_telemetry::spawn("server", async move {
            let mut open = Vec::new();
            loop {
                let (stream, _) = tcp.accept().await.unwrap();
                open.push(acceptor.accept(stream).await);
            }
        }));
        let mut roots = RootCertStore::empty();
        roots.add(root).unwrap();
        Self {
            address,
            certificates,
            roots,
        }
    }

    async fn local() -> (Self, TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let ca = LocalCa::open(directory.path(), "skep.test", SystemTime::now()).unwrap();
        let root = CertificateDer::from_pem_file(ca.certificate_file()).unwrap();
        let source = CertificateSource::Local(Box::new(ca));
        (Self::new(source, root).await, directory)
    }

    async fn connect(&self, name: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let stream = TcpStream::connect(self.address).await?;
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }
}

#[tokio::test]
async fn the_certificate_is_for_the_domain_and_this_host_and_nobody_else() {
    let (secure, _directory) = Secure::local().await;
    for name in [
        "skep.test",
        "api.skep.test",
        "localhost",
        "127.0.0.1",
        "::1",
    ] {
        secure.connect(name).await.unwrap();
    }
    for name in ["example.com", "a.b.skep.test"] {
        let error = secure.connect(name).await.unwrap_err();
        assert!(
            error.to_string().contains("not valid for name"),
            "{name}: {error}"
        );
    }
}

fn shown(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_to_the_next_client() {
    let (secure, _directory) = Secure::local().await;
    let first = secure.connect("localhost").await.unwrap();
    let second = secure.connect("localhost").await.unwrap();
    assert_eq!(shown(&first), shown(&second));
    secure.certificates.renew(SystemTime::now()).unwrap();
    let third = secure.connect("localhost").await.unwrap();
    assert_ne!(shown(&first), shown(&third));
}

#[tokio::test]
async fn own_certificates_are_read_again_when_they_were_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let (chain, key) = (
        directory.path().join("chain.pem"),
        directory.path().join("key.pem"),
    );
    let place = || {
        let made = rcgen::generate_simple_self_signed(["own.test".to_owned()]).unwrap();
        std::fs::write(&chain, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        made.cert.der().to_vec()
    };
    let source = || CertificateSource::Files {
        chain: chain.clone(),
        key: key.clone(),
    };
    let mut secure = Secure::new(source(), CertificateDer::from(place())).await;
    secure.connect("own.test").await.unwrap();

    let second = place();
    secure.certificates.renew(SystemTime::now()).unwrap();
    secure
        .roots
        .add(CertificateDer::from(second.clone()))
        .unwrap();
    assert_eq!(shown(&secure.connect("own.test").await.unwrap()), second);

    // What cannot be read leaves the old one in place.
    std::fs::write(&key, "nonsense").unwrap();
    let error = secure.certificates.renew(SystemTime::now()).unwrap_err();
    assert!(
        matches!(error, CertificateError::File { what: "a key", .. }),
        "{error}"
    );
    assert_eq!(shown(&secure.connect("own.test").await.unwrap()), second);

    let other = rcgen::KeyPair::generate().unwrap();
    std::fs::write(&key, other.serialize_pem()).unwrap();
    let error = Certificates::load(source(), SystemTime::now()).unwrap_err();
    assert!(
        matches!(error, CertificateError::Mismatch { .. }),
        "{error}"
    );
}
