//! An authority for what sandboxes are shown in place of the hosts that rules name.
//!
//! It can vouch for every name, so nobody trusts it but sandboxes, and its key never leaves the
//! server: what terminates a sandbox's TLS has a certificate for one host and for a day.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use skep_types::HostName;

use crate::local_ca::{self, LocalCaError};

/// Common name of the authority, which users see who look at a certificate. Part of certificates
/// that sandboxes trust already: another name would need a new authority.
const NAME: &str = "Skep egress rules on this machine";
/// Validity before the moment of issue, for sandboxes whose clock is behind.
const BEFORE: Duration = Duration::from_hours(1);
/// Validity after it.
const AFTER: Duration = Duration::from_hours(24);

/// The authority that sandboxes trust for hosts that rules name.
pub struct EgressCa {
    certificate: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate for one host, with its key.
#[derive(Clone)]
pub struct HostCertificate {
    /// The certificate, in DER.
    pub certificate: Vec<u8>,
    /// Its private key, in PKCS #8.
    pub key: Vec<u8>,
}

impl EgressCa {
    /// Opens the authority in `directory`, or makes one if there is none or it is about to expire.
    ///
    /// # Errors
    ///
    /// If the directory cannot be used or what is in it was damaged.
    pub fn open(directory: &Path, now: SystemTime) -> Result<Self, LocalCaError> {
        let key = local_ca::open_in(directory, NAME, &authority(), now)?;
        Ok(Self {
            certificate: directory.join(local_ca::CERTIFICATE),
            issuer: Issuer::new(authority(), key),
        })
    }

    /// The file that sandboxes have to trust, in PEM.
    pub fn certificate_file(&self) -> &Path {
        &self.certificate
    }

    /// A new certificate for a host, valid for a day.
    ///
    /// # Errors
    ///
    /// If the name cannot stand in a certificate.
    pub fn issue(&self, host: &HostName, now: SystemTime) -> Result<HostCertificate, LocalCaError> {
        let failed = |source| LocalCaError::Certificate {
            domain: host.to_string(),
            source,
        };
        let names = vec![host.as_str().to_owned()];
        let mut params = CertificateParams::new(names).map_err(failed)?;
        // The name is among the alternative ones; a common name has no room for long ones.
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, NAME);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = (now - BEFORE).into();
        params.not_after = (now + AFTER).into();
        let pair = KeyPair::generate().map_err(failed)?;
        let leaf = params.signed_by(&pair, &self.issuer).map_err(failed)?;
        Ok(HostCertificate {
            certificate: leaf.der().to_vec(),
            key: pair.serialize_der(),
        })
    }
}

/// Parameters of the authority, apart from its key and its time: they must be the same each time
/// the key is read.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

impl fmt::Debug for EgressCa {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EgressCa")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for HostCertificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HostCertificate")
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _};

    use super::*;

    fn vouches(ca: &EgressCa, leaf: &HostCertificate, name: &str, at: SystemTime) -> bool {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_file(ca.certificate_file()).unwrap();
        roots.add(root).unwrap();
        let provider = rustls::crypto::ring::default_provider().into();
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider)
            .build()
            .unwrap();
        let leaf = CertificateDer::from(leaf.certificate.clone());
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let at = UnixTime::since_unix_epoch(at.duration_since(SystemTime::UNIX_EPOCH).unwrap());
        verifier
            .verify_server_cert(&leaf, &[], &name, &[], at)
            .is_ok()
    }

    #[test]
    fn a_certificate_is_for_one_host_and_for_a_day() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("egress-ca");
        let now = SystemTime::now();
        let host: HostName = "api.example.com".parse().unwrap();
        let ca = EgressCa::open(&place, now).unwrap();
        let leaf = ca.issue(&host, now).unwrap();
        assert!(vouches(&ca, &leaf, "api.example.com", now));
        assert!(!vouches(&ca, &leaf, "example.com", now));
        assert!(!vouches(&ca, &leaf, "api.example.com", now + 2 * AFTER));
        // The next start has the same authority, and nobody else reads its key.
        let again = EgressCa::open(&place, now + AFTER).unwrap();
        assert!(vouches(&again, &leaf, "api.example.com", now));
        let key = std::fs::metadata(place.join(local_ca::KEY)).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_longest_name_stands_in_a_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let ca = EgressCa::open(&directory.path().join("ca"), now).unwrap();
        let long = vec!["a".repeat(60); 4].join(".");
        let leaf = ca.issue(&long.parse().unwrap(), now).unwrap();
        assert!(vouches(&ca, &leaf, &long, now));
    }
}
