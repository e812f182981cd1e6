//! Files of this host on their way to a server, and from one.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use futures_util::Stream;
use tempfile::TempPath;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{CliError, FileError};

/// Size of the pieces in which a file is read.
const PIECE: usize = 1 << 20;

/// Reads the first `length` bytes of a file piece by piece, so that one of any length needs little
/// memory. A file that grows meanwhile is read as long as it was.
pub(crate) async fn pieces(
    source: &Path,
    length: u64,
) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>, CliError> {
    let file = tokio::fs::File::open(source)
        .await
        .map_err(FileError::on("copy", source))?;
    Ok(futures_util::stream::try_unfold(
        file.take(length),
        async |mut file| {
            let mut piece = Vec::with_capacity(PIECE);
            (&mut file)
                .take(PIECE as u64)
                .read_to_end(&mut piece)
                .await?;
            Ok((!piece.is_empty()).then(|| (Bytes::from(piece), file)))
        },
    ))
}

/// A file that is written beside its place first: what was there stays until all of it has come.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    file: tokio::fs::File,
    path: TempPath,
    target: &'a Path,
}

impl<'a> Draft<'a> {
    pub(crate) fn of(target: &'a Path) -> Result<Self, CliError> {
        let directory = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            Some(_) | None => PathBuf::from("."),
        };
        let draft = tempfile::Builder::new()
            .prefix(".skep-")
            // As any new file has them; the process's mask takes its part away.
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(&directory)
            .map_err(FileError::on("write into", &directory))?;
        let (file, path) = draft.into_parts();
        Ok(Self {
            file: tokio::fs::File::from_std(file),
            path,
            target,
        })
    }

    pub(crate) async fn write(&mut self, piece: &[u8]) -> Result<(), CliError> {
        let written = self.file.write_all(piece).await;
        written.map_err(FileError::on("write", self.target))
    }

    /// Puts the file in its place.
    pub(crate) async fn finish(mut self) -> Result<(), CliError> {
        let failed = |error| FileError::on("write", self.target)(error);
        self.file.flush().await.map_err(failed)?;
        let placed = self.path.persist(self.target);
        placed.map_err(|error| failed(error.error))
    }
}

/// The name of an entry, if it is one: what a sandbox or a volume (`owner`) tells never chooses where
/// a file of this host is written.
pub(crate) fn entry_name<'a>(owner: &str, name: &'a str) -> Result<&'a Path, CliError> {
    let path = Path::new(name);
    let mut components = path.components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(_)), None) => Ok(path),
        _ => Err(CliError::failure(format!(
            "the {owner} names a file `{name}`, which is no name"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_chooses_where_files_are_written() {
        assert_eq!(entry_name("sandbox", "a b").unwrap(), Path::new("a b"));
        for name in ["", "..", ".", "a/b", "/etc/passwd", "../x"] {
            assert!(entry_name("volume", name).is_err(), "{name}");
        }
    }
}
