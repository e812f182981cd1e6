//! Images that nobody reads without a key.
//!
//! A file is a header with a salt, and chunks. Each chunk is sealed by AES-256-GCM under a key that is
//! derived from the operator's and the salt, so no two files share one; its number and whether it is
//! the last are its nonce. So chunks that are exchanged, left out, added or cut off are found out, and
//! so is a file under the name of another.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce};
use ring::rand::{SecureRandom as _, SystemRandom};
use skep_seal::{KeyError, MasterKey};

const MAGIC: [u8; 8] = *b"skepenc1";
const SALT_BYTES: usize = 32;
const HEADER_BYTES: usize = MAGIC.len() + SALT_BYTES;
const PURPOSE: &[u8] = b"skep image file";
const CHUNK: usize = 256 << 10;

/// The operator's key for images.
#[derive(Debug, Clone)]
pub struct ImageKey(MasterKey);

impl ImageKey {
    /// Reads a key: 64 hexadecimal digits in a file that nobody but its owner may read.
    ///
    /// # Errors
    ///
    /// [`KeyError`]
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        MasterKey::read(path).map(Self)
    }

    /// Encrypts the file at `from` to a new one at `to`, which is the owner's alone, and returns when
    /// that would survive the host. Whoever decrypts it has to know it by the same `name`. Blocks.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be read or written.
    pub fn encrypt_file(&self, name: &str, from: &Path, to: &Path) -> io::Result<()> {
        let to = new_file(to)?;
        self.encrypt(name, &mut File::open(from)?, &mut &to)?;
        to.sync_all()
    }

    /// Decrypts the file at `from` to a new one at `to`. Blocks.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be read or written, or the first is not what was encrypted under
    /// this name with this key. What is there of the second then is no secret: it was authentic.
    pub fn decrypt_file(&self, name: &str, from: &Path, to: &Path) -> io::Result<()> {
        self.decrypt(name, &mut File::open(from)?, &mut new_file(to)?)
    }

    /// Encrypts everything that `from` has.
    ///
    /// # Errors
    ///
    /// If one cannot be read or written.
    pub fn encrypt(&self, name: &str, from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
        let mut header = [0; HEADER_BYTES];
        let (magic, salt) = header.split_at_mut(MAGIC.len());
        magic.copy_from_slice(&MAGIC);
        let filled = SystemRandom::new().fill(salt);
        filled.map_err(|_| io::Error::other("the kernel gives no random bytes"))?;
        let cipher = Cipher::new(self, header, name)?;
        to.write_all(&header)?;
        let mut chunk = Vec::with_capacity(CHUNK + AES_256_GCM.tag_len());
        let mut number = 0;
        loop {
            chunk.clear();
            from.by_ref().take(CHUNK as u64).read_to_end(&mut chunk)?;
            let is_last = chunk.len() < CHUNK;
            cipher.seal(number, is_last, &mut chunk)?;
            to.write_all(&chunk)?;
            if is_last {
                return Ok(());
            }
            number = next(number)?;
        }
    }

    /// Decrypts what [`ImageKey::encrypt`] has written.
    ///
    /// # Errors
    ///
    /// As [`ImageKey::decrypt_file`].
    pub fn decrypt(&self, name: &str, from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
        let mut header = [0; HEADER_BYTES];
        from.read_exact(&mut header).map_err(|_| differs())?;
        if !header.starts_with(&MAGIC) {
            return Err(differs());
        }
        let cipher = Cipher::new(self, header, name)?;
        let sealed = CHUNK + AES_256_GCM.tag_len();
        let mut chunk = Vec::with_capacity(sealed);
        let mut number = 0;
        loop {
            chunk.clear();
            from.by_ref().take(sealed as u64).read_to_end(&mut chunk)?;
            let is_last = chunk.len() < sealed;
            to.write_all(cipher.open(number, is_last, &mut chunk)?)?;
            if is_last {
                return Ok(());
            }
            number = next(number)?;
        }
    }
}

