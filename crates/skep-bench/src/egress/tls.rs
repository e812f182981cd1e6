//! TLS of the bench: an authority that lives as long as a run, and both ends of a connection.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::error::{BenchError, local};

/// HTTP/1.1 alone, so that all routes speak the same.
const PROTOCOL: &[u8] = b"http/1.1";

/// Files of an authority and of a host that it vouches for.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    /// Certificate of the authority.
    pub(super) authority: PathBuf,
    /// Certificate of the host.
    pub(super) certificate: PathBuf,
    /// Key of the host.
    pub(super) key: PathBuf,
}

impl Identity {
    /// Makes an authority and a certificate for `host`, in files of `directory`.
    pub(super) fn make(host: &str, directory: &Path) -> Result<Self, BenchError> {
        let identity = Self {
            authority: directory.join("authority.pem"),
            certificate: directory.join("origin.pem"),
            key: directory.join("origin.key"),
        };
        let [authority, certificate, key] = sign(host)
            .map_err(io::Error::other)
            .map_err(local("make a certificate in", directory))?;
        for (path, text) in [
            (&identity.authority, authority),
            (&identity.certificate, certificate),
            (&identity.key, key),
        ] {
            fs::write(path, text).map_err(local("write", path))?;
        }
        Ok(identity)
    }
}

/// The authority's certificate, the host's, and the host's key, in PEM.
fn sign(host: &str) -> Result<[String; 3], rcgen::Error> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate()?;
    let authority = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);
    let pair = KeyPair::generate()?;
    let leaf = CertificateParams::new(vec![host.to_owned()])?.signed_by(&pair, &issuer)?;
    Ok([authority, leaf.pem(), pair.serialize_pem()])
}

/// The host's end.
pub(super) fn server(certificate: &Path, key: &Path) -> io::Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate = CertificateDer::from_pem_file(certificate).map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(io::Error::other)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Arc::new(config))
}

/// A client's end, which trusts the authority in this file. It resumes no session, so that every
/// connection costs what the first one does.
pub(super) fn client(authority: &Path) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(authority).map_err(io::Error::other)?;
    roots.add(certificate).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}
