//! `POST /files/compose`: several files become one.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use rustix::fs::{Gid, Mode, OFlags, Uid, copy_file_range, fchown};
use rustix::io::Errno;
use serde::Deserialize;

use super::upload::Written;
use crate::agent::Agent;
use crate::filesystem::{FileError, View, blocking, entry, make_parents};
use crate::http::rest_error::RestError;
use crate::rootfs;
use crate::rootfs::{Location, Name};
use crate::sandbox::identifier;
use crate::sandbox::path;

/// The body of the request.
#[derive(Debug, Deserialize)]
pub(crate) struct Composition {
    #[serde(default)]
    source_paths: Vec<String>,
    #[serde(default)]
    destination: String,
    username: Option<String>,
}

/// `POST /files/compose`: concatenates files of the sandbox into one.
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
    let (config, accounts) = (agent.settings.current(), agent.spawner.accounts.clone());
    let paths = blocking(move || {
        let username = request.username.as_deref().filter(|name| !name.is_empty());
        let view = View::of(&accounts, &config, username)?;
        let destination = view.resolve(&request.destination)?;
        let sources = request
            .source_paths
            .iter()
            .map(|source| view.resolve(source))
            .collect::<Result<Vec<_>, _>>()?;
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
        let composed = concatenate(&sources, &destination, &view)?;
        let metadata = entry::metadata(&composed.directory, &composed.name);
        Ok(Written::new(destination, metadata))
    });
    Ok(Json(written.await?))
}

fn concatenate(sources: &[String], destination: &str, view: &View) -> Result<Location, FileError> {
    let opened = sources
        .iter()
        .map(|source| open_source(source))
        .collect::<Result<Vec<_>, _>>()?;
    let failed = |source: io::Error| FileError::io("write", destination, source);
    let is_directory = || FileError::IsDirectory {
        path: destination.to_owned(),
    };
    let (directory, parents) = make_parents(path::parent(destination), &view.user)?;
    let name = Name::new(path::base_name(destination)).map_err(failed)?;
    let location = Location { directory, name };
    if destination.ends_with('/') || location.leads_to_directory().map_err(failed)? {
        return Err(is_directory());
    }
    // Renamed over the destination when it is whole: nobody ever reads half of it.
    let partial = Partial::beside(&location).map_err(failed)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = partial.0.open(flags, Mode::from_raw_mode(0o644));
    let file = File::from(file.map_err(failed)?);
    for (source, _) in &opened {
        append(source, &file).map_err(failed)?;
    }
    let (uid, gid) = (Uid::from_raw(view.user.uid), Gid::from_raw(view.user.gid));
    fchown(&file, Some(uid), Some(gid)).map_err(|errno| failed(errno.into()))?;
    partial.0.rename(&location).map_err(failed)?;
    parents.keep();
    // By contract the parts are used up, but not before the whole is in its place.
    for ((_, source), path) in opened.iter().zip(sources) {
        match source.unlink() {
            Ok(()) => {}
            // A file that was named twice is gone after the first time.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(FileError::io("remove", path, error)),
        }
    }
    Ok(location)
}

/// A file to be read, and where its name is.
fn open_source(source: &str) -> Result<(File, Location), FileError> {
    let open = || -> io::Result<(File, Location)> {
        let location = Location::find(source)?;
        let file = location.open(OFlags::RDONLY, Mode::empty())?;
        rootfs::expect_regular(&file)?;
        Ok((File::from(file), location))
    };
    open().map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::NOTDIR) => FileError::SourceNotFound {
            path: source.to_owned(),
        },
        Some(Errno::ISDIR) => FileError::NotRegular {
            path: source.to_owned(),
        },
        _ => FileError::io("read", source, error),
    })
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

/// The place of an unfinished file, which is removed unless it was renamed away.
struct Partial(Location);

impl Partial {
    fn beside(location: &Location) -> io::Result<Self> {
        Ok(Self(Location {
            directory: location.directory.try_clone()?,
            name: Name::new(format!(".compose-{}", identifier::random(16)))?,
        }))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        match self.0.unlink() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::debug!(%error, "an unfinished file cannot be removed"),
        }
    }
}
