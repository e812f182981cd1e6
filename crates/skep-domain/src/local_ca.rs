//! An authority of this host's own, for a domain that no public one can vouch for.
//!
//! The authority is kept on disk, because its users have to trust it once. What it vouches for
//! is made anew at each start and stays in memory. It can vouch for nothing but the one domain
//! and this host's loopback, so trusting it gives nobody a hold on other names.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use skep_types::DomainName;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Validity of the authority.
const AUTHORITY_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// Time before its end at which the authority is replaced.
const AUTHORITY_RESERVE: Duration = Duration::from_secs(180 * 24 * 60 * 60);
/// Validity of a certificate. The server makes a new one long before.
const LEAF_LIFE: Duration = Duration::from_secs(90 * 24 * 60 * 60);

pub(crate) const CERTIFICATE: &str = "ca.pem";
pub(crate) const KEY: &str = "ca.key";
const EXPIRY: &str = "ca.expires";

/// An authority for one domain.
pub struct LocalCa {
    certificate: PathBuf,
    domain: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Certificates that are shown at the same time.
#[derive(Debug, Clone)]
pub struct Issued {
    /// Shown to clients that say which name they look for.
    pub named: Arc<CertifiedKey>,
    /// Shown to the others, which look for an address.
    pub addressed: Arc<CertifiedKey>,
}

/// Failure of the local certificate authority.
#[derive(Debug, thiserror::Error)]
pub enum LocalCaError {
    /// The directory of the authority cannot be read or written.
    #[error("cannot {operation} `{}`", path.display())]
    File {
        /// The operation that was tried, as a verb.
        operation: &'static str,
        /// File or directory of the operation.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// A file of the authority was damaged. Remove its directory to get a new authority.
    #[error("`{}` is damaged; remove its directory to make a new authority", path.display())]
    Damaged {
        /// The damaged file.
        path: PathBuf,
    },
    /// The domain is no domain name. It would also be the name of a directory.
    #[error("`{domain}` is not a domain name")]
    Domain {
        /// The text that is no domain name.
        domain: String,
    },
    /// The certificate cannot be made.
    #[error("cannot make a certificate for `{domain}`")]
    Certificate {
        /// The domain of the certificate.
        domain: String,
        /// The error of the certificate library.
        source: rcgen::Error,
    },
    /// The certificate was made but cannot be used.
    #[error("cannot use the certificate for `{domain}`")]
    Unusable {
        /// The domain of the certificate.
        domain: String,
        /// The error of the TLS library.
        source: rustls::Error,
    },
}

impl LocalCa {
    /// Opens the authority for `domain` below `directory`, or makes one if there is none or it is
    /// about to expire. A port behind the domain is cut off.
    ///
    /// # Errors
    ///
    /// If the directory cannot be used or what is in it was damaged.
    pub fn open(directory: &Path, domain: &str, now: SystemTime) -> Result<Self, LocalCaError> {
        let name = DomainName::new(domain);
        let domain = name.as_str();
        if !name.is_well_formed() {
            return Err(LocalCaError::Domain {
                domain: domain.to_owned(),
            });
        }
        let directory = directory.join(domain);
        let key = open_in(&directory, domain, &authority(domain), now)?;
        Ok(Self {
            certificate: directory.join(CERTIFICATE),
            domain: domain.to_owned(),
            issuer: Issuer::new(authority(domain), key),
        })
    }

    /// The file that clients have to trust.
    pub fn certificate_file(&self) -> &Path {
        &self.certificate
    }

