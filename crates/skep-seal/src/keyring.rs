//! The keys of a vault, the newest first, and what they seal.

use std::io;

use ring::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce};
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use crate::MasterKey;

const VERSION: u8 = 1;
const NAME_BYTES: usize = 8;
const SALT_BYTES: usize = 32;
const HEADER_BYTES: usize = 1 + NAME_BYTES + SALT_BYTES;
const PURPOSE: &[u8] = b"skep sealed value";

/// Keys of which the first seals, and all open: the others are there until nothing is left that was
/// sealed by them.
#[derive(Debug, Clone)]
pub struct Keyring(Vec<MasterKey>);

/// Failure to open what was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It was sealed by a key that is not among these. The key has to come back.
    #[error("it was sealed by a key that is not there")]
    NoKey,
    /// It is not what was sealed, or belongs to something else.
    #[error("it is not as it was sealed")]
    Differs,
}

impl Keyring {
    /// The keys, the newest first; `None` if there is none.
    pub fn new(keys: Vec<MasterKey>) -> Option<Self> {
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// Seals a value by the newest key, for the one thing that `context` names: it opens for no
    /// other.
    ///
    /// # Errors
    ///
    /// If the kernel gives no random bytes.
    pub fn seal(&self, context: &str, value: &[u8]) -> io::Result<Vec<u8>> {
        let [key, ..] = self.0.as_slice() else {
            return Err(io::Error::other("there is no key"));
        };
        let mut header = [VERSION; HEADER_BYTES];
        header[1..=NAME_BYTES].copy_from_slice(&key.name());
        let filled = SystemRandom::new().fill(&mut header[1 + NAME_BYTES..]);
        filled.map_err(|_| io::Error::other("the kernel gives no random bytes"))?;
        let cipher = key.derive(&header[1 + NAME_BYTES..], PURPOSE)?;
        let mut sealed = Zeroizing::new(value.to_vec());
        let bound = [&header[..], context.as_bytes()].concat();
        let tag = cipher
            .seal_in_place_separate_tag(nonce(), Aad::from(bound), &mut sealed)
            .map_err(|_| io::Error::other("the value cannot be encrypted"))?;
        Ok([&header[..], &sealed, tag.as_ref()].concat())
    }

    /// Opens what was sealed for `context`.
    ///
    /// # Errors
    ///
    /// [`OpenError`]
    pub fn open(&self, context: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        let (header, body) = sealed
            .split_at_checked(HEADER_BYTES)
            .filter(|(header, body)| {
                header.first() == Some(&VERSION) && body.len() >= AES_256_GCM.tag_len()
            })
            .ok_or(OpenError::Differs)?;
        let (name, salt) = header[1..].split_at(NAME_BYTES);
        let named = self.0.iter().find(|key| key.name() == name);
        let key = named.ok_or(OpenError::NoKey)?;
        let cipher = key.derive(salt, PURPOSE).map_err(|_| OpenError::Differs)?;
        let mut value = Zeroizing::new(body.to_vec());
        let bound = [header, context.as_bytes()].concat();
        let length = cipher
            .open_in_place(nonce(), Aad::from(bound), &mut value)
            .map_err(|_| OpenError::Differs)?
            .len();
        value.truncate(length);
        Ok(value)
    }

    /// Returns true if something was sealed by the newest key.
    pub fn is_current(&self, sealed: &[u8]) -> bool {
        let newest = self.0.first().map(MasterKey::name);
        let name = sealed.get(1..=NAME_BYTES);
        newest.is_some_and(|newest| name == Some(&newest[..]))
    }
}

/// The nonce, which is used once: every salt makes another key.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(bytes: &[u8]) -> Keyring {
        let keys = bytes.iter().map(|byte| MasterKey::from_bytes([*byte; 32]));
        Keyring::new(keys.collect()).unwrap()
    }

    #[test]
    fn a_value_opens_for_its_own_thing_and_shows_nothing() {
        let sealed = ring(&[1]).seal("team/one", b"hunter2").unwrap();
        assert_eq!(*ring(&[1]).open("team/one", &sealed).unwrap(), b"hunter2");
        assert!(!sealed.windows(7).any(|part| part == b"hunter2"));
        assert_ne!(sealed, ring(&[1]).seal("team/one", b"hunter2").unwrap());
        // The row of another.
        let elsewhere = ring(&[1]).open("team/two", &sealed);
        assert_eq!(elsewhere.unwrap_err(), OpenError::Differs);
        for position in 0..sealed.len() {
            let mut edited = sealed.clone();
            edited[position] ^= 1;
            ring(&[1]).open("team/one", &edited).unwrap_err();
            ring(&[1])
                .open("team/one", &sealed[..position])
                .unwrap_err();
        }
    }

    #[test]
    fn a_new_key_seals_and_the_old_one_opens_as_long_as_it_is_there() {
        let old = ring(&[1]).seal("a", b"x").unwrap();
        let both = ring(&[2, 1]);
        assert_eq!(*both.open("a", &old).unwrap(), b"x");
        assert!(!both.is_current(&old));
        let new = both.seal("a", b"x").unwrap();
        assert!(both.is_current(&new));
        let rotated = ring(&[2]);
        assert_eq!(*rotated.open("a", &new).unwrap(), b"x");
        assert_eq!(rotated.open("a", &old).unwrap_err(), OpenError::NoKey);
    }
}
