//! Files as they are, for tests in which nobody plants any.

use std::io;
use std::path::Path;
use std::time::SystemTime;

/// The names in a directory, as [`Processes::names_in`](crate::Processes::names_in) tells them.
///
/// # Errors
///
/// If there is no directory, or it holds more.
pub fn names_in(directory: &Path, most: usize) -> io::Result<Vec<String>> {
    let entries = std::fs::read_dir(directory)?;
    let names: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .take(most + 1)
        .collect();
    if names.len() > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(names)
}

/// Returns the modification time of a file.
pub fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}