/// The cipher of one file.
struct Cipher {
    key: LessSafeKey,
    /// Associated data of every chunk: the header and the name.
    bound: Vec<u8>,
}

impl Cipher {
    fn new(key: &ImageKey, header: [u8; HEADER_BYTES], name: &str) -> io::Result<Self> {
        let key = key.0.derive(&header[MAGIC.len()..], PURPOSE)?;
        Ok(Self {
            key,
            bound: [&header, name.as_bytes()].concat(),
        })
    }

    fn seal(&self, number: u32, is_last: bool, chunk: &mut Vec<u8>) -> io::Result<()> {
        let bound = Aad::from(&self.bound);
        let sealed = (self.key).seal_in_place_append_tag(nonce(number, is_last), bound, chunk);
        sealed.map_err(|_| io::Error::other("a chunk cannot be encrypted"))
    }

    fn open<'a>(&self, number: u32, is_last: bool, chunk: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let bound = Aad::from(&self.bound);
        let opened = (self.key).open_in_place(nonce(number, is_last), bound, chunk);
        opened.map(|plain| &*plain).map_err(|_| differs())
    }
}

/// The nonce of a chunk, used once under the key of its file.
fn nonce(number: u32, is_last: bool) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes[4] = u8::from(is_last);
    Nonce::assume_unique_for_key(bytes)
}

fn next(number: u32) -> io::Result<u32> {
    let next = number.checked_add(1);
    next.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

fn differs() -> io::Error {
    let text = "it was not encrypted with this key, or is not as it was written";
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path)
}

/// Encrypts every file of a directory into a new one. Returns when that would survive the host.
/// Blocks.
///
/// # Errors
///
/// If something cannot be read or written.
pub fn encrypt_directory(key: &ImageKey, from: &Path, to: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        key.encrypt_file(text, &entry.path(), &to.join(text))?;
    }
    File::open(to)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> ImageKey {
        ImageKey(MasterKey::from_bytes([byte; 32]))
    }

    fn encrypted(plain: &[u8]) -> Vec<u8> {
        let mut written = Vec::new();
        key(1).encrypt("pages", &mut &*plain, &mut written).unwrap();
        written
    }

    fn decrypted(key: &ImageKey, name: &str, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        key.decrypt(name, &mut &*bytes, &mut plain)?;
        Ok(plain)
    }

    #[track_caller]
    fn is_refused(bytes: &[u8]) {
        let refused = decrypted(&key(1), "pages", bytes).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn files_of_any_size_come_back_and_show_nothing() {
        for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let plain = b"secret".repeat(size / 6 + 1)[..size].to_vec();
            let written = encrypted(&plain);
            assert_eq!(decrypted(&key(1), "pages", &written).unwrap(), plain);
            assert!(!written.windows(6).any(|part| part == b"secret"));
            assert_ne!(written, encrypted(&plain), "each has a key of its own");
        }
    }

    #[test]
    fn what_was_edited_exchanged_cut_off_or_renamed_is_refused() {
        let written = encrypted(&[7; 2 * CHUNK + 5]);
        decrypted(&key(2), "pages", &written).unwrap_err();
        decrypted(&key(1), "core", &written).unwrap_err();
        let sealed = CHUNK + AES_256_GCM.tag_len();
        let (header, chunks) = written.split_at(HEADER_BYTES);
        let (first, rest) = chunks.split_at(sealed);
        let (second, last) = rest.split_at(sealed);
        for order in [
            [second, first, last].as_slice(),
            &[first, last],
            &[first, second],
            &[first, second, last, last],
            &[first, second, second, last],
            &[],
        ] {
            is_refused(&[header, &order.concat()].concat());
        }
        for position in [0, MAGIC.len(), HEADER_BYTES, written.len() - 1] {
            let mut edited = written.clone();
            edited[position] ^= 1;
            is_refused(&edited);
        }
        is_refused(&written[..written.len() - 1]);
        is_refused(b"");
    }
}
