//! The step that copies files out of another version of a template.
//!
//! A sandbox of that version packs them, so whatever its files are made to look like, its own root
//! is all that they can lead to. What it has packed is read as what strangers wrote, like an upload.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use skep_types::{LayerKey, VersionCopy};

use super::archive::{ArchiveError, Kind, Survey, Wanted};
use super::refused;
use crate::build::{Build, StepFailure};
use crate::context::{Context, STANDARD_PATH};
use crate::log::Kept;
use crate::room::Careful;
use crate::sandboxes::{BuildSandbox, Command, Output, RunError, Stream};

/// Time limit for packing the files of one source.
const PACK_TIMEOUT: Duration = Duration::from_mins(10);

/// Most bytes of names that patterns may match.
const MOST_NAMES: u64 = 1 << 20;

/// Exit code of the script for a pattern that nothing matches.
const NO_MATCH: i32 = 20;

/// Prints what each pattern matches: the path, and what it is once links are followed. Patterns are
/// expanded and never evaluated, because a field of an expansion is no code.
const FIND: &str = r#"
IFS=
for pattern do
    found=
    for path in $pattern; do
        real=$(readlink -f -- "$path") && [ -e "$real" ] || continue
        found=yes
        kind=file
        [ -d "$real" ] && kind=directory
        printf '%s\0%s\0%s\0' "$kind" "$path" "$real"
    done
    if [ -z "$found" ]; then
        printf '%s' "$pattern" >&2
        exit 20
    fi
done
"#;

/// A file or directory that is copied.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    is_directory: bool,
    path: String,
    /// The path without links.
    real: String,
}

impl Build<'_> {
    /// Copies files of other layers into the sandbox of the step.
    pub(crate) async fn copy_from(
        &mut self,
        layers: Vec<LayerKey>,
        copy: &VersionCopy,
        context: &Context,
    ) -> Result<(), StepFailure> {
        let source = self.open_sandbox(layers).await?;
        self.open.keep_source(Arc::clone(&source));
        let found = self.find(source.as_ref(), &copy.sources).await?;
        if found.len() > 1 && !copy.destination.ends_with('/') {
            return Err(StepFailure::caller(format!(
                "several sources need a directory as their destination, with a slash at its end: '{}'",
                copy.destination
            )));
        }
        let mut packed = Vec::new();
        // All of them are on the disk at once.
        let mut left = self.engine.limits.layer_bytes;
        for found in found {
            let archive = self.pack(source.as_ref(), &found, left).await?;
            let size = archive.metadata().map_err(StepFailure::platform)?.len();
            left = left.saturating_sub(size);
            packed.push((found, archive));
        }
        // Its place may be needed for the step's own.
        self.open.clear_source().await;
        for (found, archive) in packed {
            self.place_found(&found, archive, copy, context).await?;
        }
        Ok(())
    }

    /// Paths in a sandbox that the sources mean.
    async fn find(
        &self,
        sandbox: &dyn BuildSandbox,
        sources: &[String],
    ) -> Result<Vec<Found>, StepFailure> {
        let mut arguments = vec!["/bin/sh", "-c", FIND, "sh"];
        let rooted: Vec<_> = sources
            .iter()
            .map(|source| format!("/{}", source.trim_start_matches('/')))
            .collect();
        arguments.extend(rooted.iter().map(String::as_str));
        let listed = self.packed(sandbox, &arguments, MOST_NAMES).await?;
        let text = listed.into_bytes().map_err(StepFailure::platform)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        read_found(&text).ok_or_else(|| StepFailure::caller("the names of the files are damaged"))
    }

    /// An archive of something, made by a sandbox.
    async fn pack(
        &self,
        sandbox: &dyn BuildSandbox,
        found: &Found,
        limit: u64,
    ) -> Result<File, StepFailure> {
        let real = Path::new(&found.real);
        let inside = ["-C", &found.real, "."];
        let above = real.parent().map(Path::to_string_lossy);
        let name = real.file_name().map(std::ffi::OsStr::to_string_lossy);
        let what = match (&above, &name) {
            (Some(above), Some(name)) if !found.is_directory => ["-C", above, name],
            _ => inside,
        };
        let mut arguments = vec!["tar", "-c", "-f", "-", "--format=gnu"];
        // Files that are one there are several here, and what is mounted is of no layer.
        arguments.extend(["--hard-dereference", "--one-file-system"]);
        arguments.extend(what);
        let packed = self.packed(sandbox, &arguments, limit).await?;
        Ok(packed.file)
    }

    /// The output of a command of ours in a sandbox of another version.
    async fn packed(
        &self,
        sandbox: &dyn BuildSandbox,
        arguments: &[&str],
        limit: u64,
    ) -> Result<Packed, StepFailure> {
        let command = Command {
            arguments: arguments.iter().map(|&text| text.to_owned()).collect(),
            user: "root".to_owned(),
            directory: Some("/".to_owned()),
            environment: [("PATH".to_owned(), STANDARD_PATH.to_owned())].into(),
            timeout: PACK_TIMEOUT,
        };
        let file = tempfile::tempfile_in(&self.engine.scratch).map_err(StepFailure::platform)?;
        let kept = Arc::new(Packing {
            state: Mutex::new(PackingState {
                packed: Careful::new(file, self.engine.reserve),
                left: limit,
                failure: None,
            }),
            said: Kept::default(),
        });
        let ended = sandbox.run(&command, kept.clone()).await;
        let said = kept.said.text();
        match ended {
            Ok(exit) if exit.is_success() => {}
            Ok(exit) if exit.code == Some(NO_MATCH) => {
                return Err(StepFailure::caller(format!("there is no '{said}' to copy")));
            }
            Ok(exit) => {
                let message = format!("failed to read the files: {}: {said}", exit.status);
                return Err(StepFailure::caller(message));
            }
            Err(RunError::Refused { message, .. }) => return Err(StepFailure::caller(message)),
            Err(error @ (RunError::TimedOut(_) | RunError::Lost(_))) => {
                return Err(StepFailure::platform(error));
            }
        }
        let mut state = kept.state.lock();
        if let Some(error) = state.failure.take() {
            let (is_too_large, is_full) = (
                error.kind() == io::ErrorKind::FileTooLarge,
                error.kind() == io::ErrorKind::StorageFull,
            );
            return Err(if is_too_large {
                StepFailure::caller(format!(
                    "the files to copy take more than {} MiB",
                    self.engine.limits.layer_bytes >> 20
                ))
            } else if is_full {
                refused(ArchiveError::NoRoom)
            } else {
                StepFailure::platform(error)
            });
        }
        let file = state
            .packed
            .file()
            .try_clone()
            .map_err(StepFailure::platform)?;
        Ok(Packed { file })
    }

    /// Copies one thing that was packed.
    async fn place_found(
        &mut self,
        found: &Found,
        archive: File,
        copy: &VersionCopy,
        context: &Context,
    ) -> Result<(), StepFailure> {
        let limit = self.engine.limits.layer_bytes;
        let surveyed = tokio::task::spawn_blocking(move || {
            let survey = Survey::of(&archive, limit)?;
            Ok((archive, survey))
        })
        .await
        .map_err(StepFailure::platform)?;
        let (archive, survey) = surveyed.map_err(refused)?;
        let (kind, source) = if found.is_directory {
            (Kind::Directory, Path::new(""))
        } else {
            let name = Path::new(&found.real).file_name();
            (Kind::File, name.map_or(Path::new(""), Path::new))
        };
        // By the name that was asked for: a link and what it leads to may be called differently.
        let name = Path::new(&found.path).file_name().map(Path::new);
        let target = self.target(&copy.destination, kind, name, context).await?;
        let owner = match &copy.owner {
            Some(owner) => Some(self.owner(owner).await?),
            None => None,
        };
        let wanted = Wanted {
            source: source.to_owned(),
            target,
            owner,
            mode: copy.mode,
            limit,
            at: super::seconds_now(),
        };
        self.place_files(archive, survey, wanted).await
    }
}

