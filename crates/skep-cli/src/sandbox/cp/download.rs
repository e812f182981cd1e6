//! Copies out of a sandbox.

use std::fs;
use std::path::{Component, Path, PathBuf};

use skep_client::{EntryKind, Files};
use tokio::io::AsyncWriteExt as _;

use super::{Copied, last_part};
use crate::{CliError, FileError, print_bytes};

/// Copies a file or a directory to `destination` on this host, or to standard output.
pub(super) async fn download(
    files: &Files,
    source: &str,
    destination: &Path,
) -> Result<Copied, CliError> {
    let source = if source.is_empty() { "." } else { source };
    let mut copied = Copied::default();
    let entry = files.stat(source).await?;
    if destination == Path::new("-") {
        if entry.kind == EntryKind::Directory {
            return Err(CliError::input(
                format!("`{source}` is a directory, and standard output takes a file"),
                "name a directory of this host",
            ));
        }
        let mut stream = files.download(source).await?;
        while let Some(piece) = stream.next().await? {
            print_bytes(&piece)?;
        }
        return Ok(copied);
    }
    let target = if destination.is_dir() {
        destination.join(last_part(&entry.path))
    } else {
        destination.to_owned()
    };
    match entry.kind {
        EntryKind::Directory => directory(files, &entry.path, &target, &mut copied).await?,
        EntryKind::File => file(files, &entry.path, &target, &mut copied).await?,
        EntryKind::Symlink | EntryKind::Other => {
            return Err(CliError::input(
                format!("`{source}` is neither a file nor a directory"),
                "only those are copied",
            ));
        }
    }
    Ok(copied)
}

/// Copies a directory with everything in it. Links are left out: what they lead to is in the
/// sandbox, or nowhere.
async fn directory(
    files: &Files,
    source: &str,
    target: &Path,
    copied: &mut Copied,
) -> Result<(), CliError> {
    let mut waiting = vec![(source.to_owned(), target.to_owned())];
    while let Some((source, target)) = waiting.pop() {
        fs::create_dir_all(&target).map_err(FileError::on("make", &target))?;
        for entry in files.list(&source).await? {
            let target = target.join(part(&entry.name)?);
            let is_link = entry.symlink_target.is_some();
            match entry.kind {
                EntryKind::Directory if !is_link => waiting.push((entry.path, target)),
                EntryKind::File if !is_link => file(files, &entry.path, &target, copied).await?,
                EntryKind::Directory | EntryKind::File | EntryKind::Symlink | EntryKind::Other => {
                    copied.skipped += 1
                }
            }
        }
    }
    Ok(())
}

/// The name of an entry, if it is one: what is in a sandbox never chooses where a file of this
/// host is written.
fn part(name: &str) -> Result<&Path, CliError> {
    let path = Path::new(name);
    let mut components = path.components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(_)), None) => Ok(path),
        _ => Err(CliError::failure(format!(
            "the sandbox names a file `{name}`, which is no name"
        ))),
    }
}

/// Writes a file beside its place first: what was there stays until all of it has come.
async fn file(
    files: &Files,
    source: &str,
    target: &Path,
    copied: &mut Copied,
) -> Result<(), CliError> {
    let mut stream = files.download(source).await?;
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    };
    let draft = tempfile::Builder::new()
        .prefix(".skep-")
        .permissions(default_permissions())
        .tempfile_in(&directory)
        .map_err(FileError::on("write into", &directory))?;
    let (std_file, path) = draft.into_parts();
    let mut file = tokio::fs::File::from_std(std_file);
    let mut length = 0;
    while let Some(piece) = stream.next().await? {
        file.write_all(&piece)
            .await
            .map_err(FileError::on("write", target))?;
        length += piece.len() as u64;
    }
    file.flush().await.map_err(FileError::on("write", target))?;
    path.persist(target)
        .map_err(|error| FileError::on("write", target)(error.error))?;
    copied.add(length);
    Ok(())
}

/// As any new file has them; the process's mask takes its part away.
fn default_permissions() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    fs::Permissions::from_mode(0o666)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_does_not_choose_where_files_are_written() {
        assert_eq!(part("a b").unwrap(), Path::new("a b"));
        for name in ["", "..", ".", "a/b", "/etc/passwd", "../x"] {
            assert!(part(name).is_err(), "{name}");
        }
    }
}
