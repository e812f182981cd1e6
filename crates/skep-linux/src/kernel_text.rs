//! Text of files that the kernel makes up while they are read.

use std::fs::File;
use std::io::{self, Read};

/// Size of the first read. The kernel fills a page before it answers, so what comes in a quarter of
/// one is all there is, and need not be asked for again.
const PAGE: usize = 4096;

/// Reads a file of procfs, sysfs or a cgroup, of at most `longest` bytes.
///
/// Such files have no size, and reading them as others are read, in small pieces until nothing
/// comes, takes three or four system calls for a number.
///
/// # Errors
///
/// Those of reading, and `InvalidData` if the file is no text.
pub fn kernel_text(mut file: File, longest: u64) -> io::Result<String> {
    let mut bytes = vec![0; PAGE.min(usize::try_from(longest).unwrap_or(PAGE))];
    let length = file.read(&mut bytes)?;
    bytes.truncate(length);
    if length > PAGE / 4 {
        let left = longest.saturating_sub(u64::try_from(length).unwrap_or(u64::MAX));
        file.take(left).read_to_end(&mut bytes)?;
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_files_are_read_whole() {
        // None that changes while other tests run beside this one.
        for path in ["/proc/self/stat", "/proc/kallsyms", "/proc/cpuinfo"] {
            let text = kernel_text(File::open(path).unwrap(), 1 << 30).unwrap();
            let whole = std::fs::read_to_string(path).unwrap();
            assert_eq!(text.lines().count(), whole.lines().count(), "{path}");
        }
    }

    #[test]
    fn no_more_is_read_than_is_wanted() {
        let maps = File::open("/proc/kallsyms").unwrap();
        assert!(kernel_text(maps, 10_000).unwrap().len() <= 10_000);
    }
}
