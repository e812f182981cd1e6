//! The domain that a server is reached by, and its certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;

use crate::certificates::{CertificateError, CertificateSource, Certificates};
use crate::local_ca::LocalCa;

/// The domain of a server whose operator names none. The SDKs and browsers resolve `*.localhost` to
/// this host without asking anybody; programs that ask the system need [`crate::LocalDns`].
pub const LOCAL_DOMAIN: &str = "skep.localhost";

/// Interval between two renewals of a certificate.
const RENEWAL_INTERVAL: Duration = Duration::from_hours(1);

/// A domain with certificates for it and the names below it.
#[derive(Debug)]
pub struct Domain {
    name: String,
    certificates: Arc<Certificates>,
    authority: Option<PathBuf>,
}

impl Domain {
    /// A domain of this host alone, with an authority of its own that is kept in `directory`.
    ///
    /// # Errors
    ///
    /// If the authority cannot be opened or made.
    pub fn local(
        name: impl Into<String>,
        directory: &Path,
        now: SystemTime,
    ) -> Result<Self, CertificateError> {
        let name = name.into();
        let authority = LocalCa::open(directory, &name, now)?;
        let trusted = authority.certificate_file().to_owned();
        let source = CertificateSource::Local(Box::new(authority));
        Ok(Self {
            name,
            certificates: Certificates::load(source, now)?,
            authority: Some(trusted),
        })
    }

    /// A domain whose certificate and key are files in PEM that somebody else keeps fresh.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or the key does not belong to the certificate.
    pub fn from_files(
        name: impl Into<String>,
        chain: PathBuf,
        key: PathBuf,
        now: SystemTime,
    ) -> Result<Self, CertificateError> {
        let source = CertificateSource::Files { chain, key };
        Ok(Self {
            name: name.into(),
            certificates: Certificates::load(source, now)?,
            authority: None,
        })
    }

    /// The domain as its operator wrote it, perhaps with a port.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The certificate that clients have to trust, if the authority is this host's own.
    pub fn authority(&self) -> Option<&Path> {
        self.authority.as_deref()
    }

    /// The TLS configuration of a listener for this domain.
    ///
    /// # Errors
    ///
    /// If the TLS library was built without what it needs.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        self.certificates.server_config()
    }

    /// Renews the certificate again and again. Never returns; spawn it and drop it.
    pub fn keep_fresh(&self) -> impl Future<Output = ()> + Send + use<> {
        Arc::clone(&self.certificates).keep_fresh(RENEWAL_INTERVAL)
    }
}
