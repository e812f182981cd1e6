//! The filesystem service of the contract.

use std::sync::Arc;

use connectrpc::{ConnectError, RequestContext};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Uid, chownat, lstat, mkdir, rename, stat};
use rustix::io::Errno;
use skep_wire::agent::AgentConfig;
use skep_wire::rpc::filesystem as wire;

use super::{FileError, blocking, entry, list, make_parents, remove};
use crate::agent::Agent;
use crate::users::{Accounts, User};
use crate::{caller, path, settings};

/// Whose view of the filesystem a request has.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) accounts: Accounts,
    pub(crate) user: User,
    workdir: Option<String>,
}

impl View {
    /// The view of the named user, or of the sandbox's default one. Reads files.
    pub(crate) fn of(
        accounts: &Accounts,
        config: &AgentConfig,
        username: Option<&str>,
    ) -> Result<Self, FileError> {
        let name = username.unwrap_or_else(|| settings::default_user(config));
        let user = accounts.find(name).map_err(|source| FileError::User {
            name: name.to_owned(),
            source,
        })?;
        Ok(Self {
            accounts: accounts.clone(),
            user,
            workdir: config.default_workdir.clone(),
        })
    }

    /// The absolute path that this user means.
    pub(crate) fn resolve(&self, requested: &str) -> Result<String, FileError> {
        path::resolve(requested, &self.user, self.workdir.as_deref()).map_err(FileError::Path)
    }
}

/// Runs `work` on the blocking pool with the view of the caller.
pub(crate) async fn with_view<T: Send + 'static>(
    agent: &Agent,
    context: &RequestContext,
    work: impl FnOnce(&View) -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    let username = caller::username(context.headers());
    let (config, accounts) = (agent.settings.current(), agent.place.accounts.clone());
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
        entry: entry.await?.into(),
    })
}

pub(crate) async fn make_dir(
    agent: Arc<Agent>,
    context: RequestContext,
    request: wire::MakeDirRequest,
) -> Result<wire::MakeDirResponse, ConnectError> {
    let entry = with_view(&agent, &context, move |view| {
        let path = view.resolve(&request.path)?;
        make_directory(&path, &view.user)?;
        entry::describe(&path, &view.accounts.names())
    });
    Ok(wire::MakeDirResponse {
        entry: entry.await?.into(),
    })
}

fn make_directory(path: &str, user: &User) -> Result<(), FileError> {
    let trimmed = if path == "/" {
        path
    } else {
        path.trim_end_matches('/')
    };
    let exists = |directory| {
        let path = path.to_owned();
        if directory {
            FileError::DirectoryExists { path }
        } else {
            FileError::IsFile { path }
        }
    };
    match stat(trimmed) {
        Ok(found) => return Err(exists(FileType::from_raw_mode(found.st_mode).is_dir())),
        Err(Errno::NOENT) => {}
        Err(Errno::NOTDIR) => {
            return Err(FileError::IsFile {
                path: path::parent(path).to_owned(),
            });
        }
        Err(errno) => return Err(FileError::io("stat", path, errno.into())),
    }
    let parents = make_parents(path::parent(trimmed), user)?;
    match mkdir(trimmed, Mode::from_raw_mode(0o755)) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(exists(true)),
        Err(errno) => return Err(FileError::io("make directory", path, errno.into())),
    }
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    chownat(
        CWD,
        trimmed,
        Some(uid),
        Some(gid),
        AtFlags::SYMLINK_NOFOLLOW,
    )
    .map_err(|errno| FileError::io("chown", path, errno.into()))?;
    parents.keep();
    Ok(())
}

pub(crate) async fn move_entry(
    agent: Arc<Agent>,
    context: RequestContext,
    request: wire::MoveRequest,
) -> Result<wire::MoveResponse, ConnectError> {
    let entry = with_view(&agent, &context, move |view| {
        let source = view.resolve(&request.source)?;
        let destination = view.resolve(&request.destination)?;
        if lstat(source.as_str()).is_err_and(|errno| matches!(errno, Errno::NOENT | Errno::NOTDIR))
        {
            return Err(FileError::SourceNotFound { path: source });
        }
        let parents = make_parents(path::parent(&destination), &view.user)?;
        rename(source.as_str(), destination.as_str()).map_err(|errno| match errno {
            Errno::ISDIR => FileError::IsDirectory {
                path: destination.clone(),
            },
            Errno::NOTDIR => FileError::NotADirectory {
                path: destination.clone(),
            },
            errno => FileError::io("move", &source, errno.into()),
        })?;
        parents.keep();
        entry::describe(&destination, &view.accounts.names())
    });
    Ok(wire::MoveResponse {
        entry: entry.await?.into(),
    })
}

pub(crate) async fn list_dir(
    agent: Arc<Agent>,
    context: RequestContext,
    request: wire::ListDirRequest,
) -> Result<wire::ListDirResponse, ConnectError> {
    let entries = with_view(&agent, &context, move |view| {
        list(
            &view.resolve(&request.path)?,
            request.depth,
            &view.accounts.names(),
        )
    });
    Ok(wire::ListDirResponse {
        entries: entries.await?,
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
