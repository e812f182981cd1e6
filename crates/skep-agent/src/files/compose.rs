//! `POST /files/compose`: several files become one.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, copy_file_range, fchown, rename, unlinkat};
use rustix::io::Errno;
use serde::Deserialize;

use super::upload::Written;
use crate::agent::Agent;
use crate::filesystem::service::View;
use crate::filesystem::{FileError, blocking, entry, make_parents};
use crate::rest_error::RestError;
use crate::{identifier, open, path};

/// The body of the request.
#[derive(Debug, Deserialize)]
pub(crate) struct Composition {
    #[serde(default)]
    source_paths: Vec<String>,
    #[serde(default)]
    destination: String,
    username: Option<String>,
}

/// `POST /files/compose`
pub(crate) async fn compose(
    State(agent): State<Arc<Agent>>,
    body: Result<Json<Composition>, JsonRejection>,
) -> Result<Json<Written>, RestError> {
    let Json(request) = body.map_err(|rejection| RestError::bad_request(rejection.body_text()))?;
    if request.source_paths.is_empty() {
        return Err(RestError::bad_request("source_paths must not be empty"));
    }
    if request.destination.is_empty() {
        return Err(RestError::bad_request("destination is required"));
    }
    let (config, accounts) = (agent.settings.current(), agent.place.accounts.clone());
    let paths = blocking(move || {
        let username = request.username.as_deref().filter(|name| !name.is_empty());
        let view = View::of(&accounts, &config, username)?;
        let destination = view.resolve(&request.destination)?;
        let sources = request
            .source_paths
            .iter()
            .map(|source| view.resolve(source));
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        Ok((view, destination, sources))
    });
    let (view, destination, sources) = paths.await?;
    let same = |source: &String| path::clean(source) == path::clean(&destination);
    if let Some(source) = sources.iter().find(|source| same(source)) {
        return Err(RestError::bad_request(format!(
            "source and destination are the same path: {source}"
        )));
    }
    let written = blocking(move || {
        concatenate(&sources, &destination, &view)?;
        let metadata = entry::metadata(&destination);
        Ok(Written::new(destination, metadata))
    });
    Ok(Json(written.await?))
}

fn concatenate(sources: &[String], destination: &str, view: &View) -> Result<(), FileError> {
    let opened = sources
        .iter()
        .map(|source| open_source(source))
        .collect::<Result<Vec<_>, _>>()?;
    let parents = make_parents(path::parent(destination), &view.user)?;
    if std::fs::metadata(destination).is_ok_and(|found| found.is_dir()) {
        return Err(FileError::IsDirectory {
            path: destination.to_owned(),
        });
    }
    let name = format!(".compose-{}", identifier::random(16));
    let partial = Partial(path::join(path::parent(destination), &name));
    let failed = |source: io::Error| FileError::io("write", destination, source);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = open::open(&partial.0, flags, Mode::from_raw_mode(0o644)).map_err(failed)?;
    let file = File::from(file);
    for source in &opened {
        append(source, &file).map_err(failed)?;
    }
    let (uid, gid) = (Uid::from_raw(view.user.uid), Gid::from_raw(view.user.gid));
    fchown(&file, Some(uid), Some(gid)).map_err(|errno| failed(errno.into()))?;
    rename(partial.0.as_str(), destination).map_err(|errno| failed(errno.into()))?;
    parents.keep();
    for source in sources {
        match unlinkat(CWD, source.as_str(), AtFlags::empty()) {
            // A file that was named twice is gone after the first time.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(FileError::io("remove", source, errno.into())),
        }
    }
    Ok(())
}

fn open_source(source: &str) -> Result<File, FileError> {
    let failed = |error: io::Error| match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::NOTDIR) => FileError::SourceNotFound {
            path: source.to_owned(),
        },
        Some(Errno::ISDIR) => FileError::NotRegular {
            path: source.to_owned(),
        },
        _ => FileError::io("read", source, error),
    };
    open::regular_for_reading(source).map_err(failed)
}

fn append(source: &File, file: &File) -> io::Result<()> {
    let mut left = source.metadata()?.size();
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX);
        match copy_file_range(source, None, file, None, wanted) {
            Ok(0) => break,
            Ok(copied) => left = left.saturating_sub(copied as u64),
            // Between filesystems the kernel may refuse; then the bytes go through here.
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP) => {
                io::copy(&mut &*source, &mut &*file)?;
                break;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// The name of an unfinished file, which is removed unless it was renamed away.
struct Partial(String);

impl Drop for Partial {
    fn drop(&mut self) {
        match unlinkat(CWD, self.0.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => tracing::debug!(%error, "an unfinished file cannot be removed"),
        }
    }
}
