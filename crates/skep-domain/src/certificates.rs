//! The certificates the proxy shows, renewed while it is open.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use skep_telemetry::Chain;

use crate::local_ca::{Issued, LocalCa, LocalCaError};

/// Source of the server's certificates.
#[derive(Debug)]
pub enum CertificateSource {
    /// An authority of this host's own.
    Local(Box<LocalCa>),
    /// Files in PEM that somebody else keeps fresh.
    Files {
        /// The certificate, and those that lead to its authority.
        chain: PathBuf,
        /// File of its private key.
        key: PathBuf,
    },
}

/// Failure to load or make a certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The own authority failed.
    #[error(transparent)]
    Local(#[from] LocalCaError),
    /// A file cannot be read as what it should be.
    #[error("cannot read {what} from `{}`", path.display())]
    File {
        /// Expected contents of the file, for the message.
        what: &'static str,
        /// The file that cannot be read.
        path: PathBuf,
        /// The error of reading or decoding.
        source: pem::Error,
    },
    /// The key does not belong to the certificate, or is of a kind we cannot use.
    #[error("cannot use the key `{}` with the certificate", key.display())]
    Mismatch {
        /// File of the key.
        key: PathBuf,
        /// The error of the TLS library.
        source: rustls::Error,
    },
    /// The protocol versions of this build do not fit together.
    #[error("cannot configure TLS")]
    Protocol(#[source] rustls::Error),
}

/// The certificates that are shown now.
pub struct Certificates {
    source: CertificateSource,
    current: RwLock<Issued>,
}

impl Certificates {
    /// Reads or makes the first certificate.
    ///
    /// # Errors
    ///
    /// If there is none to show.
    pub fn load(source: CertificateSource, now: SystemTime) -> Result<Arc<Self>, CertificateError> {
        let current = RwLock::new(source.certificate(now)?);
        Ok(Arc::new(Self { source, current }))
    }

    /// The TLS configuration of a listener with these certificates: HTTP/2 or HTTP/1.1 as the
    /// client chooses, and HTTP/1.1 with a client that does not choose.
    ///
    /// # Errors
    ///
    /// If the TLS library was built without what it needs.
    pub fn server_config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, CertificateError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(CertificateError::Protocol)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Reads or makes the certificate again, for connections from now on. If that fails the
    /// old one stays.
    ///
    /// # Errors
    ///
    /// If there is no new one.
    pub fn renew(&self, now: SystemTime) -> Result<(), CertificateError> {
        let fresh = self.source.certificate(now)?;
        *self.current.write() = fresh;
        Ok(())
    }

    /// Renews the certificate again and again. Never returns; spawn it and drop it.
    pub async fn keep_fresh(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let certificates = Arc::clone(&self);
            let renewed =
                tokio::task::spawn_blocking(move || certificates.renew(SystemTime::now()));
            match renewed.await {
                Ok(Ok(())) => tracing::debug!("certificate renewed"),
                Ok(Err(error)) => {
                    tracing::warn!(error = %Chain(&error), "certificate not renewed, the old one stays");
                }
                Err(error) => {
                    tracing::error!(error = %Chain(&error), "certificate renewal panicked")
                }
            }
        }
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Certificates")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read();
        Some(match hello.server_name() {
            Some(_) => Arc::clone(&current.named),
            None => Arc::clone(&current.addressed),
        })
    }
}

impl CertificateSource {
    fn certificate(&self, now: SystemTime) -> Result<Issued, CertificateError> {
        let (chain, key) = match self {
            Self::Local(ca) => return Ok(ca.issue(now)?),
            Self::Files { chain, key } => (chain, key),
        };
        let certificates = CertificateDer::pem_file_iter(chain)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .and_then(|found| {
                if found.is_empty() {
                    return Err(pem::Error::NoItemsFound);
                }
                Ok(found)
            })
            .map_err(|source| CertificateError::File {
                what: "a certificate",
                path: chain.clone(),
                source,
            })?;
        let private =
            PrivateKeyDer::from_pem_file(key).map_err(|source| CertificateError::File {
                what: "a key",
                path: key.clone(),
                source,
            })?;
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(certificates, private, &provider)
            .map(Arc::new)
            .map_err(|source| CertificateError::Mismatch {
                key: key.clone(),
                source,
            })?;
        Ok(Issued {
            named: Arc::clone(&certified),
            addressed: certified,
        })
    }
}
