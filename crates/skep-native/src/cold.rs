//! Memory in images that nobody has asked for in a while, compressed.
//!
//! A file is there as it was written, or compressed, and for a moment both, whole each: the new one
//! is brought to the disk under another name before it gets its own, and only then the old one goes.
//! Whoever is killed meanwhile leaves something from which [`expand`] makes the first form. The seal is
//! that of the first form, and is compared after that.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use skep_checkpoint::Sealed;

/// Names of the files that hold memory begin so.
const PAGES: &str = "pages-";
const COMPRESSED: &str = "gz";
const UNFINISHED: &str = "new";

/// Time limit: its owner waits, and may be asked to resume the sandbox. What would take longer stays
/// as it is.
const COMPRESS_TIMEOUT: Duration = Duration::from_secs(20);
/// Size below which it is not worth it.
const SMALLEST: u64 = 1 << 20;
const CHUNK: usize = 256 << 10;

/// Compresses the memory in a directory of processes, as far as that is worth it. Blocks.
///
/// # Errors
///
/// If it cannot be written, or takes too long. The memory is there in one of its forms.
pub(crate) fn compress(directory: &Path) -> io::Result<()> {
    let deadline = Instant::now() + COMPRESS_TIMEOUT;
    for path in files(directory)? {
        let is_memory = name_of(&path).starts_with(PAGES);
        let metadata = path.symlink_metadata()?;
        // What is another image's as well would take more space than before.
        if !is_memory || metadata.len() < SMALLEST || metadata.nlink() > 1 {
            continue;
        }
        if has_extension(&path, COMPRESSED) || has_extension(&path, UNFINISHED) {
            continue;
        }
        let compressed = with_extension(&path, COMPRESSED);
        let is_worth_it = |bytes: u64| bytes < metadata.len() / 10 * 9;
        let made = write_whole(&compressed, is_worth_it, |file| {
            let mut encoder = GzEncoder::new(file, Compression::fast());
            copy(&mut File::open(&path)?, &mut encoder, Some(deadline))?;
            encoder.finish().map(drop)
        })?;
        if made {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Bytes that [`expand`] will write, at most.
///
/// # Errors
///
/// If the files cannot be looked at.
pub(crate) fn growth(directory: &Path, sealed: &Sealed) -> io::Result<u64> {
    let mut there = 0;
    for name in sealed.names() {
        match directory.join(name).symlink_metadata() {
            Ok(plain) => there += plain.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sealed.bytes().saturating_sub(there))
}

/// Brings the memory in a directory of processes to its first form. Blocks.
///
/// # Errors
///
/// If it cannot be read or written. It is as it was then.
pub(crate) fn expand(directory: &Path) -> io::Result<()> {
    for path in files(directory)? {
        if has_extension(&path, UNFINISHED) {
            fs::remove_file(&path)?;
        } else if has_extension(&path, COMPRESSED) {
            let plain = path.with_extension("");
            if !plain.exists() {
                write_whole(
                    &plain,
                    |_| true,
                    |mut file| {
                        let mut decoder = GzDecoder::new(File::open(&path)?);
                        copy(&mut decoder, &mut file, None)
                    },
                )?;
            }
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Makes a file of what `write` writes, whole and on the disk, or not at all: if `is_wanted` says so of
/// its size, or something fails.
fn write_whole(
    path: &Path,
    is_wanted: impl FnOnce(u64) -> bool,
    write: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<bool> {
    let unfinished = with_extension(path, UNFINISHED);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.open(&unfinished)?;
    let written = write(&file).and_then(|()| {
        let is_wanted = is_wanted(file.metadata()?.len());
        if is_wanted {
            file.sync_all()?;
            fs::rename(&unfinished, path)?;
            File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()?;
        }
        Ok(is_wanted)
    });
    if !matches!(written, Ok(true))
        && let Err(error) = fs::remove_file(&unfinished)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %unfinished.display(), %error, "cannot remove incomplete file");
    }
    written
}

fn copy(from: &mut impl Read, to: &mut impl Write, deadline: Option<Instant>) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            length => to.write_all(&buffer[..length])?,
        }
    }
}

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn name_of(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default()
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn with_extension(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

#[cfg(test)]
mod tests {
    use skep_checkpoint::SealCheck;

    use super::*;

    const MEMORY: &str = "pages-1.img";

    /// An image with compressible memory, and its seal.
    fn image() -> (tempfile::TempDir, SealCheck) {
        let directory = tempfile::tempdir().unwrap();
        let memory: Vec<u8> = (0..3_u32 << 20)
            .map(|number| (number >> 12).to_le_bytes()[0])
            .collect();
        fs::write(directory.path().join(MEMORY), memory).unwrap();
        fs::write(directory.path().join("core-1.img"), "registers").unwrap();
        let sealed = skep_checkpoint::seal(directory.path()).unwrap();
        let check = SealCheck::new(directory.path().to_owned(), sealed);
        (directory, check)
    }

    fn size(directory: &Path) -> u64 {
        let files = files(directory).unwrap().into_iter();
        files.map(|path| path.metadata().unwrap().len()).sum()
    }

    #[track_caller]
    fn is_as_it_was(directory: &Path, check: &SealCheck) {
        expand(directory).unwrap();
        check.descriptions().unwrap();
        check.pages().unwrap();
    }

    #[test]
    fn memory_is_smaller_and_comes_back_as_it_was() {
        let (directory, check) = image();
        let before = size(directory.path());
        compress(directory.path()).unwrap();
        assert!(size(directory.path()) < before / 4);
        compress(directory.path()).unwrap();
        is_as_it_was(directory.path(), &check);
        assert_eq!(size(directory.path()), before);
    }

    #[test]
    fn whoever_is_killed_at_any_moment_leaves_one_whole_form() {
        let path = |directory: &tempfile::TempDir, name: &str| directory.path().join(name);
        let (unfinished, compressed) = ("pages-1.img.gz.new", "pages-1.img.gz");
        // While it is compressed.
        let (directory, check) = image();
        fs::write(path(&directory, unfinished), "half").unwrap();
        is_as_it_was(directory.path(), &check);
        // Before the first form goes.
        let (directory, check) = image();
        let memory = fs::read(path(&directory, MEMORY)).unwrap();
        compress(directory.path()).unwrap();
        let small = fs::read(path(&directory, compressed)).unwrap();
        fs::write(path(&directory, MEMORY), memory).unwrap();
        is_as_it_was(directory.path(), &check);
        // While it is expanded.
        let (directory, check) = image();
        compress(directory.path()).unwrap();
        assert_eq!(fs::read(path(&directory, compressed)).unwrap(), small);
        fs::write(path(&directory, "pages-1.img.new"), "half").unwrap();
        is_as_it_was(directory.path(), &check);
    }

    #[test]
    fn it_is_known_before_how_much_room_it_takes() {
        let (directory, _) = image();
        let sealed = skep_checkpoint::seal(directory.path()).unwrap();
        assert_eq!(growth(directory.path(), &sealed).unwrap(), 0);
        let memory = directory.path().join(MEMORY).metadata().unwrap().len();
        compress(directory.path()).unwrap();
        assert_eq!(growth(directory.path(), &sealed).unwrap(), memory);
    }

    #[test]
    fn what_would_not_be_smaller_or_is_shared_stays() {
        let (directory, _) = image();
        let memory = directory.path().join(MEMORY);
        let mut random = vec![0; 2 << 20];
        let mut source = File::open("/dev/urandom").unwrap();
        source.read_exact(&mut random).unwrap();
        fs::write(&memory, random).unwrap();
        compress(directory.path()).unwrap();
        assert!(memory.exists());
        assert_eq!(files(directory.path()).unwrap().len(), 2);

        let (directory, _) = image();
        let other = tempfile::tempdir_in(directory.path().parent().unwrap()).unwrap();
        fs::hard_link(directory.path().join(MEMORY), other.path().join(MEMORY)).unwrap();
        compress(directory.path()).unwrap();
        assert!(directory.path().join(MEMORY).exists());
    }

    #[test]
    fn edited_memory_is_refused_in_its_small_form_too() {
        let (directory, check) = image();
        let memory = directory.path().join(MEMORY);
        let mut bytes = fs::read(&memory).unwrap();
        bytes[7] ^= 1;
        fs::write(&memory, bytes).unwrap();
        compress(directory.path()).unwrap();
        assert!(!memory.exists());
        expand(directory.path()).unwrap();
        check.descriptions().unwrap();
        check.pages().unwrap_err();

        // And one that is cut off is not read at all.
        compress(directory.path()).unwrap();
        let compressed = directory.path().join("pages-1.img.gz");
        let length = compressed.metadata().unwrap().len();
        let file = OpenOptions::new().write(true).open(&compressed).unwrap();
        file.set_len(length / 2).unwrap();
        expand(directory.path()).unwrap_err();
        assert_eq!(
            files(directory.path()).unwrap().len(),
            2,
            "nothing half is left"
        );
    }
}