/// Reads what the script printed.
fn read_found(text: &str) -> Option<Vec<Found>> {
    let words: Vec<_> = text.split_terminator('\0').collect();
    let (found, rest) = words.as_chunks::<3>();
    let read = |[kind, path, real]: &[&str; 3]| Found {
        is_directory: *kind == "directory",
        path: (*path).to_owned(),
        real: (*real).to_owned(),
    };
    rest.is_empty().then(|| found.iter().map(read).collect())
}

/// Output of a command, as a file.
#[derive(Debug)]
struct Packed {
    file: File,
}

impl Packed {
    fn into_bytes(self) -> io::Result<Vec<u8>> {
        use std::io::{Read as _, Seek as _};
        let mut bytes = Vec::new();
        let mut file = self.file;
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Receiver of an archive, and of what its maker says about it.
struct Packing {
    state: Mutex<PackingState>,
    said: Kept,
}

struct PackingState {
    packed: Careful<File>,
    /// Bytes that may still come.
    left: u64,
    failure: Option<io::Error>,
}

impl Output for Packing {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Stderr {
            self.said.write(stream, bytes);
            return;
        }
        let mut state = self.state.lock();
        if state.failure.is_some() {
            return;
        }
        let length = bytes.len() as u64;
        let written = if length > state.left {
            Err(io::ErrorKind::FileTooLarge.into())
        } else {
            state.packed.write_all(bytes)
        };
        state.left = state.left.saturating_sub(length);
        state.failure = written.err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_has_a_kind_and_two_paths() {
        let found = read_found("file\0/a\0/b\0directory\0/c d\0/c d\0").unwrap();
        assert_eq!(found.len(), 2);
        assert!(!found[0].is_directory && found[1].is_directory);
        assert_eq!(
            (found[0].path.as_str(), found[0].real.as_str()),
            ("/a", "/b")
        );
        assert!(read_found("file\0/a\0").is_none());
    }
}