    /// New certificates: one for the domain, everything below it and `localhost`, and one that is
    /// for the addresses of this host's loopback, too.
    ///
    /// They are apart because BoringSSL, which Bun and workerd have, knows no constraints on
    /// addresses: it refuses a certificate with an address in it that such an authority vouches
    /// for, also for its names.
    ///
    /// # Errors
    ///
    /// If the domain cannot stand in a certificate.
    pub fn issue(&self, now: SystemTime) -> Result<Issued, LocalCaError> {
        let names = [
            self.domain.clone(),
            format!("*.{}", self.domain),
            "localhost".to_owned(),
        ];
        let addresses = [
            Ipv4Addr::LOCALHOST.to_string(),
            Ipv6Addr::LOCALHOST.to_string(),
        ];
        let with_addresses = names.iter().chain(&addresses).cloned().collect();
        Ok(Issued {
            named: self.issue_for(names.to_vec(), now)?,
            addressed: self.issue_for(with_addresses, now)?,
        })
    }

    fn issue_for(
        &self,
        names: Vec<String>,
        now: SystemTime,
    ) -> Result<Arc<CertifiedKey>, LocalCaError> {
        let failed = |source| LocalCaError::Certificate {
            domain: self.domain.clone(),
            source,
        };
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name = named(&self.domain);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = (now - DAY).into();
        params.not_after = (now + LEAF_LIFE).into();
        let pair = KeyPair::generate().map_err(failed)?;
        let leaf = params.signed_by(&pair, &self.issuer).map_err(failed)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.serialize_der()));
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(vec![leaf.der().clone()], key, &provider);
        let unusable = |source| LocalCaError::Unusable {
            domain: self.domain.clone(),
            source,
        };
        certified.map(Arc::new).map_err(unusable)
    }
}

impl fmt::Debug for LocalCa {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LocalCa")
            .field("certificate", &self.certificate)
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}

/// The key of the authority with these parameters in a directory of its own, which is made if there
/// is none or it is about to expire. `subject` is for messages.
pub(crate) fn open_in(
    directory: &Path,
    subject: &str,
    authority: &CertificateParams,
    now: SystemTime,
) -> Result<KeyPair, LocalCaError> {
    let counts = is_there(directory)? && expiry(directory)? > now + AUTHORITY_RESERVE;
    if !counts {
        make(directory, subject, authority.clone(), now)?;
    }
    let path = directory.join(KEY);
    let text = std::fs::read_to_string(&path).map_err(file("read", &path))?;
    KeyPair::from_pem(&text).map_err(|_| LocalCaError::Damaged { path })
}

/// Parameters of the authority, apart from its key and its time: they must be the same each time
/// the key is read.
fn authority(domain: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    // Part of certificates that are trusted already: another name would need a new authority.
    params.distinguished_name = named(&format!("Skep on this machine, for {domain}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let loopback = |address: IpAddr, prefix| {
        GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, prefix))
    };
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![
            GeneralSubtree::DnsName(domain.to_owned()),
            GeneralSubtree::DnsName("localhost".to_owned()),
            loopback(Ipv4Addr::new(127, 0, 0, 0).into(), 8),
            loopback(Ipv6Addr::LOCALHOST.into(), 128),
        ],
        excluded_subtrees: Vec::new(),
    });
    params
}

fn named(name: &str) -> rcgen::DistinguishedName {
    let mut distinguished = rcgen::DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// Makes an authority in a directory of its own and moves it into place as a whole, so that a
/// crash leaves either the old one or the new one.
fn make(
    directory: &Path,
    subject: &str,
    mut params: CertificateParams,
    now: SystemTime,
) -> Result<(), LocalCaError> {
    let failed = |source| LocalCaError::Certificate {
        domain: subject.to_owned(),
        source,
    };
    let ends = now + AUTHORITY_LIFE;
    params.not_before = (now - DAY).into();
    params.not_after = ends.into();
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    let expiry = ends.duration_since(UNIX_EPOCH).unwrap_or_default();

    let (new, old) = (beside(directory, "new"), beside(directory, "old"));
    remove(&new)?;
    remove(&old)?;
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o755).create(&new);
    made.map_err(file("create", &new))?;
    write(&new.join(KEY), 0o600, &key.serialize_pem())?;
    write(&new.join(CERTIFICATE), 0o644, &certificate.pem())?;
    write(&new.join(EXPIRY), 0o644, &expiry.as_secs().to_string())?;
    if is_there(directory)? {
        std::fs::rename(directory, &old).map_err(file("move", directory))?;
    }
    std::fs::rename(&new, directory).map_err(file("move", &new))?;
    tracing::info!(directory = %directory.display(), "certificate authority created");
    remove(&old)
}

