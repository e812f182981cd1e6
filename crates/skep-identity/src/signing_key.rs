//! Keys that sign tokens.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use skep_seal::Zeroizing;

/// Length of a coordinate of the curve, in bytes.
const COORDINATE: usize = 32;
/// First byte of a point that is written whole.
const WHOLE_POINT: u8 = 4;

/// A key that signs tokens.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    public: PublicKey,
}

/// The public half of a key, as everybody may have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// Its name in tokens: the thumbprint of RFC 7638.
    pub id: String,
    /// Horizontal coordinate, as base64url.
    pub x: String,
    /// Vertical coordinate, as base64url.
    pub y: String,
}

/// Failure to make, read or use a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SigningKeyError {
    /// The kernel gives no random bytes.
    #[error("cannot make a key")]
    Make,
    /// It is no key of the curve.
    #[error("not a key for tokens")]
    Malformed,
    /// The signature failed, which takes random bytes.
    #[error("cannot sign")]
    Sign,
}

impl SigningKey {
    /// A new key, as PKCS #8.
    ///
    /// # Errors
    ///
    /// [`SigningKeyError::Make`]
    pub fn generate() -> Result<Zeroizing<Vec<u8>>, SigningKeyError> {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
            .map_err(|_unspecified| SigningKeyError::Make)?;
        Ok(Zeroizing::new(document.as_ref().to_vec()))
    }

    /// Reads a key from PKCS #8.
    ///
    /// # Errors
    ///
    /// [`SigningKeyError::Malformed`]
    pub fn from_pkcs8(document: &[u8]) -> Result<Self, SigningKeyError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document, &random)
            .map_err(|_rejected| SigningKeyError::Malformed)?;
        let public =
            PublicKey::of_point(pair.public_key().as_ref()).ok_or(SigningKeyError::Malformed)?;
        Ok(Self { pair, public })
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn sign(&self, text: &[u8]) -> Result<Vec<u8>, SigningKeyError> {
        let signature = self
            .pair
            .sign(&SystemRandom::new(), text)
            .map_err(|_unspecified| SigningKeyError::Sign)?;
        Ok(signature.as_ref().to_vec())
    }
}

impl PublicKey {
    fn of_point(point: &[u8]) -> Option<Self> {
        let (first, coordinates) = point.split_first()?;
        let (x, y) = coordinates.split_at_checked(COORDINATE)?;
        if *first != WHOLE_POINT || y.len() != COORDINATE {
            return None;
        }
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        // The members in this order and nothing between them, as the thumbprint is defined.
        let members = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, members.as_bytes()));
        Some(Self { id, x, y })
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SigningKey")
            .field("id", &self.public.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_and_is_known_by_the_same_name() {
        let document = SigningKey::generate().unwrap();
        let key = SigningKey::from_pkcs8(&document).unwrap();
        let again = SigningKey::from_pkcs8(&document).unwrap();
        assert_eq!(key.public(), again.public());
        let other = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
        assert_ne!(key.public().id, other.public().id);
        SigningKey::from_pkcs8(&document[1..]).unwrap_err();
    }
}
