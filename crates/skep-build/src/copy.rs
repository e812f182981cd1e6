//! The step that copies uploaded files.

mod archive;
mod from_version;

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use skep_telemetry::Chain;
use skep_types::FilesHash;

use crate::build::{Build, StepFailure};
use crate::context::Context;
use crate::room::Careful;
use archive::{ArchiveError, Kind, Owner, Survey, Wanted};

/// A copy, as the caller wrote it.
#[derive(Debug)]
pub(crate) struct Copy<'a> {
    pub(crate) source: &'a str,
    pub(crate) destination: &'a str,
    pub(crate) owner: Option<&'a str>,
    pub(crate) mode: Option<u32>,
    pub(crate) files: &'a FilesHash,
}

impl Build<'_> {
    /// Copies uploaded files into the sandbox of the step.
    pub(crate) async fn copy(
        &mut self,
        copy: Copy<'_>,
        context: &Context,
    ) -> Result<(), StepFailure> {
        let limit = self.engine.limits.layer_bytes;
        let (archive, survey) = self.open_archive(copy.files.clone(), limit).await?;
        let source = archive::source(copy.source).map_err(refused)?;
        let mut kind = survey.kind(&source, copy.source).map_err(refused)?;
        if archive::is_pattern(copy.source) {
            kind = Kind::Directory;
        }
        let name = source.file_name().map(Path::new);
        let target = self.target(copy.destination, kind, name, context).await?;
        let owner = self.owner(copy.owner.unwrap_or(&context.user)).await?;
        let wanted = Wanted {
            source,
            target,
            owner: Some(owner),
            mode: copy.mode,
            limit,
            at: seconds_now(),
        };
        self.place_files(archive, survey, wanted).await
    }

    /// Writes what is wanted of an archive anew, and unpacks it in the sandbox.
    async fn place_files(
        &mut self,
        archive: File,
        survey: Survey,
        wanted: Wanted,
    ) -> Result<(), StepFailure> {
        let (scratch, reserve) = (self.engine.scratch.clone(), self.engine.reserve);
        let written = tokio::task::spawn_blocking(move || {
            let into = tempfile::tempfile_in(scratch).map_err(ArchiveError::Write)?;
            survey.write(&archive, &wanted, Careful::new(&into, reserve))?;
            Ok(into)
        })
        .await
        .map_err(StepFailure::platform)?;
        self.unpack(written.map_err(refused)?).await
    }

    async fn open_archive(
        &self,
        files: FilesHash,
        limit: u64,
    ) -> Result<(File, Survey), StepFailure> {
        let (archives, team) = (self.engine.archives.clone(), self.order.team.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let opened = archives
                .open(&team, &files)
                .map_err(StepFailure::platform)?;
            let archive = opened.ok_or_else(|| {
                StepFailure::caller(format!(
                    "the files '{}' of this step were not uploaded",
                    files.as_str()
                ))
            })?;
            let survey = Survey::of(&archive, limit).map_err(refused)?;
            Ok((archive, survey))
        });
        opened.await.map_err(StepFailure::platform)?
    }

    /// The absolute path that the source becomes.
    async fn target(
        &mut self,
        destination: &str,
        kind: Kind,
        name: Option<&Path>,
        context: &Context,
    ) -> Result<PathBuf, StepFailure> {
        let base = if destination.starts_with('/') {
            PathBuf::from("/")
        } else {
            PathBuf::from(self.directory(context).await?)
        };
        let target = normal(&base.join(destination));
        let is_into = match kind {
            Kind::Directory => false,
            Kind::File | Kind::Link => {
                destination.ends_with('/')
                    || destination.is_empty()
                    || self.is_directory(&target).await?
            }
        };
        Ok(match name {
            Some(name) if is_into => target.join(name),
            _ => target,
        })
    }

    async fn is_directory(&mut self, path: &Path) -> Result<bool, StepFailure> {
        let path = path.to_string_lossy();
        let (exit, _) = self
            .ask(&["/bin/sh", "-c", "test -d \"$1\"", "sh", &path])
            .await?;
        Ok(exit.is_success())
    }

    /// Finds the owner that a text names, in the sandbox.
    async fn owner(&mut self, text: &str) -> Result<Owner, StepFailure> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let unknown = || StepFailure::caller(format!("there is no user '{text}' to own the files"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = |text: &str| text.parse::<u64>().map_err(|_| unknown());
        if is_number(user) && group.is_none_or(is_number) {
            let uid = number(user)?;
            let gid = group.map_or(Ok(uid), number)?;
            return Ok(Owner {
                user: String::new(),
                uid,
                group: String::new(),
                gid,
            });
        }
        let script = "id -u -- \"$1\" && id -g -- \"$1\"";
        let (exit, said) = self.ask(&["/bin/sh", "-c", script, "sh", user]).await?;
        let mut ids = said.lines().map(str::parse::<u64>);
        let (Some(Ok(uid)), Some(Ok(gid))) = (ids.next(), ids.next()) else {
            return Err(unknown());
        };
        if !exit.is_success() {
            return Err(unknown());
        }
        let group = group.filter(|group| !group.is_empty());
        let numbered = group.filter(|group| is_number(group)).map(number);
        Ok(Owner {
            user: user.to_owned(),
            uid,
            group: match (&numbered, group) {
                (Some(_), _) => String::new(),
                // The group that is called like the user, if there is one.
                (None, group) => group.unwrap_or(user).to_owned(),
            },
            gid: numbered.unwrap_or(Ok(gid))?,
        })
    }

    /// Unpacks an archive of ours at the root of the sandbox.
    async fn unpack(&mut self, archive: File) -> Result<(), StepFailure> {
        let path = format!(
            "/.skep-copy-{:016x}",
            u64::from_ne_bytes(skep_types::random_bytes())
        );
        let sandbox = self.sandbox().await?;
        let written = sandbox.write(path.clone(), archive).await;
        written.map_err(StepFailure::platform)?;
        let unpacking = [
            "tar",
            "-x",
            "-p",
            // A directory that is there keeps its owner and mode, and a link to one stays.
            "--no-overwrite-dir",
            "--keep-directory-symlink",
            "-C",
            "/",
            "-f",
            &path,
        ];
        let (unpacked, said) = self.ask(&unpacking).await?;
        let (removed, _) = self.ask(&["rm", "-f", &path]).await?;
        if !unpacked.is_success() {
            let message = format!("failed to copy the files: {}: {said}", unpacked.status);
            return Err(StepFailure::caller(message));
        }
        if removed.is_success() {
            Ok(())
        } else {
            Err(StepFailure::caller(format!(
                "failed to copy the files: {}",
                removed.status
            )))
        }
    }
}

fn seconds_now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map(|since| since.as_secs()).unwrap_or_default()
}

/// An absolute path without dots.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    normal
}

fn refused(error: ArchiveError) -> StepFailure {
    if let ArchiveError::Write(_) = error {
        return StepFailure::platform(error);
    }
    tracing::debug!(error = %Chain(&error), "an upload cannot be copied");
    StepFailure::caller(error.to_string())
}