/// A directory for the time of the change. Extensions would make two domains share one.
fn beside(directory: &Path, purpose: &str) -> PathBuf {
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push("~");
    name.push(purpose);
    directory.with_file_name(name)
}

fn is_there(directory: &Path) -> Result<bool, LocalCaError> {
    directory.try_exists().map_err(file("look for", directory))
}

fn expiry(directory: &Path) -> Result<SystemTime, LocalCaError> {
    let path = directory.join(EXPIRY);
    let text = std::fs::read_to_string(&path).map_err(file("read", &path))?;
    match text.trim().parse() {
        Ok(seconds) => Ok(UNIX_EPOCH + Duration::from_secs(seconds)),
        Err(_) => Err(LocalCaError::Damaged { path }),
    }
}

fn write(path: &Path, mode: u32, text: &str) -> Result<(), LocalCaError> {
    let mut options = std::fs::OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(mode).open(path);
    let written = opened.and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
    written.map_err(file("write", path))
}

fn remove(directory: &Path) -> Result<(), LocalCaError> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(file("remove", directory)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn file(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LocalCaError {
    let path = path.to_owned();
    move |source| LocalCaError::File {
        operation,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_authority_stays_until_it_is_about_to_expire() {
        let directory = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let certificate = |now| {
            let ca = LocalCa::open(directory.path(), "skep.test", now).unwrap();
            std::fs::read_to_string(ca.certificate_file()).unwrap()
        };
        let first = certificate(now);
        assert_eq!(certificate(now + LEAF_LIFE), first);
        assert_ne!(certificate(now + AUTHORITY_LIFE - AUTHORITY_RESERVE), first);
    }

    #[test]
    fn what_is_no_domain_becomes_no_folder() {
        let directory = tempfile::tempdir().unwrap();
        for domain in ["", ".", "..", "a/b", "../x", "a..b", "*.a", "a b"] {
            let error = LocalCa::open(directory.path(), domain, SystemTime::now()).unwrap_err();
            assert!(
                matches!(error, LocalCaError::Domain { .. }),
                "{domain}: {error}"
            );
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let ca = LocalCa::open(directory.path(), "Skep.Test:8443", SystemTime::now()).unwrap();
        assert!(
            ca.certificate_file()
                .starts_with(directory.path().join("skep.test"))
        );
    }

    #[test]
    fn nobody_else_reads_the_key() {
        let directory = tempfile::tempdir().unwrap();
        LocalCa::open(directory.path(), "skep.test", SystemTime::now()).unwrap();
        let key = directory.path().join("skep.test").join(KEY);
        let mode = std::fs::metadata(key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_authority_is_not_silently_replaced() {
        let directory = tempfile::tempdir().unwrap();
        LocalCa::open(directory.path(), "skep.test", SystemTime::now()).unwrap();
        let key = directory.path().join("skep.test").join(KEY);
        std::fs::write(&key, "nonsense").unwrap();
        let error = LocalCa::open(directory.path(), "skep.test", SystemTime::now()).unwrap_err();
        assert!(
            matches!(&error, LocalCaError::Damaged { path } if *path == key),
            "{error}"
        );
    }

    #[test]
    fn a_half_made_authority_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let left_by_a_crash = directory.path().join("skep.test~new");
        std::fs::create_dir(&left_by_a_crash).unwrap();
        std::fs::write(left_by_a_crash.join(KEY), "half").unwrap();
        let ca = LocalCa::open(directory.path(), "skep.test", SystemTime::now()).unwrap();
        ca.issue(SystemTime::now()).unwrap();
        assert!(!left_by_a_crash.exists());
    }
}
