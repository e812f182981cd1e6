//! Java's older keystores (JKS), in which distributions keep the authorities that Java trusts.
//!
//! ```text
//! magic, version, number of entries            4 bytes each
//! an entry: kind, name, time, then
//!     of a certificate:   type, length, bytes
//!     of a private key:   length, bytes, number of certificates, each as above
//! SHA-1 over the password, a salt that is always the same, and all of the above
//! ```
//!
//! Numbers have their high byte first; names and types have their length (2 bytes) before them.

use sha1::{Digest as _, Sha1};

const MAGIC: u32 = 0xfeed_feed;
/// The one version that Java has written since 1998.
const VERSION: u32 = 2;
const PRIVATE_KEY: u32 = 1;
const CERTIFICATE: u32 = 2;
const X509: &str = "X.509";
/// Length of what stands before the entries.
const HEAD: usize = 12;
const DIGEST: usize = 20;
/// The password of every distribution's keystore. Nothing in it is secret: it finds damage.
const PASSWORD: &str = "changeit";
const SALT: &[u8] = b"Mighty Aphrodite";

/// Reason for which a keystore cannot be added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeystoreError {
    /// It may be PKCS #12, which Java reads as well.
    #[error("the keystore is not of the format JKS")]
    Format,
    /// It has another end than its lengths say.
    #[error("the keystore is broken")]
    Broken,
    /// Somebody has given it a password, or changed a byte of it.
    #[error("the keystore has another password than `{PASSWORD}`")]
    Password,
}

/// A keystore in which this certificate, in DER, has this name in place of whatever had it. `None` if
/// the keystore has it already.
///
/// The name is in small letters, as those that Java itself writes. `time` is in milliseconds from 1970.
pub(super) fn with_certificate(
    keystore: &[u8],
    name: &str,
    certificate: &[u8],
    time: u64,
) -> Result<Option<Vec<u8>>, KeystoreError> {
    let body = checked(keystore)?;
    let mut rest = Reader(&body[8..]);
    let count = rest.number()?;
    let mut kept = 0_u32;
    let mut entries = Vec::with_capacity(body.len());
    for _ in 0..count {
        let before = rest.0;
        let entry = rest.entry()?;
        if entry.certificate == Some(certificate) && entry.name == name.as_bytes() {
            return Ok(None);
        }
        if entry.name != name.as_bytes() {
            entries.extend_from_slice(&before[..before.len() - rest.0.len()]);
            kept += 1;
        }
    }
    if !rest.0.is_empty() {
        return Err(KeystoreError::Broken);
    }
    let mut changed = Vec::with_capacity(body.len() + certificate.len() + 64);
    changed.extend_from_slice(&body[..8]);
    changed.extend_from_slice(&(kept + 1).to_be_bytes());
    changed.append(&mut entries);
    changed.extend_from_slice(&CERTIFICATE.to_be_bytes());
    push_text(&mut changed, name);
    changed.extend_from_slice(&time.to_be_bytes());
    push_text(&mut changed, X509);
    let length = u32::try_from(certificate.len()).map_err(|_| KeystoreError::Broken)?;
    changed.extend_from_slice(&length.to_be_bytes());
    changed.extend_from_slice(certificate);
    let digest = digest(&changed);
    changed.extend_from_slice(&digest);
    Ok(Some(changed))
}

/// The bytes before the digest, if that is right.
fn checked(keystore: &[u8]) -> Result<&[u8], KeystoreError> {
    let mut head = Reader(keystore);
    let starts = head.number() == Ok(MAGIC) && head.number() == Ok(VERSION);
    if !starts {
        return Err(KeystoreError::Format);
    }
    let (body, stored) = keystore
        .split_last_chunk::<DIGEST>()
        .filter(|(body, _)| body.len() >= HEAD)
        .ok_or(KeystoreError::Broken)?;
    if digest(body) != *stored {
        return Err(KeystoreError::Password);
    }
    Ok(body)
}

fn digest(body: &[u8]) -> [u8; DIGEST] {
    let mut digest = Sha1::new();
    for unit in PASSWORD.encode_utf16() {
        digest.update(unit.to_be_bytes());
    }
    digest.update(SALT);
    digest.update(body);
    digest.finalize().into()
}

/// Appends a text of ours, which is short.
fn push_text(to: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("names and types of ours are short");
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(text.as_bytes());
}

struct Entry<'a> {
    name: &'a [u8],
    /// Nothing for a private key.
    certificate: Option<&'a [u8]>,
}

/// Bytes of a keystore that have not been read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn entry(&mut self) -> Result<Entry<'a>, KeystoreError> {
        let kind = self.number()?;
        let name = self.text()?;
        // Its time.
        self.take(8)?;
        let certificate = match kind {
            CERTIFICATE => Some(self.certificate()?),
            PRIVATE_KEY => {
                self.bytes()?;
                for _ in 0..self.number()? {
                    self.certificate()?;
                }
                None
            }
            _ => return Err(KeystoreError::Broken),
        };
        Ok(Entry { name, certificate })
    }

    fn certificate(&mut self) -> Result<&'a [u8], KeystoreError> {
        self.text()?;
        self.bytes()
    }

    fn bytes(&mut self) -> Result<&'a [u8], KeystoreError> {
        let length = usize::try_from(self.number()?).map_err(|_| KeystoreError::Broken)?;
        self.take(length)
    }

    fn text(&mut self) -> Result<&'a [u8], KeystoreError> {
        let length = u16::from_be_bytes(self.array()?);
        self.take(usize::from(length))
    }

    fn number(&mut self) -> Result<u32, KeystoreError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], KeystoreError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(KeystoreError::Broken)?;
        self.0 = rest;
        Ok(*array)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], KeystoreError> {
        let taken = self.0.split_at_checked(length);
        let (taken, rest) = taken.ok_or(KeystoreError::Broken)?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
