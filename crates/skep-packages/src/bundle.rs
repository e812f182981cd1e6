//! The certificates a host trusts.

use std::collections::BTreeSet;

use crate::settings::{Host, PackageSettingsError};

/// Paths of the system's certificate bundle: Debian, Fedora, openSUSE, Alpine.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Variables that name a bundle.
const VARIABLES: [&str; 5] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
];

/// Everything the host trusts: its own bundle, and what single clients were told beside it.
pub(crate) fn collect(
    host: &Host<'_>,
    beside: impl Iterator<Item = String>,
) -> Result<Option<String>, PackageSettingsError> {
    let mut texts = Vec::new();
    for path in SYSTEM {
        if let Some(text) = host.file(path)? {
            texts.push(text);
            break;
        }
    }
    let named = VARIABLES
        .iter()
        .filter_map(|name| host.env.get(*name).cloned());
    for path in named.chain(beside) {
        texts.extend(host.file(path)?);
    }
    let merged = merge(texts.iter().map(String::as_str));
    Ok((!merged.is_empty()).then_some(merged))
}

/// The certificates of all bundles, each once, in the order of their first appearance.
pub(crate) fn merge<'a>(bundles: impl Iterator<Item = &'a str>) -> String {
    let mut seen = BTreeSet::new();
    let mut merged = String::new();
    for certificate in bundles.flat_map(certificates) {
        let body: String = certificate.split_whitespace().collect();
        if seen.insert(body) {
            merged.push_str(certificate);
            merged.push('\n');
        }
    }
    merged
}

fn certificates(bundle: &str) -> impl Iterator<Item = &str> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let mut rest = bundle;
    std::iter::from_fn(move || {
        let start = rest.find(BEGIN)?;
        let length = rest[start..].find(END)? + END.len();
        let certificate = &rest[start..start + length];
        rest = &rest[start + length..];
        Some(certificate)
    })
}

/// Variables by which programs with a bundle of their own use this one.
pub(crate) fn env(path: &str) -> impl Iterator<Item = (String, String)> {
    let path = path.to_owned();
    [
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "NODE_EXTRA_CA_CERTS",
    ]
    .into_iter()
    .map(move |name| (name.to_owned(), path.clone()))
}
