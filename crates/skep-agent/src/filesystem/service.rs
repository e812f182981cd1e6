//! The filesystem service of the contract.

use std::sync::Arc;
use std::time::Duration;

use connectrpc::{ConnectError, ErrorCode, RequestContext};
use rustix::io::Errno;
use skep_wire::rpc::filesystem as wire;

use super::strict_clients::readable;
use super::{FileError, View, blocking, entry, list, make_parents, remove};
use crate::agent::Agent;
use crate::http::caller;
use crate::rootfs::{self, Location, Name};
use crate::sandbox::path;
use crate::sandbox::users::User;

/// Time limit for a listing to wait for those before it. Each takes less than a second.
const LISTING_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs `work` on the blocking pool with the view of the caller.
pub(crate) async fn with_view<T: Send + 'static>(
    agent: &Agent,
    context: &RequestContext,
    work: impl FnOnce(&View) -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    let username = caller::username(context.headers());
    let (config, accounts) = (agent.settings.current(), agent.spawner.accounts.clone());
    blocking(move || work(&View::of(&accounts, &config, username.as_deref())?)).await
}

pub(crate) async fn stat_entry(
    agent: Arc<Agent>,
    context: RequestContext,
    request: wire::StatRequest,
) -> Result<wire::StatResponse, ConnectError> {
    let entry = with_view(&agent, &context, move |view| {
        entry::describe(&view.resolve(&request.path)?, &view.accounts.names())
    });
    Ok(wire::StatResponse {
        entry: readable(entry.await?, &context).into(),
    })
}

pub(crate) async fn make_dir(
    agent: Arc<Agent>,
    context: RequestContext,
    request: wire::MakeDirRequest,
) -> Result<wire::MakeDirResponse, ConnectError> {
    let entry = with_view(&agent, &context, move |view| {
        let path = view.resolve(&request.path)?;
        let made = make_directory(&path, &view.user)?;
        described(&made, &path, view)
    });
    Ok(wire::MakeDirResponse {
        entry: readable(entry.await?, &context).into(),
    })
}

fn described(location: &Location, path: &str, view: &View) -> Result<wire::EntryInfo, FileError> {
    let names = view.accounts.names();
    entry::describe_in(&location.directory, &location.name, path, &names)
        .map_err(|source| FileError::io("stat", path, source))
}

/// `path` without the slashes behind it.
fn trimmed(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => "/",
        trimmed => trimmed,
    }
}

fn errno(error: &std::io::Error) -> Option<Errno> {
    Errno::from_io_error(error)
}

fn make_directory(path: &str, user: &User) -> Result<Location, FileError> {
    let exists = |directory| {
        let path = path.to_owned();
        if directory {
            FileError::DirectoryExists { path }
        } else {
            FileError::IsFile { path }
        }
    };
    let trimmed = trimmed(path);
    match rootfs::kind_of(trimmed) {
        Ok(kind) => return Err(exists(kind.is_dir())),
        Err(error) => match errno(&error) {
            Some(Errno::NOENT) => {}
            Some(Errno::NOTDIR) => {
                return Err(FileError::IsFile {
                    path: path::parent(path).to_owned(),
                });
            }
            _ => return Err(FileError::io("stat", path, error)),
        },
    }
    let failed = |source| FileError::io("make directory", path, source);
    let (directory, parents) = make_parents(path::parent(trimmed), user)?;
    let name = Name::new(path::base_name(trimmed)).map_err(failed)?;
    match directory.make(&name, (user.uid, user.gid)) {
        Ok(()) => {}
        Err(error) if errno(&error) == Some(Errno::EXIST) => return Err(exists(true)),
        Err(error) => return Err(failed(error)),
    }
    parents.keep();
    Ok(Location { directory, name })
}

pub(crate) async fn move_entry(
    agent: Arc<Agent>,
    context: RequestContext,
    request: wire::MoveRequest,
) -> Result<wire::MoveResponse, ConnectError> {
    let entry = with_view(&agent, &context, move |view| {
        let source = view.resolve(&request.source)?;
        let destination = view.resolve(&request.destination)?;
        let moved = relocate(&source, &destination, &view.user)?;
        described(&moved, &destination, view)
    });
    Ok(wire::MoveResponse {
        entry: readable(entry.await?, &context).into(),
    })
}

/// Moves what a path names; answers where it is now.
fn relocate(source: &str, destination: &str, user: &User) -> Result<Location, FileError> {
    let not_found = || FileError::SourceNotFound {
        path: source.to_owned(),
    };
    let failed = |error: std::io::Error| match errno(&error) {
        Some(Errno::NOENT | Errno::NOTDIR) => not_found(),
        _ => FileError::io("move", source, error),
    };
    let from = Location::find(trimmed(source)).map_err(failed)?;
    let is_directory = from.is_directory().map_err(failed)?;
    // As for `rename`, a slash behind a path says that a directory is meant.
    if source.ends_with('/') && !is_directory {
        return Err(not_found());
    }
    let not_a_directory = || FileError::NotADirectory {
        path: destination.to_owned(),
    };
    if destination.ends_with('/') && !is_directory {
        return Err(not_a_directory());
    }
    let (directory, parents) = make_parents(path::parent(destination), user)?;
    let name = Name::new(path::base_name(destination))
        .map_err(|error| FileError::io("move", source, error))?;
    let to = Location { directory, name };
    from.rename(&to).map_err(|error| match errno(&error) {
        Some(Errno::ISDIR) => FileError::IsDirectory {
            path: destination.to_owned(),
        },
        Some(Errno::NOTDIR) => not_a_directory(),
        _ => FileError::io("move", source, error),
    })?;
    parents.keep();
    Ok(to)
}

pub(crate) async fn list_dir(
    agent: Arc<Agent>,
    context: RequestContext,
    request: wire::ListDirRequest,
) -> Result<wire::ListDirResponse, ConnectError> {
    // One answer at a time takes what an answer may take, also if its caller has gone.
    let turn = Arc::clone(&agent.listings).acquire_owned();
    let turn = tokio::time::timeout(LISTING_TIMEOUT, turn)
        .await
        .map_err(|_elapsed| {
            let message = "other directories are being listed; try again";
            ConnectError::new(ErrorCode::ResourceExhausted, message)
        })?
        .expect("the semaphore is never closed");
    let entries = with_view(&agent, &context, move |view| {
        let _turn = turn;
        list(
            &view.resolve(&request.path)?,
            request.depth,
            &view.accounts.names(),
        )
    })
    .await?
    .into_iter();
    Ok(wire::ListDirResponse {
        entries: entries.map(|entry| readable(entry, &context)).collect(),
    })
}

pub(crate) async fn remove_entry(
    agent: Arc<Agent>,
    context: RequestContext,
    request: wire::RemoveRequest,
) -> Result<wire::RemoveResponse, ConnectError> {
    with_view(&agent, &context, move |view| {
        remove(&view.resolve(&request.path)?)
    })
    .await?;
    Ok(wire::RemoveResponse::default())
}
