//! Webhooks of teams, with the secrets that sign what they are sent, sealed by a key that is not here.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use skep_types::{EventKind, TeamId, WebhookId};

use crate::{Receipt, Store, StoreError, column};

/// A webhook as far as it may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRecord {
    /// Id of the webhook.
    pub id: WebhookId,
    /// Team that owns it.
    pub team: TeamId,
    /// Name, which need not be unique.
    pub name: String,
    /// Address that events are sent to.
    pub url: String,
    /// Events that it is told.
    pub kinds: Vec<EventKind>,
    /// False while nothing is sent, and no event is kept for it.
    pub is_enabled: bool,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of its last change.
    pub updated_at: Timestamp,
}

/// A change of a webhook; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct WebhookChange {
    /// Another name.
    pub name: Option<String>,
    /// Another address.
    pub url: Option<String>,
    /// Other events.
    pub kinds: Option<Vec<EventKind>>,
    /// Another secret, sealed.
    pub sealed: Option<Vec<u8>>,
    /// On or off.
    pub is_enabled: Option<bool>,
}

/// The secret of a webhook, sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedSignature {
    /// Id of the webhook.
    pub id: WebhookId,
    /// Team that owns it.
    pub team: TeamId,
    /// The sealed secret.
    pub sealed: Vec<u8>,
}

/// State of the removal of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookRemoval {
    /// The team has none of that id.
    Missing,
    /// It still has deliveries.
    Unfinished,
    /// It is gone.
    Done,
}

/// The webhooks in the database.
#[derive(Debug)]
pub struct Webhooks<'a>(pub(crate) &'a Store);

