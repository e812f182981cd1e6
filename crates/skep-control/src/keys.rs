//! Making, naming and revoking keys.

use std::time::Duration;

use skep_store::{Key, StoreError, Team};
use skep_types::TeamId;
use uuid::Uuid;

use crate::control::now;
use crate::{ApiKey, Caller, Control};

/// A key that was just made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The key in full. This is the only time it is known.
    pub key: ApiKey,
    /// Metadata of the key, as it is kept.
    pub record: Key,
}

/// The parts of a key that may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyMask<'a> {
    /// Prefix of every key.
    pub prefix: &'static str,
    /// Number of characters after the prefix.
    pub value_length: u32,
    /// The first of them.
    pub first: &'a str,
    /// The last of them.
    pub last: &'a str,
}

impl<'a> KeyMask<'a> {
    /// The parts of `key` that may be shown.
    pub fn of(key: &'a Key) -> Self {
        Self {
            prefix: ApiKey::PREFIX,
            value_length: key.value_length,
            first: &key.mask_prefix,
            last: &key.mask_suffix,
        }
    }
}

/// The keys that a team may have.
const MOST_KEYS: u32 = 100;

/// Name of the keys of browsers.
const CONSOLE_KEY: &str = "console";
/// Time for which the key of a browser works: a working day.
const CONSOLE_KEY_LIFETIME: Duration = Duration::from_hours(12);

/// Failure to make or change a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The team has as many keys as it may.
    #[error("team has {limit} keys already")]
    TooMany {
        /// The keys that a team may have.
        limit: u32,
    },
    /// The team has no such key.
    #[error("no such key")]
    NotFound,
    /// The key was revoked, and never works again. Make another one.
    #[error("key was revoked")]
    Revoked,
    /// The key belongs to another team already.
    #[error("key belongs to another team")]
    NotYours,
    /// The keys could not be read or written.
    #[error(transparent)]
    Record(#[from] StoreError),
}

impl Control {
    /// Makes a key for the caller's team.
    ///
    /// # Errors
    ///
    /// [`KeyError::TooMany`], or [`KeyError::Record`].
    pub async fn create_key(&self, caller: &Caller, name: String) -> Result<NewKey, KeyError> {
        let key = ApiKey::random();
        let record = key.record(caller.team.id.clone(), &name);
        let keys = self.inner.store.keys();
        let inserting = keys.insert_within(record.clone(), MOST_KEYS);
        if !inserting.recorded().await? {
            return Err(KeyError::TooMany { limit: MOST_KEYS });
        }
        Ok(NewKey { key, record })
    }

    /// Makes a key for a browser in which somebody opened the console, which expires.
    ///
    /// # Errors
    ///
    /// [`KeyError::TooMany`], [`KeyError::NotFound`] if the team is gone or banned, or
    /// [`KeyError::Record`].
    pub async fn create_console_key(&self, team: &TeamId) -> Result<(NewKey, Team), KeyError> {
        let owner = self.owner(team).await.ok_or(KeyError::NotFound)?;
        let key = ApiKey::random();
        let record = key.record(team.clone(), CONSOLE_KEY);
        let record = Key {
            expires_at: Some(record.created_at + CONSOLE_KEY_LIFETIME),
            ..record
        };
        let keys = self.inner.store.keys();
        let inserting = keys.insert_within(record.clone(), MOST_KEYS);
        if !inserting.recorded().await? {
            return Err(KeyError::TooMany { limit: MOST_KEYS });
        }
        Ok((NewKey { key, record }, owner.team))
    }

    /// Lets a key that somebody else made work for a team; nothing happens if it does already.
    ///
    /// # Errors
    ///
    /// [`KeyError::NotYours`] if another team has it, [`KeyError::Revoked`] if it was revoked.
    pub async fn register_key(
        &self,
        team: &Team,
        name: &str,
        key: &ApiKey,
    ) -> Result<(), KeyError> {
        let keys = self.inner.store.keys();
        let record = key.record(team.id.clone(), name);
        match keys.insert(record).recorded().await {
            Ok(()) => Ok(()),
            Err(StoreError::Taken { .. }) => match keys.find(key.hash()).await? {
                Some((_, owner)) if owner.id == team.id => Ok(()),
                Some(_) => Err(KeyError::NotYours),
                None => Err(KeyError::Revoked),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// The keys of the caller's team, the oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn list_keys(&self, caller: &Caller) -> Result<Vec<Key>, StoreError> {
        let keys = self.inner.store.keys().list(caller.team.id.clone()).await?;
        let now = now();
        let living = |key: &Key| !key.has_expired(now);
        Ok(keys.into_iter().filter(living).collect())
    }

    /// Gives a key of the caller's team another name.
    ///
    /// # Errors
    ///
    /// [`KeyError`].
    pub async fn rename_key(
        &self,
        caller: &Caller,
        id: String,
        name: String,
    ) -> Result<(), KeyError> {
        let team = caller.team.id.clone();
        let renaming = self.inner.store.keys().rename(team, id, name);
        found(renaming.recorded().await?)
    }

    /// Takes a key of the caller's team away: the next call with it is refused.
    ///
    /// # Errors
    ///
    /// [`KeyError`].
    pub async fn revoke_key(&self, caller: &Caller, id: String) -> Result<(), KeyError> {
        let team = caller.team.id.clone();
        let revoking = self.inner.store.keys().revoke(team, id, now());
        found(revoking.recorded().await?)
    }
}

fn found(found: bool) -> Result<(), KeyError> {
    if found {
        Ok(())
    } else {
        Err(KeyError::NotFound)
    }
}

impl ApiKey {
    /// The metadata that is kept of this key for a team: not the key itself.
    pub fn record(&self, team: TeamId, name: &str) -> Key {
        let value = self.value();
        Key {
            id: Uuid::new_v4().to_string(),
            team,
            name: name.to_owned(),
            hash: self.hash(),
            value_length: u32::try_from(value.len()).expect("a key is short"),
            mask_prefix: value[..2].to_owned(),
            mask_suffix: value[value.len() - 4..].to_owned(),
            created_at: now(),
            last_used: None,
            expires_at: None,
        }
    }
}
