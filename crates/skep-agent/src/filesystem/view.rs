//! The filesystem as the user of a request sees it.

use skep_agent_protocol::AgentConfig;

use super::FileError;
use crate::sandbox::path;
use crate::sandbox::settings;
use crate::sandbox::users::{Accounts, User};

/// View of the filesystem that a request has: the user, and the directory of relative paths.
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
