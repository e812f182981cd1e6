//! One key of the operator's.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::{Zeroize as _, Zeroizing};

/// Length of a key.
pub const KEY_BYTES: usize = 32;
/// Longest file that is taken for one with keys: some lines of digits.
const KEY_FILE_BYTES: u64 = 4096;

/// A key from which those are derived that encrypt something. Wiped when it is dropped.
#[derive(Clone)]
pub struct MasterKey([u8; KEY_BYTES]);

impl fmt::Debug for MasterKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("MasterKey(..)")
    }
}

impl Drop for MasterKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Failure to read a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or made.
    #[error("cannot read the key in `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Others than its owner may use the file, so it is no secret.
    #[error("`{}` can be read by others than its owner (mode {mode:o})", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its rights.
        mode: u32,
    },
    /// It holds something else.
    #[error("`{}` does not hold {} hexadecimal digits", .0.display(), 2 * KEY_BYTES)]
    NoKey(PathBuf),
}

impl MasterKey {
    /// A new key that nobody can guess.
    ///
    /// # Errors
    ///
    /// If the kernel gives no random bytes.
    pub fn random() -> io::Result<Self> {
        let mut key = [0; KEY_BYTES];
        let filled = SystemRandom::new().fill(&mut key);
        filled.map_err(|_| io::Error::other("the kernel gives no random bytes"))?;
        Ok(Self(key))
    }

    /// The key with these bytes.
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Reads a key: 64 hexadecimal digits in a file that nobody but its owner may read.
    ///
    /// # Errors
    ///
    /// [`KeyError`]
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let mut keys = Self::read_all(path)?.into_iter();
        match (keys.next(), keys.next()) {
            (Some(key), None) => Ok(key),
            _ => Err(KeyError::NoKey(path.to_owned())),
        }
    }

    /// Reads the keys of a file, one in each line, the newest first; there is at least one.
    ///
    /// # Errors
    ///
    /// [`KeyError`]
    pub fn read_all(path: &Path) -> Result<Vec<Self>, KeyError> {
        let failed = |source| KeyError::File {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            let path = path.to_owned();
            return Err(KeyError::Open { path, mode });
        }
        let mut text = Zeroizing::new(String::new());
        let mut start = file.take(KEY_FILE_BYTES);
        start.read_to_string(&mut text).map_err(failed)?;
        Self::parse_all(&text).ok_or_else(|| KeyError::NoKey(path.to_owned()))
    }

    /// Reads the keys in a text, one in each line; `None` if there is none, or something else.
    pub fn parse_all(text: &str) -> Option<Vec<Self>> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let keys: Option<Vec<Self>> = lines.map(Self::parse).collect();
        keys.filter(|keys| !keys.is_empty())
    }

    fn parse(digits: &str) -> Option<Self> {
        let mut key = Self([0; KEY_BYTES]);
        hex::decode_to_slice(digits, &mut key.0).ok()?;
        Some(key)
    }

    /// Writes the key to a new file that nobody but its owner reads, and returns when that would
    /// survive the host.
    ///
    /// # Errors
    ///
    /// If there is such a file, or it cannot be written.
    pub fn write_new(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(path)?;
        let digits = Zeroizing::new(hex::encode(self.0) + "\n");
        file.write_all(digits.as_bytes())?;
        file.sync_all()?;
        match path.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }

    /// The cipher for one thing: a salt is used once, so no two things share a key.
    ///
    /// # Errors
    ///
    /// If no key can be derived.
    pub fn derive(&self, salt: &[u8], purpose: &[u8]) -> io::Result<LessSafeKey> {
        let derived = Salt::new(HKDF_SHA256, salt).extract(&self.0);
        let purpose = [purpose];
        let derived = derived
            .expand(&purpose, &AES_256_GCM)
            .map_err(|_| io::Error::other("no key can be derived"))?;
        Ok(LessSafeKey::new(UnboundKey::from(derived)))
    }

    /// A name of the key that tells nothing about it.
    pub(crate) fn name(&self) -> [u8; 8] {
        let purpose = b"skep key name";
        let hashed = digest(&SHA256, &Zeroizing::new([&self.0[..], purpose].concat()));
        let mut name = [0; 8];
        name.copy_from_slice(&hashed.as_ref()[..8]);
        name
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_read_from_a_file_that_nobody_else_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let write = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            MasterKey::read(&path)
        };
        let digits = "5a".repeat(KEY_BYTES);
        let read = write(&format!("{digits}\n"), 0o400).unwrap();
        assert_eq!(read.0, [0x5a; KEY_BYTES]);
        assert_eq!(format!("{read:?}"), "MasterKey(..)");
        let open = write(&digits, 0o640);
        assert!(matches!(open, Err(KeyError::Open { mode: 0o640, .. })));
        let two = format!("{digits}\n{digits}\n");
        for text in [
            "",
            "5a",
            "no key",
            &format!("{digits}5a"),
            &digits[1..],
            &two,
        ] {
            assert!(
                matches!(write(text, 0o600), Err(KeyError::NoKey(_))),
                "{text}"
            );
        }
        write(&two, 0o600).unwrap_err();
        assert_eq!(MasterKey::read_all(&path).unwrap().len(), 2);
        let missing = MasterKey::read(&directory.path().join("none"));
        assert!(matches!(missing, Err(KeyError::File { .. })));
    }

    #[test]
    fn a_key_that_was_written_is_the_owners_alone_and_never_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let key = MasterKey::random().unwrap();
        key.write_new(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o400);
        assert_eq!(MasterKey::read(&path).unwrap().0, key.0);
        let again = MasterKey::random().unwrap().write_new(&path).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }
}