impl Webhooks<'_> {
    /// Adds a webhook unless its team has `most` already; says whether it did.
    pub fn insert_within(
        &self,
        record: WebhookRecord,
        sealed: Vec<u8>,
        most: u32,
    ) -> Receipt<bool> {
        let operation = "record a webhook";
        let has_webhooks = self.0.has_webhooks();
        self.0.write(operation, move |connection| {
            // Before it can be found, so that nobody who finds one believes that there is none.
            has_webhooks.store(true, std::sync::atomic::Ordering::Release);
            insert(connection, &record, &sealed, most)
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Changes a webhook; returns it as it is then, or nothing if the team has none of that id.
    pub fn update(
        &self,
        team: TeamId,
        id: WebhookId,
        change: WebhookChange,
        at: Timestamp,
    ) -> Receipt<Option<WebhookRecord>> {
        let operation = "change a webhook";
        self.0.write(operation, move |connection| {
            update(connection, &team, id, &change, at)
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Begins to remove a webhook, or goes on: it is sent nothing more, and loses at most `batch` of its
    /// deliveries. To be called until it is gone. There may be hundreds of thousands, and everybody's
    /// writes wait for one that removes them.
    pub fn delete(&self, team: TeamId, id: WebhookId, batch: u32) -> Receipt<WebhookRemoval> {
        let operation = "remove a webhook";
        self.0.write(operation, move |connection| {
            delete(connection, &team, id, batch).map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Replaces a sealed secret by the same, sealed by another key, unless it has changed meanwhile.
    pub fn reseal(&self, old: SealedSignature, sealed: Vec<u8>) -> Receipt<bool> {
        let operation = "seal the secret of a webhook again";
        self.0.write(operation, move |connection| {
            let changed = connection
                .prepare_cached("UPDATE webhooks SET sealed = ?3 WHERE id = ?1 AND sealed = ?2")
                .and_then(|mut update| {
                    update.execute(params![old.id.to_string(), old.sealed, sealed])
                })
                .map_err(|source| StoreError::of(operation, source))?;
            Ok(changed > 0)
        })
    }

    /// A webhook of a team.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn find(
        &self,
        team: TeamId,
        id: WebhookId,
    ) -> Result<Option<WebhookRecord>, StoreError> {
        let operation = "find a webhook";
        self.0
            .read(operation, move |connection| {
                find(connection, &team, id).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// All webhooks of a team, the oldest first.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn list(&self, team: TeamId) -> Result<Vec<WebhookRecord>, StoreError> {
        let operation = "list webhooks";
        self.0
            .read(operation, move |connection| {
                list(connection, &team).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The sealed secrets of all teams.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn all_sealed(&self) -> Result<Vec<SealedSignature>, StoreError> {
        let operation = "read all sealed secrets of webhooks";
        self.0
            .read(operation, move |connection| {
                connection
                    .prepare_cached("SELECT id, team, sealed FROM webhooks")
                    .and_then(|mut query| query.query_map([], read_sealed)?.collect())
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }
}

/// Returns true if any team has a webhook.
pub(crate) fn exist(connection: &Connection) -> Result<bool, StoreError> {
    connection
        .query_row("SELECT EXISTS (SELECT 1 FROM webhooks)", [], |row| {
            row.get(0)
        })
        .map_err(|source| StoreError::of("look for webhooks", source))
}

fn insert(
    connection: &Connection,
    record: &WebhookRecord,
    sealed: &[u8],
    most: u32,
) -> rusqlite::Result<bool> {
    let count: u32 = connection
        .prepare_cached("SELECT count(*) FROM webhooks WHERE team = ?1")?
        .query_row([record.team.as_str()], |row| row.get(0))?;
    if count >= most {
        return Ok(false);
    }
    connection
        .prepare_cached(
            "INSERT INTO webhooks (id, team, name, url, is_enabled, sealed, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            record.id.to_string(),
            record.team.as_str(),
            record.name,
            record.url,
            record.is_enabled,
            sealed,
            column::micros(record.created_at),
            column::micros(record.updated_at),
        ])?;
    insert_kinds(connection, record.id, &record.kinds)?;
    Ok(true)
}

fn insert_kinds(
    connection: &Connection,
    id: WebhookId,
    kinds: &[EventKind],
) -> rusqlite::Result<()> {
    let mut insert = connection
        .prepare_cached("INSERT OR IGNORE INTO webhook_kinds (webhook, kind) VALUES (?1, ?2)")?;
    for kind in kinds {
        insert.execute([id.to_string().as_str(), kind.as_str()])?;
    }
    Ok(())
}

fn delete(
    connection: &Connection,
    team: &TeamId,
    id: WebhookId,
    batch: u32,
) -> rusqlite::Result<WebhookRemoval> {
    let id = id.to_string();
    let found = connection
        .prepare_cached("UPDATE webhooks SET is_enabled = 0 WHERE team = ?1 AND id = ?2")?
        .execute([team.as_str(), &id])?;
    if found == 0 {
        return Ok(WebhookRemoval::Missing);
    }
    let removed = connection
        .prepare_cached(
            "DELETE FROM deliveries WHERE seq IN (
                 SELECT seq FROM deliveries WHERE webhook = ?1 LIMIT ?2)",
        )?
        .execute(params![id, batch])?;
    if u32::try_from(removed).is_ok_and(|removed| removed < batch) {
        connection
            .prepare_cached("DELETE FROM webhooks WHERE id = ?1")?
            .execute([&id])?;
        return Ok(WebhookRemoval::Done);
    }
    Ok(WebhookRemoval::Unfinished)
}

fn update(
    connection: &Connection,
    team: &TeamId,
    id: WebhookId,
    change: &WebhookChange,
    at: Timestamp,
) -> rusqlite::Result<Option<WebhookRecord>> {
    let changed = connection
        .prepare_cached(
            "UPDATE webhooks SET name = coalesce(?3, name), url = coalesce(?4, url),
             sealed = coalesce(?5, sealed), is_enabled = coalesce(?6, is_enabled), updated_at = ?7
             WHERE team = ?1 AND id = ?2",
        )?
        .execute(params![
            team.as_str(),
            id.to_string(),
            change.name,
            change.url,
            change.sealed,
            change.is_enabled,
            column::micros(at),
        ])?;
    if changed == 0 {
        return Ok(None);
    }
    if let Some(kinds) = &change.kinds {
        connection
            .prepare_cached("DELETE FROM webhook_kinds WHERE webhook = ?1")?
            .execute([id.to_string()])?;
        insert_kinds(connection, id, kinds)?;
    }
    find(connection, team, id)
}

fn find(
    connection: &Connection,
    team: &TeamId,
    id: WebhookId,
) -> rusqlite::Result<Option<WebhookRecord>> {
    connection
        .prepare_cached("SELECT * FROM webhooks WHERE team = ?1 AND id = ?2")?
        .query_row([team.as_str(), &id.to_string()], read)
        .optional()?
        .map(|record| with_kinds(connection, record))
        .transpose()
}

fn list(connection: &Connection, team: &TeamId) -> rusqlite::Result<Vec<WebhookRecord>> {
    let mut query = connection
        .prepare_cached("SELECT * FROM webhooks WHERE team = ?1 ORDER BY created_at, id")?;
    let rows = query.query_map([team.as_str()], read)?;
    rows.map(|record| with_kinds(connection, record?)).collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<WebhookRecord> {
    Ok(WebhookRecord {
        id: column::parsed(row, "id")?,
        team: column::parsed(row, "team")?,
        name: row.get("name")?,
        url: row.get("url")?,
        kinds: Vec::new(),
        is_enabled: row.get("is_enabled")?,
        created_at: column::time(row, "created_at")?,
        updated_at: column::time(row, "updated_at")?,
    })
}

fn read_sealed(row: &Row<'_>) -> rusqlite::Result<SealedSignature> {
    Ok(SealedSignature {
        id: column::parsed(row, "id")?,
        team: column::parsed(row, "team")?,
        sealed: row.get("sealed")?,
    })
}

fn with_kinds(
    connection: &Connection,
    mut record: WebhookRecord,
) -> rusqlite::Result<WebhookRecord> {
    record.kinds = connection
        .prepare_cached("SELECT kind FROM webhook_kinds WHERE webhook = ?1")?
        .query_map([record.id.to_string()], |row| column::parsed(row, "kind"))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(record)
}
