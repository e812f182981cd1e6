//! The vault: secrets of teams that no sandbox sees, and the keys that open them.

use std::fmt;

use parking_lot::Mutex;
use skep_seal::{KeySource, Keyring, OpenError, SourceError, Zeroizing};
use skep_store::{SealedValue, SecretInsert, SecretRecord, StoreError};
use skep_telemetry::Chain;
use skep_types::{SecretId, SecretMetadata, SecretName, SecretSelector, TeamId};

use crate::control::now;
use crate::{Caller, Control};

/// Limit on the secrets of a team.
const MOST_SECRETS: u32 = 50;
/// Limit on the length of a value, in bytes.
const LONGEST_VALUE: usize = 64 * 1024;

/// The keys of the vault, read when they are first needed and kept until the server ends.
#[derive(Debug)]
pub(crate) struct Vault {
    source: KeySource,
    /// Held only for a look or a change.
    keys: Mutex<Option<Keyring>>,
}

/// The value of a secret. Wiped when it is dropped, and never shown.
pub struct SecretValue(Zeroizing<String>);

impl fmt::Debug for SecretValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[redacted]")
    }
}

/// A text that cannot be the value of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretValueError {
    /// It is empty.
    #[error("value of a secret is empty")]
    Empty,
    /// It is longer than 64 KiB.
    #[error("value of a secret is longer than 64 KiB")]
    TooLong,
    /// It has a line end or another control character, which no header can have.
    #[error("value of a secret has control characters")]
    Control,
}

impl SecretValue {
    /// Takes a value that can stand in a header, which is what secrets are for.
    ///
    /// # Errors
    ///
    /// [`SecretValueError`]
    pub fn new(value: String) -> Result<Self, SecretValueError> {
        let value = Zeroizing::new(value);
        if value.is_empty() {
            return Err(SecretValueError::Empty);
        }
        if value.len() > LONGEST_VALUE {
            return Err(SecretValueError::TooLong);
        }
        if value
            .chars()
            .any(|letter| letter.is_control() && letter != '\t')
        {
            return Err(SecretValueError::Control);
        }
        Ok(Self(value))
    }

