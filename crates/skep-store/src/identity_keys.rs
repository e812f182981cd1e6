//! Keys that sign identity tokens, sealed by a key that is not here.

use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::{Receipt, Store, StoreError, column};

/// A key that signs identity tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityKeyRecord {
    /// Its name in tokens.
    pub id: String,
    /// The key, sealed.
    pub sealed: Vec<u8>,
    /// Time at which it was made.
    pub created_at: Timestamp,
}

/// The keys for identity tokens in the database.
#[derive(Debug)]
pub struct IdentityKeys<'a>(pub(crate) &'a Store);

impl IdentityKeys<'_> {
    /// All keys, the newest first.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn all(&self) -> Result<Vec<IdentityKeyRecord>, StoreError> {
        let operation = "list keys of identity tokens";
        self.0
            .read(operation, move |connection| {
                all(connection).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// Adds a key.
    pub fn insert(&self, record: IdentityKeyRecord) -> Receipt<()> {
        let operation = "record a key of identity tokens";
        self.0.write(operation, move |connection| {
            connection
                .prepare_cached(
                    "INSERT INTO identity_keys (id, sealed, created_at) VALUES (?1, ?2, ?3)",
                )
                .and_then(|mut insert| {
                    let created_at = column::micros(record.created_at);
                    insert.execute(params![record.id, record.sealed, created_at])
                })
                .map_err(|source| StoreError::of(operation, source))?;
            Ok(())
        })
    }

    /// Replaces a sealed key by the same, sealed by another, unless it has changed meanwhile.
    pub fn reseal(&self, old: IdentityKeyRecord, sealed: Vec<u8>) -> Receipt<bool> {
        let operation = "seal a key of identity tokens again";
        self.0.write(operation, move |connection| {
            let changed = connection
                .prepare_cached(
                    "UPDATE identity_keys SET sealed = ?3 WHERE id = ?1 AND sealed = ?2",
                )
                .and_then(|mut update| update.execute(params![old.id, old.sealed, sealed]))
                .map_err(|source| StoreError::of(operation, source))?;
            Ok(changed > 0)
        })
    }

    /// Removes a key for good.
    pub fn delete(&self, id: String) -> Receipt<()> {
        let operation = "remove a key of identity tokens";
        self.0.write(operation, move |connection| {
            connection
                .prepare_cached("DELETE FROM identity_keys WHERE id = ?1")
                .and_then(|mut delete| delete.execute([id.as_str()]))
                .map_err(|source| StoreError::of(operation, source))?;
            Ok(())
        })
    }
}

fn all(connection: &Connection) -> rusqlite::Result<Vec<IdentityKeyRecord>> {
    connection
        .prepare_cached("SELECT * FROM identity_keys ORDER BY created_at DESC, id")?
        .query_map([], |row| {
            Ok(IdentityKeyRecord {
                id: row.get("id")?,
                sealed: row.get("sealed")?,
                created_at: column::time(row, "created_at")?,
            })
        })?
        .collect()
}
