//! TLS towards services that speak nothing else.
//!
//! The connection does not leave this host, and whoever answers is in the sandbox whatever it shows:
//! certificates there are self-signed and prove nothing, so none is looked at.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Time limit for a service to agree on a connection. One that is slower gave no answer.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

static CONNECTOR: LazyLock<TlsConnector> = LazyLock::new(|| TlsConnector::from(config()));

/// Speaks TLS on a connection to a service at `address`.
pub(super) async fn wrap<I>(io: I, address: IpAddr) -> io::Result<Secured<I>>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let name = ServerName::IpAddress(address.into());
    let connecting = tokio::time::timeout(HANDSHAKE_TIMEOUT, CONNECTOR.connect(name, io));
    Ok(Secured(connecting.await??))
}

/// A connection to a service that may end without a word of farewell.
///
/// Many programs close a connection without TLS's own notice, and answers that last until the end
/// of the connection would break off for it. The notice tells of somebody who cuts connections on
/// their way, and between this host and its own sandbox there is nobody.
#[derive(Debug)]
pub(super) struct Secured<I>(TlsStream<I>);

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secured<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.0).poll_read(context, buffer));
        Poll::Ready(match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            read => read,
        })
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secured<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

fn config() -> Arc<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for both versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Addresses go from one sandbox to the next, and a session of one is none of the other's.
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Arc::new(config)
}

/// Takes every certificate, and checks only that whoever shows it has its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
