//! Copies out of a sandbox.

use std::fs;
use std::path::Path;

use skep_client::{EntryKind, Files};

use super::{Copied, last_part};
use crate::transfer::{Draft, entry_name};
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
            let target = target.join(entry_name("sandbox", &entry.name)?);
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

async fn file(
    files: &Files,
    source: &str,
    target: &Path,
    copied: &mut Copied,
) -> Result<(), CliError> {
    let mut stream = files.download(source).await?;
    let mut draft = Draft::of(target)?;
    let mut length = 0;
    while let Some(piece) = stream.next().await? {
        draft.write(&piece).await?;
        length += piece.len() as u64;
    }
    draft.finish().await?;
    copied.add(length);
    Ok(())
}
