//! Identity tokens of sandboxes: the keys that sign them, which come and go, and their minting.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use skep_identity::{Issuer, PublicKey, Rotation, SigningKey, SigningKeyError, Subject};
use skep_seal::Zeroizing;
use skep_store::{IdentityKeyRecord, StoreError};
use skep_telemetry::Chain;

use crate::control::now;
use crate::vault::{SecretError, SecretValue};
use crate::{Control, Order};

/// Failure to have a key or to sign by it.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Nobody has said yet who issues tokens: the server is starting.
    #[error("there is no issuer yet")]
    NoIssuer,
    /// The sandbox has ended.
    #[error("no such sandbox")]
    NoSandbox,
    /// A key cannot be sealed or opened.
    #[error(transparent)]
    Vault(#[from] SecretError),
    /// A key cannot be made or used.
    #[error(transparent)]
    Key(#[from] SigningKeyError),
    /// Keys cannot be read or written.
    #[error(transparent)]
    Record(#[from] StoreError),
}

/// Issuer of tokens, and its keys.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    settings: OnceLock<Settings>,
    /// Keys, the newest first; `None` until they are read. Held while they are read or changed.
    keys: tokio::sync::Mutex<Option<Vec<Key>>>,
}

#[derive(Debug)]
struct Settings {
    issuer: Issuer,
    /// Time after which another key signs.
    period: Duration,
}

#[derive(Debug, Clone)]
struct Key {
    key: Arc<SigningKey>,
    created_at: Timestamp,
}

/// The one thing that a sealed key opens for.
pub(crate) fn context(id: &str) -> String {
    format!("identity/{id}")
}

impl Control {
    /// Says who issues tokens, and for how long a key signs. Said twice, the first counts.
    pub fn issue_identity(&self, issuer: Issuer, period: Duration) {
        drop(
            self.inner
                .identity
                .settings
                .set(Settings { issuer, period }),
        );
    }

    /// Issuer of tokens; `None` while the server starts.
    pub fn identity_issuer(&self) -> Option<&Issuer> {
        let settings = self.inner.identity.settings.get();
        settings.map(|settings| &settings.issuer)
    }

    /// The public halves of the keys by which tokens are verified: of those that sign, will sign soon,
    /// or did a day ago. The first key is made when somebody asks.
    ///
    /// # Errors
    ///
    /// [`IdentityError`]
    pub async fn identity_keys(&self) -> Result<Vec<PublicKey>, IdentityError> {
        let keys = self.current_keys().await?;
        Ok(keys
            .iter()
            .map(|known| known.key.public().clone())
            .collect())
    }

    /// A token for one request of a sandbox.
    pub(crate) async fn mint(
        &self,
        order: &Order,
        audience: &str,
    ) -> Result<Zeroizing<String>, IdentityError> {
        let issuer = self.identity_issuer().ok_or(IdentityError::NoIssuer)?;
        let keys = self.current_keys().await?;
        let now = now();
        let signing = Rotation::of(&ages(&keys, now), Duration::MAX)
            .signing
            .and_then(|number| keys.get(number))
            .ok_or(SigningKeyError::Make)?;
        let status = self
            .inner
            .nodes
            .status(&order.id)
            .await
            .ok_or(IdentityError::NoSandbox)?;
        let subject = Subject {
            team: order.team.clone(),
            template: order.template.clone(),
            sandbox: order.id.clone(),
            execution: status.execution,
        };
        let now = Duration::try_from(now.duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default();
        let token = skep_identity::sign(&signing.key, issuer, &subject, audience, now)?;
        Ok(token)
    }

    /// The keys, the newest first, after another was made and old ones were forgotten if it is time.
    async fn current_keys(&self) -> Result<Vec<Key>, IdentityError> {
        let settings = self.inner.identity.settings.get();
        let period = settings.ok_or(IdentityError::NoIssuer)?.period;
        let mut held = self.inner.identity.keys.lock().await;
        let mut keys = match held.take() {
            Some(keys) => keys,
            None => self.read_keys().await?,
        };
        let rotation = Rotation::of(&ages(&keys, now()), period);
        for number in rotation.forgotten.iter().rev() {
            let forgotten = keys.remove(*number);
            let id = forgotten.key.public().id.clone();
            let deleting = self.inner.store.identity_keys().delete(id);
            deleting.recorded().await?;
        }
        if rotation.wants_key {
            match self.make_key().await {
                Ok(key) => keys.insert(0, key),
                // The old one signs for as long as it has to; the next request tries again.
                Err(error) if !keys.is_empty() => {
                    tracing::warn!(error = %Chain(&error), "the next key for identity tokens cannot be made");
                }
                Err(error) => return Err(error),
            }
        }
        *held = Some(keys.clone());
        Ok(keys)
    }

    async fn make_key(&self) -> Result<Key, IdentityError> {
        let document = SigningKey::generate()?;
        let key = SigningKey::from_pkcs8(&document)?;
        let id = key.public().id.clone();
        // The vault seals texts.
        let text = SecretValue::of_bytes(&document);
        let sealed = self.inner.vault.seal(&context(&id), &text).await?;
        let record = IdentityKeyRecord {
            id,
            sealed,
            created_at: now(),
        };
        let created_at = record.created_at;
        let inserting = self.inner.store.identity_keys().insert(record);
        inserting.recorded().await?;
        tracing::info!(key = key.public().id, "made a key for identity tokens");
        Ok(Key {
            key: Arc::new(key),
            created_at,
        })
    }

    /// The keys of the database. One that no key of the vault opens signs nothing any more; what it has
    /// signed is not believed, either.
    async fn read_keys(&self) -> Result<Vec<Key>, IdentityError> {
        let mut keys = Vec::new();
        for record in self.inner.store.identity_keys().all().await? {
            let context = context(&record.id);
            let opened = self.inner.vault.open(&context, &record.sealed).await?;
            let document = match opened {
                Ok(opened) => opened.to_bytes(),
                Err(error) => {
                    let id = record.id;
                    tracing::error!(key = id, error = %Chain(&error), "no key of the vault opens a key for identity tokens");
                    continue;
                }
            };
            let document = document.ok_or(SigningKeyError::Malformed)?;
            keys.push(Key {
                key: Arc::new(SigningKey::from_pkcs8(&document)?),
                created_at: record.created_at,
            });
        }
        Ok(keys)
    }
}

fn ages(keys: &[Key], now: Timestamp) -> Vec<Duration> {
    let age = |key: &Key| Duration::try_from(now.duration_since(key.created_at));
    // A clock that was set back makes a key young, not old.
    keys.iter()
        .map(|key| age(key).unwrap_or_default())
        .collect()
}