    /// Bytes as a value, for what is sealed beside secrets.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let mut text = Zeroizing::new(vec![0; bytes.len() * 2]);
        hex::encode_to_slice(bytes, &mut text).expect("there is room for two digits of each");
        let text = text.iter().copied().map(char::from);
        Self(Zeroizing::new(text.collect()))
    }

    /// The bytes of [`SecretValue::of_bytes`]; `None` if it is no such value.
    pub(crate) fn to_bytes(&self) -> Option<Zeroizing<Vec<u8>>> {
        let bytes = hex::decode(self.0.as_bytes()).ok()?;
        Some(Zeroizing::new(bytes))
    }

    /// The value itself, for the request that it goes into.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Failure to keep, change or read a secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The team has no such secret.
    #[error("no such secret")]
    NotFound,
    /// The team has another of that name.
    #[error("team has a secret of that name")]
    Taken,
    /// The team has as many as it may.
    #[error("team has {limit} secrets already")]
    TooMany {
        /// The secrets that a team may have.
        limit: u32,
    },
    /// The operator's key is not there. Nothing can be sealed or opened until it is.
    #[error("cannot get the key of the vault")]
    Key(#[source] SourceError),
    /// The value cannot be opened with the keys that are there.
    #[error("cannot open secret `{id}`")]
    Sealed {
        /// The secret, or the webhook that it belongs to.
        id: String,
        /// Reason for which none of the keys opens it.
        source: OpenError,
    },
    /// The value cannot be sealed.
    #[error("cannot seal a secret")]
    Sealing(#[source] std::io::Error),
    /// Reading the key panicked.
    #[error("reading the key of the vault broke off")]
    BrokeOff,
    /// The secrets could not be read or written.
    #[error(transparent)]
    Record(#[from] StoreError),
}

impl Vault {
    pub(crate) fn new(source: KeySource) -> Self {
        Self {
            source,
            keys: Mutex::new(None),
        }
    }

    /// The keys, if there are any yet.
    async fn existing(&self) -> Result<Option<Keyring>, SecretError> {
        self.keys(KeySource::read).await
    }

    /// The keys, made if there are none.
    async fn made(&self) -> Result<Keyring, SecretError> {
        let make = |source: &KeySource| source.read_or_make().map(Some);
        self.keys(make).await?.ok_or(SecretError::BrokeOff)
    }

    async fn keys(
        &self,
        read: impl FnOnce(&KeySource) -> Result<Option<Keyring>, SourceError> + Send + 'static,
    ) -> Result<Option<Keyring>, SecretError> {
        if let Some(keys) = self.keys.lock().clone() {
            return Ok(Some(keys));
        }
        let source = self.source.clone();
        let reading = tokio::task::spawn_blocking(move || read(&source)).await;
        let keys = reading
            .map_err(|_panicked| SecretError::BrokeOff)?
            .map_err(SecretError::Key)?;
        self.keys.lock().clone_from(&keys);
        Ok(keys)
    }
}

impl Vault {
    /// Seals a value for one use, by a key that is made if there is none.
    pub(crate) async fn seal(
        &self,
        context: &str,
        value: &SecretValue,
    ) -> Result<Vec<u8>, SecretError> {
        let keys = self.made().await?;
        let sealed = keys.seal(context, value.reveal().as_bytes());
        sealed.map_err(SecretError::Sealing)
    }

    /// Opens a value that was sealed for that use. The error is the key's if it cannot be had.
    pub(crate) async fn open(
        &self,
        context: &str,
        sealed: &[u8],
    ) -> Result<Result<SecretValue, OpenError>, SecretError> {
        let Some(keys) = self.existing().await? else {
            return Ok(Err(OpenError::NoKey));
        };
        Ok(keys.open(context, sealed).and_then(|opened| {
            let text = std::str::from_utf8(&opened).map_err(|_| OpenError::Differs)?;
            Ok(SecretValue(Zeroizing::new(text.to_owned())))
        }))
    }
}

/// The one thing that a sealed value opens for.
fn context(team: &TeamId, id: &SecretId) -> String {
    format!("secret/{team}/{id}")
}

impl Control {
    /// Keeps a secret of the caller's team.
    ///
    /// # Errors
    ///
    /// [`SecretError`]
    pub async fn create_secret(
        &self,
        caller: &Caller,
        name: SecretName,
        value: SecretValue,
        metadata: SecretMetadata,
    ) -> Result<SecretRecord, SecretError> {
        let at = now();
        let record = SecretRecord {
            id: SecretId::random(),
            team: caller.team.id.clone(),
            name,
            version: 1,
            metadata,
            created_at: at,
            updated_at: at,
        };
        let sealed = self.sealed(&record.team, &record.id, &value).await?;
        let secrets = self.inner.store.secrets();
        let inserting = secrets.insert_within(record.clone(), sealed, MOST_SECRETS);
        match inserting.recorded().await? {
            SecretInsert::Added => Ok(record),
            SecretInsert::NameTaken => Err(SecretError::Taken),
            SecretInsert::Full => Err(SecretError::TooMany {
                limit: MOST_SECRETS,
            }),
        }
    }

    /// At most `limit` secrets of the caller's team after the one of that name, without their values,
    /// and the name to go on after if there are more.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub async fn secrets(
        &self,
        caller: &Caller,
        after: Option<SecretName>,
        limit: u32,
    ) -> Result<(Vec<SecretRecord>, Option<SecretName>), StoreError> {
        let team = caller.team.id.clone();
        let secrets = self.inner.store.secrets();
        let mut found = secrets.list(team, after, limit.saturating_add(1)).await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = found.len() > limit;
        found.truncate(limit);
        let last = found.last().filter(|_| has_more);
        let next = last.map(|record| record.name.clone());
        Ok((found, next))
    }

    /// A secret of the caller's team, without its value.
    ///
    /// # Errors
    ///
    /// [`SecretError::NotFound`] or [`SecretError::Record`].
    pub async fn find_secret(
        &self,
        caller: &Caller,
        selector: SecretSelector,
    ) -> Result<SecretRecord, SecretError> {
        let team = caller.team.id.clone();
        let found = self.inner.store.secrets().find(team, selector).await?;
        found.ok_or(SecretError::NotFound)
    }

    /// Gives a secret of the caller's team another value, which the next request gets, and other
    /// metadata if there is any.
    ///
    /// # Errors
    ///
    /// [`SecretError`]
    pub async fn update_secret(
        &self,
        caller: &Caller,
        selector: SecretSelector,
        value: SecretValue,
        metadata: Option<SecretMetadata>,
    ) -> Result<SecretRecord, SecretError> {
        let known = self.find_secret(caller, selector).await?;
        let sealed = self.sealed(&known.team, &known.id, &value).await?;
        let value = SealedValue {
            id: known.id,
            team: known.team,
            sealed,
        };
        let updating = self.inner.store.secrets().update(value, metadata, now());
        updating.recorded().await?.ok_or(SecretError::NotFound)
    }

    /// Removes a secret of the caller's team. Requests that would carry it fail from then on.
    ///
    /// # Errors
    ///
    /// [`SecretError::NotFound`] or [`SecretError::Record`].
    pub async fn delete_secret(
        &self,
        caller: &Caller,
        selector: SecretSelector,
    ) -> Result<(), SecretError> {
        let secrets = self.inner.store.secrets();
        let deleting = secrets.delete(caller.team.id.clone(), selector);
        if deleting.recorded().await? {
            Ok(())
        } else {
            Err(SecretError::NotFound)
        }
    }

    /// The value of a team's secret.
    pub(crate) async fn secret_value(
        &self,
        team: &TeamId,
        name: &SecretName,
    ) -> Result<SecretValue, SecretError> {
        let secrets = self.inner.store.secrets();
        let found = secrets.sealed(team.clone(), name.clone()).await?;
        let value = found.ok_or(SecretError::NotFound)?;
        let context = context(team, &value.id);
        let opened = self.inner.vault.open(&context, &value.sealed).await?;
        opened.map_err(|source| SecretError::Sealed {
            id: value.id.to_string(),
            source,
        })
    }

    async fn sealed(
        &self,
        team: &TeamId,
        id: &SecretId,
        value: &SecretValue,
    ) -> Result<Vec<u8>, SecretError> {
        self.inner.vault.seal(&context(team, id), value).await
    }

    /// Reads the keys of the vault and seals everything by the newest that was sealed by another, so
    /// that the operator can take the others away.
    ///
    /// # Errors
    ///
    /// [`SecretError`] if the keys or the secrets cannot be read. A secret that none of the keys opens
    /// is left alone and logged.
    pub async fn open_vault(&self) -> Result<(), SecretError> {
        let (secrets, webhooks) = (self.inner.store.secrets(), self.inner.store.webhooks());
        let values = secrets.all_sealed().await?;
        let signatures = webhooks.all_sealed().await?;
        let identity_keys = self.inner.store.identity_keys();
        let signing = identity_keys.all().await?;
        let Some(keys) = self.inner.vault.existing().await? else {
            if !values.is_empty() || !signatures.is_empty() || !signing.is_empty() {
                tracing::warn!("there are secrets, and the key that opens them is gone");
            }
            return Ok(());
        };
        let mut resealed: u32 = 0;
        for old in values {
            let context = context(&old.team, &old.id);
            if let Some(sealed) = resealed_by(&keys, &context, &old.sealed)? {
                secrets.reseal(old, sealed).recorded().await?;
                resealed = resealed.saturating_add(1);
            }
        }
        for old in signatures {
            let context = crate::webhooks::context(&old.team, old.id);
            if let Some(sealed) = resealed_by(&keys, &context, &old.sealed)? {
                webhooks.reseal(old, sealed).recorded().await?;
                resealed = resealed.saturating_add(1);
            }
        }
        for old in signing {
            let context = crate::identity::context(&old.id);
            if let Some(sealed) = resealed_by(&keys, &context, &old.sealed)? {
                identity_keys.reseal(old, sealed).recorded().await?;
                resealed = resealed.saturating_add(1);
            }
        }
        if resealed > 0 {
            tracing::info!(resealed, "sealed secrets by the newest key of the vault");
        }
        Ok(())
    }
}

/// The value sealed by the newest key; nothing if it is already, or if no key opens it.
fn resealed_by(
    keys: &Keyring,
    context: &str,
    sealed: &[u8],
) -> Result<Option<Vec<u8>>, SecretError> {
    if keys.is_current(sealed) {
        return Ok(None);
    }
    match keys.open(context, sealed) {
        Ok(value) => {
            let sealed = keys.seal(context, &value);
            sealed.map(Some).map_err(SecretError::Sealing)
        }
        Err(error) => {
            let secret = context;
            tracing::warn!(secret, error = %Chain(&error), "no key of the vault opens a secret");
            Ok(None)
        }
    }
}
