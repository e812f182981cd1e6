//! The seal of an image: the size and the SHA-256 of every file of it.
//!
//! Capabilities and filters of restored processes come from the image, so one that is not as it was
//! written is not restored.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Sizes and hashes of the files of a directory, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed(BTreeMap<String, (u64, String)>);

impl Sealed {
    /// Names and sizes alone, of an image that the server which has just made it uses at once. Anybody else who looks
    /// for hashes finds that they differ.
    ///
    /// # Errors
    ///
    /// [`SealError::File`].
    pub fn passing(directory: &Path) -> Result<Self, SealError> {
        let sized = files(directory)?
            .into_iter()
            .map(|(name, path)| Ok((name, (size(&path)?, String::new()))));
        sized.collect::<Result<_, _>>().map(Self)
    }

    /// Size of all files together, in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.values().map(|(size, _)| size).sum()
    }

    /// Names of the files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Failure to seal an image, or to find it as it was sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file is not as it was written, is missing, or was added.
    #[error("image is not as it was written: `{0}` differs")]
    Differs(String),
}

/// Beginning of the names of files that hold nothing but memory, and nearly all of an image.
const PAGES: &str = "pages-";

fn is_pages(name: &str) -> bool {
    name.starts_with(PAGES)
}

/// A seal that is being made. The memory is hashed and brought to the disk at once, each on a
/// thread of its own, while the rest is still being written.
#[derive(Debug)]
pub struct Sealing {
    directory: PathBuf,
    hashing: JoinHandle<Result<Sealed, SealError>>,
    /// Missing if the files are not to survive the host.
    bringing: Option<JoinHandle<Result<(), SealError>>>,
}

impl Sealing {
    /// Begins with the memory, which is written.
    ///
    /// # Errors
    ///
    /// [`SealError::File`].
    pub fn begin(directory: &Path) -> Result<Self, SealError> {
        let pages = pages_in(directory)?;
        let begun = Self::begin_passing(directory)?;
        Ok(Self {
            bringing: Some(std::thread::spawn(move || bring_to_disk(&pages))),
            ..begun
        })
    }

    /// Begins with the memory of an image that is soon replaced by another form of it. It is hashed,
    /// and nobody waits until it is on the disk, where it is better never seen.
    ///
    /// # Errors
    ///
    /// [`SealError::File`].
    pub fn begin_passing(directory: &Path) -> Result<Self, SealError> {
        let pages = pages_in(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            hashing: std::thread::spawn(move || hash_all(pages)),
            bringing: None,
        })
    }

    /// Hashes the rest, and brings it to the disk. Returns when everything that is to survive the host
    /// would.
    ///
    /// # Errors
    ///
    /// [`SealError`]; it differs if memory was written since the beginning.
    pub fn finish(self) -> Result<Sealed, SealError> {
        let (pages, others): (Vec<_>, Vec<_>) = files(&self.directory)?
            .into_iter()
            .partition(|(name, _)| is_pages(name));
        if self.bringing.is_some() {
            bring_to_disk(&others)?;
        }
        let mut sealed = hash_all(others)?;
        let panicked = |_| SealError::File {
            path: self.directory.clone(),
            source: io::Error::other("a thread panicked"),
        };
        let hashed = self.hashing.join().map_err(panicked)??;
        if let Some(bringing) = self.bringing {
            bringing.join().map_err(panicked)??;
        }
        for (name, path) in pages {
            let size = size(&path)?;
            let known = hashed
                .0
                .get(&name)
                .filter(|(known, _)| *known == size)
                .ok_or_else(|| SealError::Differs(name.clone()))?;
            sealed.0.insert(name, known.clone());
        }
        Ok(sealed)
    }
}

/// Hashes every file of a directory and brings it to the disk.
///
/// # Errors
///
/// [`SealError::File`].
pub fn seal(directory: &Path) -> Result<Sealed, SealError> {
    Sealing::begin(directory)?.finish()
}

/// A comparison of an image with its seal, for all who restore it at this time: each part is
/// compared once.
///
/// Everything that somebody reads to learn something from it is compared before. Memory takes
/// longest and means nothing to those who restore it, so it may be compared meanwhile, as long as
/// nothing that was restored runs before that is done.
#[derive(Debug)]
pub struct SealCheck {
    directory: PathBuf,
    sealed: Sealed,
    /// True if the server has made the image itself, at this time, and hashed nothing.
    is_passing: bool,
    descriptions: OnceLock<Result<(), Arc<SealError>>>,
    pages: OnceLock<Result<(), Arc<SealError>>>,
}

impl SealCheck {
    /// A comparison that has not begun.
    pub fn new(directory: PathBuf, sealed: Sealed) -> Self {
        Self {
            directory,
            sealed,
            is_passing: false,
            descriptions: OnceLock::new(),
            pages: OnceLock::new(),
        }
    }

    /// A comparison of names and sizes, for an image of [`Sealed::passing`].
    pub fn passing(directory: PathBuf, sealed: Sealed) -> Self {
        Self {
            is_passing: true,
            ..Self::new(directory, sealed)
        }
    }

    /// Compares names and sizes of all files, and the contents of all but the memory. Blocks.
    ///
    /// # Errors
    ///
    /// [`SealError`]
    pub fn descriptions(&self) -> Result<(), Arc<SealError>> {
        let compare = || {
            if self.is_passing {
                return self.compare(&Sealed::passing(&self.directory)?, |_| true);
            }
            let (pages, others): (Vec<_>, Vec<_>) = files(&self.directory)?
                .into_iter()
                .partition(|(name, _)| is_pages(name));
            let mut found = hash_all(others)?;
            for (name, path) in pages {
                let known = self.sealed.0.get(&name).map(|(_, hash)| hash.clone());
                found
                    .0
                    .insert(name, (size(&path)?, known.unwrap_or_default()));
            }
            self.compare(&found, |_| true)
        };
        (self.descriptions)
            .get_or_init(|| compare().map_err(Arc::new))
            .clone()
    }

