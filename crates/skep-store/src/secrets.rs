//! Secrets of teams: their names and what stands beside them, and their values, sealed by a key that
//! is not here.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use skep_types::{SecretId, SecretMetadata, SecretName, SecretSelector, TeamId};

use crate::error::is_taken;
use crate::{Receipt, Store, StoreError, column};

/// A secret as far as it may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRecord {
    /// Id of the secret.
    pub id: SecretId,
    /// Team that owns it.
    pub team: TeamId,
    /// Name, unique in the team.
    pub name: SecretName,
    /// Number of values that it has had.
    pub version: u32,
    /// Key-value pairs of its owner.
    pub metadata: SecretMetadata,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of its last value.
    pub updated_at: Timestamp,
}

/// The value of a secret, sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedValue {
    /// Id of the secret.
    pub id: SecretId,
    /// Team that owns it.
    pub team: TeamId,
    /// The sealed value.
    pub sealed: Vec<u8>,
}

/// Fate of a new secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretInsert {
    /// It is there.
    Added,
    /// The team has one of that name.
    NameTaken,
    /// The team has as many as it may.
    Full,
}

/// The secrets in the database.
#[derive(Debug)]
pub struct Secrets<'a>(pub(crate) &'a Store);

impl Secrets<'_> {
    /// Adds a secret unless its team has `most` already.
    pub fn insert_within(
        &self,
        record: SecretRecord,
        sealed: Vec<u8>,
        most: u32,
    ) -> Receipt<SecretInsert> {
        let operation = "record a secret";
        self.0.write(operation, move |connection| {
            match insert(connection, &record, &sealed, most) {
                Ok(outcome) => Ok(outcome),
                Err(source) if is_taken(&source) => Ok(SecretInsert::NameTaken),
                Err(source) => Err(StoreError::of(operation, source)),
            }
        })
    }

    /// Gives a secret another value, and other pairs if there are any; returns it as it is then, or
    /// nothing if it is not there.
    pub fn update(
        &self,
        value: SealedValue,
        metadata: Option<SecretMetadata>,
        at: Timestamp,
    ) -> Receipt<Option<SecretRecord>> {
        let operation = "change a secret";
        self.0.write(operation, move |connection| {
            update(connection, &value, metadata.as_ref(), at)
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Replaces a sealed value by the same, sealed by another key, unless it has changed meanwhile.
    pub fn reseal(&self, old: SealedValue, sealed: Vec<u8>) -> Receipt<bool> {
        let operation = "seal a secret again";
        self.0.write(operation, move |connection| {
            let changed = connection
                .prepare_cached("UPDATE secrets SET sealed = ?3 WHERE id = ?1 AND sealed = ?2")
                .and_then(|mut update| update.execute(params![old.id.as_str(), old.sealed, sealed]))
                .map_err(|source| StoreError::of(operation, source))?;
            Ok(changed > 0)
        })
    }

    /// Removes a secret for good; says whether the team had it.
    pub fn delete(&self, team: TeamId, selector: SecretSelector) -> Receipt<bool> {
        let operation = "remove a secret";
        self.0.write(operation, move |connection| {
            let delete = || {
                let Some(record) = find(connection, &team, &selector)? else {
                    return Ok(false);
                };
                connection
                    .prepare_cached("DELETE FROM secrets WHERE id = ?1")?
                    .execute([record.id.as_str()])?;
                Ok(true)
            };
            delete().map_err(|source| StoreError::of(operation, source))
        })
    }

    /// A secret of a team.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn find(
        &self,
        team: TeamId,
        selector: SecretSelector,
    ) -> Result<Option<SecretRecord>, StoreError> {
        let operation = "find a secret";
        self.0
            .read(operation, move |connection| {
                find(connection, &team, &selector)
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// At most `limit` secrets of a team after the one of that name, by name.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn list(
        &self,
        team: TeamId,
        after: Option<SecretName>,
        limit: u32,
    ) -> Result<Vec<SecretRecord>, StoreError> {
        let operation = "list secrets";
        self.0
            .read(operation, move |connection| {
                list(connection, &team, after.as_ref(), limit)
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The sealed value of a team's secret.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn sealed(
        &self,
        team: TeamId,
        name: SecretName,
    ) -> Result<Option<SealedValue>, StoreError> {
        let operation = "read a sealed secret";
        let query = "SELECT id, team, sealed FROM secrets WHERE team = ?1 AND name = ?2";
        self.0
            .read(operation, move |connection| {
                connection
                    .prepare_cached(query)
                    .and_then(|mut query| {
                        let key = [team.as_str(), name.as_str()];
                        query.query_row(key, read_sealed).optional()
                    })
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The sealed values of all teams.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn all_sealed(&self) -> Result<Vec<SealedValue>, StoreError> {
        let operation = "read all sealed secrets";
        self.0
            .read(operation, move |connection| {
                connection
                    .prepare_cached("SELECT id, team, sealed FROM secrets")
                    .and_then(|mut query| query.query_map([], read_sealed)?.collect())
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }
}

fn insert(
    connection: &Connection,
    record: &SecretRecord,
    sealed: &[u8],
    most: u32,
) -> rusqlite::Result<SecretInsert> {
    let count: u32 = connection
        .prepare_cached("SELECT count(*) FROM secrets WHERE team = ?1")?
        .query_row([record.team.as_str()], |row| row.get(0))?;
    let selector = SecretSelector::Name(record.name.clone());
    if find(connection, &record.team, &selector)?.is_some() {
        return Ok(SecretInsert::NameTaken);
    }
    if count >= most {
        return Ok(SecretInsert::Full);
    }
    connection
        .prepare_cached(
            "INSERT INTO secrets (id, team, name, version, sealed, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            record.id.as_str(),
            record.team.as_str(),
            record.name.as_str(),
            record.version,
            sealed,
            column::micros(record.created_at),
            column::micros(record.updated_at),
        ])?;
    insert_metadata(connection, &record.id, &record.metadata)?;
    Ok(SecretInsert::Added)
}

fn insert_metadata(
    connection: &Connection,
    id: &SecretId,
    metadata: &SecretMetadata,
) -> rusqlite::Result<()> {
    let mut insert = connection
        .prepare_cached("INSERT INTO secret_metadata (secret, key, value) VALUES (?1, ?2, ?3)")?;
    for (key, value) in metadata.pairs() {
        insert.execute([id.as_str(), key, value])?;
    }
    Ok(())
}

fn update(
    connection: &Connection,
    value: &SealedValue,
    metadata: Option<&SecretMetadata>,
    at: Timestamp,
) -> rusqlite::Result<Option<SecretRecord>> {
    let changed = connection
        .prepare_cached(
            "UPDATE secrets SET sealed = ?3, version = version + 1, updated_at = ?4
             WHERE team = ?1 AND id = ?2",
        )?
        .execute(params![
            value.team.as_str(),
            value.id.as_str(),
            value.sealed,
            column::micros(at),
        ])?;
    if changed == 0 {
        return Ok(None);
    }
    if let Some(metadata) = metadata {
        connection
            .prepare_cached("DELETE FROM secret_metadata WHERE secret = ?1")?
            .execute([value.id.as_str()])?;
        insert_metadata(connection, &value.id, metadata)?;
    }
    let selector = SecretSelector::Id(value.id.clone());
    find(connection, &value.team, &selector)
}

fn find(
    connection: &Connection,
    team: &TeamId,
    selector: &SecretSelector,
) -> rusqlite::Result<Option<SecretRecord>> {
    let (query, key) = match selector {
        SecretSelector::Id(id) => (
            "SELECT * FROM secrets WHERE team = ?1 AND id = ?2",
            id.as_str(),
        ),
        SecretSelector::Name(name) => (
            "SELECT * FROM secrets WHERE team = ?1 AND name = ?2",
            name.as_str(),
        ),
    };
    connection
        .prepare_cached(query)?
        .query_row([team.as_str(), key], read)
        .optional()?
        .map(|record| with_metadata(connection, record))
        .transpose()
}

fn list(
    connection: &Connection,
    team: &TeamId,
    after: Option<&SecretName>,
    limit: u32,
) -> rusqlite::Result<Vec<SecretRecord>> {
    let mut query = connection.prepare_cached(
        "SELECT * FROM secrets WHERE team = ?1 AND name > ?2 ORDER BY name LIMIT ?3",
    )?;
    let after = after.map_or("", SecretName::as_str);
    let rows = query.query_map(params![team.as_str(), after, limit], read)?;
    rows.map(|record| with_metadata(connection, record?))
        .collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<SecretRecord> {
    Ok(SecretRecord {
        id: column::parsed(row, "id")?,
        team: column::parsed(row, "team")?,
        name: column::parsed(row, "name")?,
        version: row.get("version")?,
        metadata: SecretMetadata::default(),
        created_at: column::time(row, "created_at")?,
        updated_at: column::time(row, "updated_at")?,
    })
}

fn read_sealed(row: &Row<'_>) -> rusqlite::Result<SealedValue> {
    Ok(SealedValue {
        id: column::parsed(row, "id")?,
        team: column::parsed(row, "team")?,
        sealed: row.get("sealed")?,
    })
}

fn with_metadata(
    connection: &Connection,
    mut record: SecretRecord,
) -> rusqlite::Result<SecretRecord> {
    let pairs = connection
        .prepare_cached("SELECT key, value FROM secret_metadata WHERE secret = ?1")?
        .query_map([record.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<BTreeMap<String, String>>>()?;
    record.metadata = SecretMetadata::from_record(pairs);
    Ok(record)
}
