//! Checkpoints of sandboxes that are kept.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use skep_types::{Checkpoint, CheckpointId, NodeId, SandboxId, TeamId, TemplateId};

use crate::{Receipt, Store, StoreError, column};

/// A checkpoint as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// Id of the checkpoint, which never returns.
    pub id: CheckpointId,
    /// Team that owns it.
    pub team: TeamId,
    /// Sandbox that it was taken of, which may be gone.
    pub sandbox: SandboxId,
    /// Template of that sandbox.
    pub template: TemplateId,
    /// The name of that template at the time.
    pub template_name: String,
    /// Host that has the image.
    pub node: NodeId,
    /// The image, as its host knows it.
    pub checkpoint: Checkpoint,
    /// Time at which it was taken.
    pub created_at: Timestamp,
}

/// The checkpoints in the database.
#[derive(Debug)]
pub struct Checkpoints<'a>(pub(crate) &'a Store);

impl Checkpoints<'_> {
    /// Records a checkpoint whose image is complete.
    pub fn insert(&self, record: CheckpointRecord) -> Receipt {
        let operation = "record a checkpoint";
        self.0.write(operation, move |connection| {
            insert(connection, &record).map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Forgets a checkpoint of a team and returns it; `None` if there is none.
    pub fn remove(&self, team: TeamId, id: CheckpointId) -> Receipt<Option<CheckpointRecord>> {
        let operation = "forget a checkpoint";
        self.0.write(operation, move |connection| {
            connection
                .prepare_cached("DELETE FROM checkpoints WHERE team = ?1 AND id = ?2 RETURNING *")
                .and_then(|mut delete| {
                    let row = delete.query_row([team.as_str(), id.as_str()], read);
                    row.optional()
                })
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// The checkpoints of a team, the newest first.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn list(&self, team: TeamId) -> Result<Vec<CheckpointRecord>, StoreError> {
        let operation = "list the checkpoints of a team";
        self.0
            .read(operation, move |connection| {
                list(connection, &team).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }
}

fn insert(connection: &Connection, record: &CheckpointRecord) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO checkpoints (id, team, sandbox, template, template_name, node, kind,
             record, bytes, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            record.id.as_str(),
            record.team.as_str(),
            record.sandbox.as_str(),
            record.template.as_str(),
            record.template_name,
            record.node.as_str(),
            record.checkpoint.kind.as_str(),
            record.checkpoint.record,
            column::count(record.checkpoint.bytes),
            column::micros(record.created_at),
        ])?;
    Ok(())
}

fn list(connection: &Connection, team: &TeamId) -> rusqlite::Result<Vec<CheckpointRecord>> {
    connection
        .prepare_cached("SELECT * FROM checkpoints WHERE team = ?1 ORDER BY created_at DESC, id")?
        .query_map([team.as_str()], read)?
        .collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<CheckpointRecord> {
    Ok(CheckpointRecord {
        id: column::parsed(row, "id")?,
        team: column::parsed(row, "team")?,
        sandbox: column::parsed(row, "sandbox")?,
        template: column::parsed(row, "template")?,
        template_name: row.get("template_name")?,
        node: column::parsed(row, "node")?,
        checkpoint: Checkpoint {
            record: row.get("record")?,
            kind: column::parsed(row, "kind")?,
            bytes: column::size(row, "bytes")?,
        },
        created_at: column::time(row, "created_at")?,
    })
}
