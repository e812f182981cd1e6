//! Configuration of this agent's sandbox, as the server sent it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::RwLock;
use rustix::fs::{Mode, OFlags};
use skep_agent_protocol::AgentConfig;

use crate::filesystem::{FileError, make_parents};
use crate::http::signature::equal;
use crate::rootfs::{Directory, Name};
use crate::sandbox::users::User;
use crate::sandbox::{path, trust};

/// User of a command when neither the caller nor the server names one.
const FALLBACK_USER: &str = "user";

/// Address to which the events of a sandbox are sent, by contract.
const EVENTS_ADDRESS: &str = "http://192.0.2.1";

/// The current configuration. Replaced as a whole, so that no request sees half of two.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Held for the time of a comparison.
    control_token: RwLock<String>,
    /// Protects the pointer only; held for the time of a copy.
    current: RwLock<Arc<AgentConfig>>,
}

impl Settings {
    pub(crate) fn new(config: AgentConfig) -> Self {
        Self {
            control_token: RwLock::new(config.control_token.clone()),
            current: RwLock::new(Arc::new(config)),
        }
    }

    /// The configuration as it is now.
    pub(crate) fn current(&self) -> Arc<AgentConfig> {
        Arc::clone(&self.current.read())
    }

    /// Takes over an authority that programs of the sandbox trust from now on.
    pub(crate) fn trust(&self, authority: String) {
        let mut current = self.current.write();
        let mut config = AgentConfig::clone(&current);
        config.authority = Some(authority);
        *current = Arc::new(config);
    }

    /// Takes over everything but the control token.
    pub(crate) fn replace(&self, config: AgentConfig) {
        *self.current.write() = Arc::new(config);
    }

    /// Takes over everything, as the agent of another sandbox: a copy does not obey whoever its
    /// original does.
    pub(crate) fn become_another(&self, config: AgentConfig) {
        self.control_token.write().clone_from(&config.control_token);
        self.replace(config);
    }

    /// Returns true if the caller is the server. An agent without a control token obeys nobody.
    pub(crate) fn is_control(&self, shown: &[u8]) -> bool {
        let token = self.control_token.read();
        !token.is_empty() && equal(shown, token.as_bytes())
    }
}

/// The user that runs what names nobody.
pub(crate) fn default_user(config: &AgentConfig) -> &str {
    if config.default_user.is_empty() {
        FALLBACK_USER
    } else {
        &config.default_user
    }
}

/// Returns the environment that every process of the sandbox gets.
pub(crate) fn environment(config: &AgentConfig) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    if config.authority.is_some() {
        let trusting = trust::variables();
        environment.extend(trusting.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    environment.extend(config.env.clone());
    for (name, value) in identity(config) {
        environment.insert(name.to_owned(), value.to_owned());
    }
    environment.insert("E2B_EVENTS_ADDRESS".to_owned(), EVENTS_ADDRESS.to_owned());
    environment
}

/// Writes the files by which programs learn in which sandbox they run.
///
/// They are made anew: what the sandbox has put in their place may be a pipe that blocks.
pub(crate) fn write_identity(config: &AgentConfig, path: &str) -> Result<(), FileError> {
    let (directory, made) = make_parents(path, &User::root())?;
    made.keep();
    for (name, value) in identity(config) {
        let name = format!(".{name}");
        write_anew(&directory, &name, value.as_bytes())
            .map_err(|source| FileError::io("write", &path::join(path, &name), source))?;
    }
    Ok(())
}

/// Writes a file in place of whatever has its name.
pub(super) fn write_anew(directory: &Directory, name: &str, content: &[u8]) -> io::Result<()> {
    let name = Name::new(name)?;
    match directory.unlink(&name) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = directory.open(&name, flags, Mode::from_raw_mode(0o644))?;
    File::from(file).write_all(content)
}

fn identity(config: &AgentConfig) -> [(&'static str, &str); 3] {
    [
        ("E2B_SANDBOX", "true"),
        ("E2B_SANDBOX_ID", &config.sandbox_id),
        ("E2B_TEMPLATE_ID", &config.template_id),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_opens_an_agent_that_was_given_none() {
        assert!(!Settings::new(AgentConfig::default()).is_control(b""));
        let guarded = AgentConfig {
            control_token: "secret".to_owned(),
            ..AgentConfig::default()
        };
        let settings = Settings::new(guarded);
        settings.replace(AgentConfig::default());
        assert!(
            settings.is_control(b"secret")
                && !settings.is_control(b"secre")
                && !settings.is_control(b"")
        );
    }

    #[test]
    fn a_copy_does_not_obey_whoever_its_original_does() {
        let config = |token: &str| AgentConfig {
            control_token: token.to_owned(),
            ..AgentConfig::default()
        };
        let settings = Settings::new(config("original"));
        settings.become_another(config("copy"));
        assert!(settings.is_control(b"copy") && !settings.is_control(b"original"));
        // One that is told nothing obeys nobody.
        settings.become_another(config(""));
        assert!(!settings.is_control(b"") && !settings.is_control(b"copy"));
    }

    #[test]
    fn the_callers_variables_cannot_change_the_identity() {
        let mut config = AgentConfig {
            sandbox_id: "i1".to_owned(),
            ..AgentConfig::default()
        };
        config
            .env
            .insert("E2B_SANDBOX_ID".to_owned(), "other".to_owned());
        config.env.insert("MY".to_owned(), "own".to_owned());
        let environment = environment(&config);
        assert_eq!(environment["E2B_SANDBOX_ID"], "i1");
        assert_eq!(environment["E2B_SANDBOX"], "true");
        assert_eq!(environment["MY"], "own");
    }
}
