//! API keys: only their hashes and what may be shown of them.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use skep_types::TeamId;

use crate::error::is_taken;
use crate::{Receipt, Store, StoreError, Team, column, teams};

/// A key as far as it is kept: enough to recognise it, not enough to use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Id of the key, a UUID.
    pub id: String,
    /// Team that owns the key.
    pub team: TeamId,
    /// Name for people, given by the team.
    pub name: String,
    /// Digest of its text, by which it is found.
    pub hash: String,
    /// Number of characters after the prefix.
    pub value_length: u32,
    /// The first characters after the prefix, for showing.
    pub mask_prefix: String,
    /// The last characters, for showing.
    pub mask_suffix: String,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of its last use, to the minute.
    pub last_used: Option<Timestamp>,
    /// Time from which on it opens nothing; `None` is never.
    pub expires_at: Option<Timestamp>,
}

impl Key {
    /// Returns true if the key opens nothing any more.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// The keys in the database.
#[derive(Debug)]
pub struct Keys<'a>(pub(crate) &'a Store);

impl Keys<'_> {
    /// Minimum interval between two writes of a key's last use.
    pub const LAST_USED_STEP: Duration = Duration::from_mins(1);

    /// Adds a key. The receipt fails with [`StoreError::Taken`] if it is there already, or was
    /// and has been revoked.
    pub fn insert(&self, key: Key) -> Receipt {
        self.0.write("record a key", move |connection| {
            let taken = || StoreError::Taken {
                kind: "key",
                name: key.name.clone(),
            };
            match insert(connection, &key) {
                Ok(true) => Ok(()),
                Ok(false) => Err(taken()),
                Err(source) if is_taken(&source) => Err(taken()),
                Err(source) => Err(StoreError::of("record a key", source)),
            }
        })
    }

    /// Adds a key unless its team has `most` already, not counting expired ones, which are
    /// forgotten; says whether it did.
    pub fn insert_within(&self, key: Key, most: u32) -> Receipt<bool> {
        let operation = "record a key";
        self.0.write(operation, move |connection| {
            let is_added = forget_expired(connection, key.created_at).and_then(|_| {
                let has_room = count(connection, &key.team)? < most;
                Ok(has_room && insert(connection, &key)?)
            });
            is_added.map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Forgets keys that have expired by `now`; says whether there were any.
    pub fn forget_expired(&self, now: Timestamp) -> Receipt<bool> {
        let operation = "forget expired keys";
        self.0.write(operation, move |connection| {
            forget_expired(connection, now)
                .map(|forgotten| forgotten > 0)
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Gives a key another name; says whether the team has such a key.
    pub fn rename(&self, team: TeamId, id: String, name: String) -> Receipt<bool> {
        self.change(
            "rename a key",
            "UPDATE keys SET name = ?3 WHERE team = ?1 AND id = ?2",
            move |update| update.execute(params![team.as_str(), id, name]),
        )
    }

    /// Takes a key away for good, and remembers that, so that it never returns; says whether the
    /// team had such a key.
    pub fn revoke(&self, team: TeamId, id: String, at: Timestamp) -> Receipt<bool> {
        let operation = "revoke a key";
        self.0.write(operation, move |connection| {
            revoke(connection, &team, &id, at).map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Notes that a key was used, unless that was noted within [`Keys::LAST_USED_STEP`]; says
    /// whether it was noted.
    pub fn used(&self, id: String, at: Timestamp) -> Receipt<bool> {
        self.change(
            "record the use of a key",
            "UPDATE keys SET last_used = ?2
             WHERE id = ?1 AND (last_used IS NULL OR abs(last_used - ?2) >= ?3)",
            move |update| {
                update.execute(params![
                    id,
                    column::micros(at),
                    column::duration_micros(Self::LAST_USED_STEP),
                ])
            },
        )
    }

    /// The key with this hash, and its team.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn find(&self, hash: String) -> Result<Option<(Key, Team)>, StoreError> {
        let operation = "find a key";
        self.0
            .read(operation, move |connection| {
                find(connection, &hash).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The keys of a team, the oldest first.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn list(&self, team: TeamId) -> Result<Vec<Key>, StoreError> {
        let operation = "list the keys of a team";
        self.0
            .read(operation, move |connection| {
                list(connection, &team).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    fn change<F>(&self, operation: &'static str, sql: &'static str, change: F) -> Receipt<bool>
    where
        F: Fn(&mut rusqlite::CachedStatement<'_>) -> rusqlite::Result<usize> + Send + 'static,
    {
        self.0.write(operation, move |connection| {
            connection
                .prepare_cached(sql)
                .and_then(|mut statement| change(&mut statement))
                .map(|changed| changed > 0)
                .map_err(|source| StoreError::of(operation, source))
        })
    }
}

/// Adds a key unless it was revoked; says whether it did.
fn insert(connection: &Connection, key: &Key) -> rusqlite::Result<bool> {
    let added = connection
        .prepare_cached(
            "INSERT INTO keys (id, team, name, hash, value_length, mask_prefix, mask_suffix,
             created_at, last_used, expires_at) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
             WHERE NOT EXISTS (SELECT 1 FROM revoked_keys WHERE hash = ?4)",
        )?
        .execute(params![
            key.id,
            key.team.as_str(),
            key.name,
            key.hash,
            key.value_length,
            key.mask_prefix,
            key.mask_suffix,
            column::micros(key.created_at),
            key.last_used.map(column::micros),
            key.expires_at.map(column::micros),
        ])?;
    Ok(added > 0)
}

/// A key that has expired is not revoked: its text is random, and nobody registers it again.
fn forget_expired(connection: &Connection, now: Timestamp) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("DELETE FROM keys WHERE expires_at <= ?1")?
        .execute([column::micros(now)])
}

fn revoke(
    connection: &Connection,
    team: &TeamId,
    id: &str,
    at: Timestamp,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO revoked_keys (hash, revoked_at)
             SELECT hash, ?3 FROM keys WHERE team = ?1 AND id = ?2",
        )?
        .execute(params![team.as_str(), id, column::micros(at)])?;
    let revoked = connection
        .prepare_cached("DELETE FROM keys WHERE team = ?1 AND id = ?2")?
        .execute(params![team.as_str(), id])?;
    Ok(revoked > 0)
}

fn count(connection: &Connection, team: &TeamId) -> rusqlite::Result<u32> {
    connection
        .prepare_cached("SELECT COUNT(*) FROM keys WHERE team = ?1")?
        .query_row([team.as_str()], |row| row.get(0))
}

fn find(connection: &Connection, hash: &str) -> rusqlite::Result<Option<(Key, Team)>> {
    let key = connection
        .prepare_cached("SELECT * FROM keys WHERE hash = ?1")?
        .query_row([hash], read)
        .optional()?;
    let Some(key) = key else {
        return Ok(None);
    };
    let team = connection
        .prepare_cached("SELECT * FROM teams WHERE id = ?1")?
        .query_row([key.team.as_str()], teams::read)?;
    Ok(Some((key, team)))
}

fn list(connection: &Connection, team: &TeamId) -> rusqlite::Result<Vec<Key>> {
    connection
        .prepare_cached("SELECT * FROM keys WHERE team = ?1 ORDER BY created_at, id")?
        .query_map([team.as_str()], read)?
        .collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Key> {
    Ok(Key {
        id: row.get("id")?,
        team: column::parsed(row, "team")?,
        name: row.get("name")?,
        hash: row.get("hash")?,
        value_length: row.get("value_length")?,
        mask_prefix: row.get("mask_prefix")?,
        mask_suffix: row.get("mask_suffix")?,
        created_at: column::time(row, "created_at")?,
        last_used: column::optional_time(row, "last_used")?,
        expires_at: column::optional_time(row, "expires_at")?,
    })
}
