//! Builds as versions: what made them, and their end by somebody's wish.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use skep_types::{BuildId, BuildOrder, BuiltTemplate};

use super::{BuildStatus, Builds, CANCELLED, encoding, fail, record};
use crate::{Receipt, StoreError, column, tags};

/// Order and outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildDetail {
    /// The order, without credentials, if it was started and can be read.
    pub order: Option<BuildOrder>,
    /// Content that it made, if it is ready.
    pub built: Option<BuiltTemplate>,
}

/// The outcome of deleting a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionDeletion {
    /// It is gone.
    Deleted,
    /// There is none.
    Unknown,
    /// It waits or runs.
    UnderWay,
    /// It is what this tag means.
    Tagged(String),
    /// Sandboxes of it run.
    Running,
    /// Sandboxes of it are paused.
    Paused,
    /// Snapshots stand on it.
    Snapshots,
}

impl Builds<'_> {
    /// Fails a build that waits or runs, because somebody wants so. Says whether it did either.
    pub fn cancel(&self, build: BuildId, at: Timestamp) -> Receipt<bool> {
        let operation = "cancel a build";
        self.0.write(operation, move |connection| {
            fail(connection, build, CANCELLED, at)
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Deletes a version that no tag means, no sandbox uses that lives, and no snapshot. Nobody can ask
    /// for it from then on; it is forgotten by [`Builds::prune`].
    pub fn delete(&self, build: BuildId, at: Timestamp) -> Receipt<VersionDeletion> {
        let operation = "delete a version of a template";
        self.0.write(operation, move |connection| {
            delete(connection, build, at).map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Order and outcome of a build.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn detail(&self, build: BuildId) -> Result<Option<BuildDetail>, StoreError> {
        let operation = "look at a version of a template";
        self.0
            .read(operation, move |connection| {
                detail(connection, build).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }
}

fn detail(connection: &Connection, build: BuildId) -> rusqlite::Result<Option<BuildDetail>> {
    connection
        .prepare_cached("SELECT * FROM builds WHERE id = ?1")?
        .query_row([build.to_string()], |row| {
            let record = record::read(row)?;
            let ordered: Option<String> = row.get("ordered")?;
            let result: Option<String> = row.get("result")?;
            let built =
                result.map(|text| encoding::decode_result(&text, record.bytes.unwrap_or_default()));
            Ok(BuildDetail {
                order: ordered.and_then(|text| encoding::decode_order(&text, &record).ok()),
                built: built
                    .transpose()
                    .map_err(|error| column::unreadable("result", error))?,
            })
        })
        .optional()
}

fn delete(
    connection: &Connection,
    build: BuildId,
    at: Timestamp,
) -> rusqlite::Result<VersionDeletion> {
    let id = build.to_string();
    let found = connection
        .prepare_cached("SELECT * FROM builds WHERE id = ?1 AND removed_at IS NULL")?
        .query_row([&id], record::read)
        .optional()?;
    let Some(found) = found else {
        return Ok(VersionDeletion::Unknown);
    };
    if matches!(found.status, BuildStatus::Waiting | BuildStatus::Building) {
        return Ok(VersionDeletion::UnderWay);
    }
    let meanings = tags::meanings(connection, &found.template)?;
    if let Some((tag, _)) = meanings.into_iter().find(|(_, meant)| *meant == build) {
        return Ok(VersionDeletion::Tagged(tag));
    }
    // The name that sandboxes and snapshots know the version by.
    let fixed = format!("{}:{build}", found.template);
    let exists = |sql: &str| -> rusqlite::Result<bool> {
        connection
            .prepare_cached(sql)?
            .query_row([&fixed], |row| row.get(0))
    };
    if exists(
        "SELECT EXISTS (SELECT 1 FROM sandboxes
         WHERE ended_at IS NULL AND base = ?1 AND paused IS NULL)",
    )? {
        return Ok(VersionDeletion::Running);
    }
    if exists("SELECT EXISTS (SELECT 1 FROM sandboxes WHERE ended_at IS NULL AND base = ?1)")? {
        return Ok(VersionDeletion::Paused);
    }
    if exists("SELECT EXISTS (SELECT 1 FROM checkpoints WHERE template_name = ?1)")? {
        return Ok(VersionDeletion::Snapshots);
    }
    connection
        .prepare_cached("DELETE FROM template_tags WHERE build = ?1")?
        .execute([&id])?;
    connection
        .prepare_cached("UPDATE builds SET removed_at = ?2 WHERE id = ?1")?
        .execute(params![id, column::micros(at)])?;
    Ok(VersionDeletion::Deleted)
}
