//! Copies into a sandbox.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use skep_client::{Entry, EntryKind, Files};

use super::{Copied, below};
use crate::{CliError, FileError, transfer};

/// Copies a file, a directory or standard input to `destination`.
pub(super) async fn upload(
    files: &Files,
    source: &Path,
    destination: &str,
) -> Result<Copied, CliError> {
    let mut copied = Copied::default();
    if source == Path::new("-") {
        let mut content = Vec::new();
        std::io::stdin()
            .read_to_end(&mut content)
            .map_err(CliError::failure)?;
        let length = content.len() as u64;
        files.write(destination, content).await?;
        copied.add(length);
        return Ok(copied);
    }
    let metadata = fs::metadata(source).map_err(FileError::on("copy", source))?;
    // As `cp` does: a directory that is there takes the source in, under its own name.
    let target = match existing(files, destination).await? {
        Some(entry) if entry.kind == EntryKind::Directory => {
            let name = name(source)?;
            below(destination, &name)
        }
        Some(_) | None if destination.is_empty() => name(source)?,
        Some(_) | None => destination.to_owned(),
    };
    if metadata.is_dir() {
        directory(files, source, &target, &mut copied).await?;
    } else {
        file(files, source, &target, metadata.len(), &mut copied).await?;
    }
    Ok(copied)
}

/// Finds the entry at a path of the sandbox; the home of its user at an empty one.
async fn existing(files: &Files, path: &str) -> Result<Option<Entry>, CliError> {
    let path = if path.is_empty() { "." } else { path };
    match files.stat(path).await {
        Ok(entry) => Ok(Some(entry)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn name(path: &Path) -> Result<String, CliError> {
    let whole = fs::canonicalize(path).map_err(FileError::on("find", path))?;
    let name = whole.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        CliError::input(
            format!("the name of `{}` is not UTF-8", path.display()),
            "name the destination in full",
        )
    })
}

/// Copies a directory with everything in it. Links are left out: they may lead anywhere.
async fn directory(
    files: &Files,
    source: &Path,
    target: &str,
    copied: &mut Copied,
) -> Result<(), CliError> {
    let mut waiting = vec![(source.to_owned(), target.to_owned())];
    while let Some((source, target)) = waiting.pop() {
        if existing(files, &target).await?.is_none() {
            files.make_directory(&target).await?;
        }
        for path in entries(&source)? {
            let kind = fs::symlink_metadata(&path).map_err(FileError::on("copy", &path))?;
            let target = below(&target, &last_name(&path)?);
            if kind.is_dir() {
                waiting.push((path, target));
            } else if kind.is_file() {
                file(files, &path, &target, kind.len(), copied).await?;
            } else {
                copied.skipped += 1;
            }
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, CliError> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(directory)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    };
    read().map_err(FileError::on("copy", directory))
}

fn last_name(path: &Path) -> Result<String, CliError> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        CliError::input(
            format!("the name of `{}` is not UTF-8", path.display()),
            "rename it",
        )
    })
}

async fn file(
    files: &Files,
    source: &Path,
    target: &str,
    length: u64,
    copied: &mut Copied,
) -> Result<(), CliError> {
    let pieces = transfer::pieces(source, length).await?;
    files.upload(target, length, pieces).await?;
    copied.add(length);
    Ok(())
}
