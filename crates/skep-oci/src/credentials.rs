//! Credentials for registries: those of callers, and those of the operator.

mod ecr;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use skep_types::{Redacted, RegistryCredentials};

use crate::error::PullReason;
use crate::reference::DEFAULT_REGISTRY;

pub(crate) use ecr::Ecr;

/// User name with which Google's registries take a service account.
const GCP_USER: &str = "_json_key";
/// A file of credentials is not larger.
const LARGEST_FILE: u64 = 1 << 20;

/// A user name and a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Basic {
    username: String,
    password: Redacted<String>,
}

impl Basic {
    /// The value of `Authorization`, which is shown to nobody.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let text = STANDARD.encode(format!("{}:{}", self.username, self.password.reveal()));
        let mut value = HeaderValue::from_str(&format!("Basic {text}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Reads `user:password` in base64, as files and AWS write it.
    fn decoded(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.trim()).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let (username, password) = text.split_once(':')?;
        Some(Self {
            username: username.to_owned(),
            password: Redacted::new(password.to_owned()),
        })
    }
}

/// The credentials of a caller, as a registry takes them.
pub(crate) async fn of_caller(
    credentials: &RegistryCredentials,
    ecr: &Ecr,
) -> Result<Basic, PullReason> {
    match credentials {
        RegistryCredentials::Basic { username, password } => Ok(Basic {
            username: username.clone(),
            password: password.clone(),
        }),
        RegistryCredentials::Gcp { service_account } => Ok(Basic {
            username: GCP_USER.to_owned(),
            password: service_account.clone(),
        }),
        RegistryCredentials::Aws {
            access_key_id,
            secret_access_key,
            region,
        } => {
            ecr.token(access_key_id, secret_access_key.reveal(), region)
                .await
        }
    }
}

/// A file of credentials, as `podman login` and `docker login` write it.
#[derive(Deserialize)]
struct AuthFile {
    #[serde(default)]
    auths: HashMap<String, AuthEntry>,
}

#[derive(Deserialize)]
struct AuthEntry {
    auth: Option<String>,
}

/// Files with the operator's credentials, the one that counts first.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuthFiles(pub(crate) Vec<PathBuf>);

impl AuthFiles {
    /// The credentials for a repository of a registry. The files are read each time, so that a
    /// login counts at once. One that is not there, or is none, has nothing to say.
    pub(crate) fn find(&self, registry: &str, repository: &str) -> Option<Basic> {
        self.0.iter().find_map(|path| {
            let mut text = String::new();
            let file = File::open(path).ok()?;
            file.take(LARGEST_FILE).read_to_string(&mut text).ok()?;
            let Ok(file) = serde_json::from_str::<AuthFile>(&text) else {
                tracing::warn!(path = %path.display(), "file with registry credentials is not read");
                return None;
            };
            lookup(&file, registry, repository)
        })
    }
}

/// The entry with the longest name that the repository is in: entries may name a registry or a part
/// of it, and Docker's own is written as a URL.
fn lookup(file: &AuthFile, registry: &str, repository: &str) -> Option<Basic> {
    let whole = format!("{registry}/{repository}");
    let of_hub = |name: &str| registry == DEFAULT_REGISTRY && name == "index.docker.io/v1";
    let entries = file.auths.iter().filter_map(|(name, entry)| {
        let name = name.trim_start_matches("https://").trim_end_matches('/');
        let is_it = of_hub(name)
            || whole
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('/'));
        let basic = Basic::decoded(entry.auth.as_deref()?)?;
        is_it.then_some((name.len(), basic))
    });
    entries
        .max_by_key(|(length, _)| *length)
        .map(|(_, basic)| basic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_that_names_most_of_a_repository_counts() {
        let encoded = |text: &str| STANDARD.encode(text);
        let text = format!(
            r#"{{"auths": {{"r.test": {{"auth": "{}"}}, "r.test/team": {{"auth": "{}"}},
                "https://index.docker.io/v1/": {{"auth": "{}"}}, "empty.test": {{}}}}, "credsStore": "x"}}"#,
            encoded("all:1"),
            encoded("team:2:3"),
            encoded("hub:4"),
        );
        let file = serde_json::from_str::<AuthFile>(&text).unwrap();
        let found = |registry: &str, repository: &str| {
            let basic = lookup(&file, registry, repository)?;
            Some(format!("{}:{}", basic.username, basic.password.reveal()))
        };
        assert_eq!(found("r.test", "a").as_deref(), Some("all:1"));
        assert_eq!(found("r.test", "team/a").as_deref(), Some("team:2:3"));
        assert_eq!(found("r.test", "teams/a").as_deref(), Some("all:1"));
        assert_eq!(found("docker.io", "library/a").as_deref(), Some("hub:4"));
        assert_eq!(found("r.test.evil", "a"), None);
        assert_eq!(found("empty.test", "a"), None);
    }

    #[test]
    fn a_password_is_in_no_text() {
        let basic = Basic::decoded(&STANDARD.encode("me:hunter2")).unwrap();
        let header = basic.header().unwrap();
        assert!(!format!("{basic:?} {header:?}").contains("hunter2"));
        assert!(!format!("{header:?}").contains(&STANDARD.encode("me:hunter2")));
    }
}