    /// Compares the contents of the memory, or waits for whoever does. Blocks.
    ///
    /// # Errors
    ///
    /// [`SealError`]
    pub fn pages(&self) -> Result<(), Arc<SealError>> {
        let compare = || {
            if self.is_passing {
                return Ok(());
            }
            self.compare(&hash_all(pages_in(&self.directory)?)?, is_pages)
        };
        (self.pages)
            .get_or_init(|| compare().map_err(Arc::new))
            .clone()
    }

    fn compare(&self, found: &Sealed, concerns: impl Fn(&str) -> bool) -> Result<(), SealError> {
        let all = self.sealed.names().chain(found.names());
        let mut differing = all
            .filter(|name| concerns(name))
            .filter(|name| self.sealed.0.get(*name) != found.0.get(*name));
        match differing.next() {
            Some(name) => Err(SealError::Differs(name.to_owned())),
            None => Ok(()),
        }
    }
}

fn pages_in(directory: &Path) -> Result<Vec<(String, PathBuf)>, SealError> {
    let mut pages = files(directory)?;
    pages.retain(|(name, _)| is_pages(name));
    Ok(pages)
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SealError + '_ {
    |source| SealError::File {
        path: path.to_owned(),
        source,
    }
}

fn size(path: &Path) -> Result<u64, SealError> {
    Ok(fs::symlink_metadata(path).map_err(failed(path))?.len())
}

fn hash_all(files: Vec<(String, PathBuf)>) -> Result<Sealed, SealError> {
    let hashed = files.into_iter().map(|(name, path)| {
        let file = File::open(&path).map_err(failed(&path))?;
        Ok((name, hash(file).map_err(failed(&path))?))
    });
    hashed.collect::<Result<_, _>>().map(Sealed)
}

fn bring_to_disk(files: &[(String, PathBuf)]) -> Result<(), SealError> {
    for (_, path) in files {
        let file = File::open(path).map_err(failed(path))?;
        file.sync_all().map_err(failed(path))?;
    }
    Ok(())
}

fn files(directory: &Path) -> Result<Vec<(String, PathBuf)>, SealError> {
    let failed = |source| SealError::File {
        path: directory.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|name| SealError::Differs(name.to_string_lossy().into_owned()))?;
        files.push((name, entry.path()));
    }
    Ok(files)
}

fn hash(mut file: File) -> io::Result<(u64, String)> {
    const CHUNK: usize = 256 << 10;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    let mut size = 0;
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok((size, hex::encode(hasher.finalize())));
        }
        hasher.update(&buffer[..length]);
        size += length as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(directory: &Path, sealed: &Sealed) -> [Result<(), Arc<SealError>>; 2] {
        let check = SealCheck::new(directory.to_owned(), sealed.clone());
        [check.descriptions(), check.pages()]
    }

    #[track_caller]
    fn differs(found: &Result<(), Arc<SealError>>, file: &str) {
        let error = found.as_ref().unwrap_err();
        assert!(
            matches!(&**error, SealError::Differs(name) if name == file),
            "{error}"
        );
    }

    #[test]
    fn an_image_that_was_changed_is_found_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("creds-1.img"), "root of the sandbox").unwrap();
        fs::write(path("pages-1.img"), vec![7; 600 << 10]).unwrap();
        let sealed = seal(directory.path()).unwrap();
        let checked = || check(directory.path(), &sealed);
        assert_eq!(sealed.bytes(), (600 << 10) + 19);
        assert!(checked().iter().all(Result::is_ok));

        fs::write(path("creds-1.img"), "root of the machine").unwrap();
        differs(&checked()[0], "creds-1.img");
        fs::write(path("creds-1.img"), "root of the sandbox").unwrap();
        fs::write(path("seccomp.img"), "").unwrap();
        differs(&checked()[0], "seccomp.img");
        fs::remove_file(path("seccomp.img")).unwrap();
        // Memory of the same size is found out by the second look.
        fs::write(path("pages-1.img"), vec![8; 600 << 10]).unwrap();
        let [descriptions, pages] = checked();
        descriptions.unwrap();
        differs(&pages, "pages-1.img");
        fs::write(path("pages-1.img"), "less").unwrap();
        differs(&checked()[0], "pages-1.img");
        fs::remove_file(path("pages-1.img")).unwrap();
        differs(&checked()[0], "pages-1.img");
    }

    #[test]
    fn an_image_without_hashes_is_good_for_nobody_but_who_made_it() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("pages-1.img"), "memory").unwrap();
        fs::write(directory.path().join("creds-1.img"), "root").unwrap();
        let sealed = Sealed::passing(directory.path()).unwrap();
        let own = SealCheck::passing(directory.path().to_owned(), sealed.clone());
        own.descriptions().unwrap();
        own.pages().unwrap();
        let [descriptions, pages] = check(directory.path(), &sealed);
        differs(&descriptions, "creds-1.img");
        differs(&pages, "pages-1.img");
    }

    #[test]
    fn memory_that_is_written_while_it_is_sealed_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let pages = directory.path().join("pages-1.img");
        fs::write(&pages, "some").unwrap();
        let sealing = Sealing::begin(directory.path()).unwrap();
        fs::write(directory.path().join("creds-1.img"), "later").unwrap();
        fs::write(directory.path().join("pages-2.img"), "too late").unwrap();
        assert!(matches!(sealing.finish(), Err(SealError::Differs(name)) if name == "pages-2.img"));
    }
}
