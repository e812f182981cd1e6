//! The list of installations that use a template cache: servers may share one, so only the last
//! that leaves may remove it.
//!
//! The list is in the cache itself and outlives a restart of the host. An installation is on
//! it from its first start until it is taken off; one whose data is gone counts no more.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// The list, a data directory in each line.
const LIST: &str = "installations";
/// A file that only a data directory has.
const NUMBER: &str = "instance";

/// Puts an installation on the list.
///
/// # Errors
///
/// If the list cannot be written; the cache is then never removed.
pub fn register(cache: &Path, data_dir: &Path) -> io::Result<()> {
    let own = data_dir.canonicalize()?;
    if own.to_string_lossy().contains('\n') {
        return Err(io::Error::other("the path has a line break"));
    }
    change(cache, |users| {
        if !users.contains(&own) {
            users.push(own.clone());
        }
    })
}

/// Takes an installation off the list.
///
/// # Errors
///
/// If the list cannot be written.
pub(crate) fn unregister(cache: &Path, data_dir: &Path) -> io::Result<()> {
    if !cache.join(LIST).exists() {
        return Ok(());
    }
    change(cache, |users| users.retain(|user| user != data_dir))
}

/// Returns whether `data_dir` is on the list, and the other installations on it.
///
/// # Errors
///
/// If there is a list that cannot be read.
pub(crate) fn users(cache: &Path, data_dir: &Path) -> io::Result<(bool, Vec<PathBuf>)> {
    let text = match std::fs::read_to_string(cache.join(LIST)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    let (own, others): (Vec<_>, Vec<_>) = parse(&text).partition(|user| user == data_dir);
    let others = others.into_iter().filter(|user| is_installation(user));
    Ok((!own.is_empty(), others.collect()))
}

fn change(cache: &Path, change: impl FnOnce(&mut Vec<PathBuf>)) -> io::Result<()> {
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(cache.join(LIST))?;
    file.lock()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let mut users: Vec<PathBuf> = parse(&text).filter(|user| is_installation(user)).collect();
    change(&mut users);
    let lines = users.iter().map(|user| format!("{}\n", user.display()));
    let text: String = lines.collect();
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())
}

fn parse(text: &str) -> impl Iterator<Item = PathBuf> {
    text.lines().map(PathBuf::from)
}

fn is_installation(data_dir: &Path) -> bool {
    data_dir.join(NUMBER).is_file()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn users_are_those_whose_data_is_still_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let cache = root.join("cache");
        let [first, second] = ["first", "second"].map(|name| root.join(name));
        for path in [&cache, &first, &second] {
            fs::create_dir(path).unwrap();
        }
        assert_eq!(users(&cache, &first).unwrap(), (false, vec![]));
        for data_dir in [&first, &second] {
            fs::write(data_dir.join(NUMBER), "1").unwrap();
            register(&cache, data_dir).unwrap();
            register(&cache, data_dir).unwrap();
        }
        let both = (true, vec![second.clone()]);
        assert_eq!(users(&cache, &first).unwrap(), both);
        fs::remove_dir_all(&second).unwrap();
        assert_eq!(users(&cache, &first).unwrap(), (true, vec![]));
        unregister(&cache, &first).unwrap();
        assert_eq!(users(&cache, &first).unwrap(), (false, vec![]));
    }
}
