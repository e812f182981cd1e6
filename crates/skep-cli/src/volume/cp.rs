//! `skep volume cp`

use std::fs;
use std::path::Path;

use clap::Args;
use serde_json::json;
use skep_client::{VolumeEntryKind, VolumeFiles};

use crate::transfer::{self, Draft, entry_name};
use crate::{
    CliError, DefaultServer, FileError, OutputArgs, ServerArgs, print_bytes, print_json, print_note,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep volume cp data.csv data:/in/data.csv
  skep volume cp ./models data:/models         a directory with everything in it
  skep volume cp data:/out/plot.png .
  skep volume cp data:/out/log.txt -           to standard output";

/// Arguments of `skep volume cp`.
#[derive(Debug, Args)]
pub struct VolumeCopyArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// File or directory to copy: a path of this host, or VOLUME:PATH
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Path to copy it to; a directory that exists takes it in
    #[arg(value_name = "DESTINATION")]
    destination: String,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

/// Number of files and bytes that were copied.
#[derive(Debug, Clone, Copy, Default)]
struct Copied {
    files: u64,
    bytes: u64,
    /// Links and other things that are no files, which were left out.
    skipped: u64,
}

impl VolumeCopyArgs {
    pub(super) async fn run(self, default: &DefaultServer) -> Result<(), CliError> {
        let client = self.server.client(default)?;
        let mut copied = Copied::default();
        match (volume_place(&self.source), volume_place(&self.destination)) {
            (None, Some((volume, path))) => {
                let files = super::open(&client, volume).await?;
                upload(&files, Path::new(&self.source), path, &mut copied).await?;
            }
            (Some((volume, path)), None) => {
                let files = super::open(&client, volume).await?;
                download(&files, path, Path::new(&self.destination), &mut copied).await?;
            }
            (Some(_), Some(_)) | (None, None) => {
                return Err(CliError::input(
                    "one of the two is a path of this host, and the other VOLUME:PATH",
                    "`skep volume clone` copies a whole volume",
                ));
            }
        }
        let is_output = Path::new(&self.destination) == Path::new("-");
        if self.output.json && !is_output {
            let Copied {
                files,
                bytes,
                skipped,
            } = copied;
            return print_json(&json!({ "files": files, "bytes": bytes, "skipped": skipped }));
        }
        let skipped = match copied.skipped {
            0 => String::new(),
            count => format!(", {count} links and others left out"),
        };
        let (files, bytes) = (copied.files, copied.bytes);
        print_note(&format!("copied {files} files, {bytes} bytes{skipped}"));
        Ok(())
    }
}

/// A volume and a path, unless the text is a path of this host.
fn volume_place(text: &str) -> Option<(&str, &str)> {
    let (volume, path) = text.split_once(':')?;
    let is_name = !volume.is_empty() && !volume.contains(['/', '.']);
    is_name.then_some((volume, if path.is_empty() { "/" } else { path }))
}

async fn upload(
    files: &VolumeFiles,
    source: &Path,
    destination: &str,
    copied: &mut Copied,
) -> Result<(), CliError> {
    let metadata = fs::metadata(source).map_err(FileError::on("copy", source))?;
    let target = match files.stat(destination).await {
        Ok(entry) if entry.kind == VolumeEntryKind::Directory => {
            let whole = fs::canonicalize(source).map_err(FileError::on("find", source))?;
            join(destination, &name_of(&whole)?)
        }
        Ok(_) => destination.to_owned(),
        Err(error) if error.is_not_found() => destination.to_owned(),
        Err(error) => return Err(error.into()),
    };
    let mut waiting = vec![(source.to_owned(), target, metadata)];
    while let Some((source, target, metadata)) = waiting.pop() {
        if metadata.is_file() {
            send(files, &source, &target, metadata.len(), copied).await?;
            continue;
        }
        if !metadata.is_dir() {
            copied.skipped += 1;
            continue;
        }
        files.make_directory(&target).await?;
        let entries = fs::read_dir(&source).map_err(FileError::on("copy", &source))?;
        for entry in entries {
            let path = entry.map_err(FileError::on("copy", &source))?.path();
            let metadata = fs::symlink_metadata(&path).map_err(FileError::on("copy", &path))?;
            let target = join(&target, &name_of(&path)?);
            waiting.push((path, target, metadata));
        }
    }
    Ok(())
}

async fn send(
    files: &VolumeFiles,
    source: &Path,
    target: &str,
    length: u64,
    copied: &mut Copied,
) -> Result<(), CliError> {
    let pieces = transfer::pieces(source, length).await?;
    files.upload(target, length, pieces).await?;
    copied.files += 1;
    copied.bytes += length;
    Ok(())
}

async fn download(
    files: &VolumeFiles,
    source: &str,
    destination: &Path,
    copied: &mut Copied,
) -> Result<(), CliError> {
    let entry = files.stat(source).await?;
    if destination == Path::new("-") {
        let mut stream = files.download(source).await?;
        while let Some(piece) = stream.next().await? {
            print_bytes(&piece)?;
        }
        return Ok(());
    }
    let target = match entry.name.as_str() {
        name if destination.is_dir() && name != "/" => {
            destination.join(entry_name("volume", name)?)
        }
        _ => destination.to_owned(),
    };
    let mut waiting = vec![(entry, target)];
    while let Some((entry, target)) = waiting.pop() {
        match entry.kind {
            VolumeEntryKind::File => receive(files, &entry.path, &target, copied).await?,
            VolumeEntryKind::Directory => {
                fs::create_dir_all(&target).map_err(FileError::on("make", &target))?;
                for below in files.list(&entry.path, 1).await? {
                    // What a link leads to is in the volume under its own name, or nowhere.
                    if below.target.is_some() {
                        copied.skipped += 1;
                        continue;
                    }
                    let target = target.join(entry_name("volume", &below.name)?);
                    waiting.push((below, target));
                }
            }
            VolumeEntryKind::Symlink | VolumeEntryKind::Unknown => copied.skipped += 1,
        }
    }
    Ok(())
}

async fn receive(
    files: &VolumeFiles,
    source: &str,
    target: &Path,
    copied: &mut Copied,
) -> Result<(), CliError> {
    let mut stream = files.download(source).await?;
    let mut draft = Draft::of(target)?;
    while let Some(piece) = stream.next().await? {
        draft.write(&piece).await?;
        copied.bytes += piece.len() as u64;
    }
    draft.finish().await?;
    copied.files += 1;
    Ok(())
}

fn join(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

fn name_of(path: &Path) -> Result<String, CliError> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        CliError::input(
            format!("the name of `{}` is not UTF-8", path.display()),
            "name the destination in full",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_comes_before_a_colon_and_chooses_no_file_of_this_host() {
        assert_eq!(volume_place("data:/a"), Some(("data", "/a")));
        assert_eq!(volume_place("data:"), Some(("data", "/")));
        for text in ["data", "./data:x", "/tmp/a:b", ":x"] {
            assert_eq!(volume_place(text), None, "{text}");
        }
        for name in ["", "..", "a/b", "/etc/passwd"] {
            assert!(entry_name("volume", name).is_err(), "{name}");
        }
    }
}
