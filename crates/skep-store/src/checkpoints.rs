//! Checkpoints of sandboxes that are kept: templates that were made of a sandbox.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use skep_types::{Checkpoint, CheckpointId, NodeId, Resources, SandboxId, TeamId, TemplateId};

use crate::{Receipt, Store, StoreError, column};

/// A checkpoint as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// Id of the checkpoint, which never returns.
    pub id: CheckpointId,
    /// Team that owns it.
    pub team: TeamId,
    /// Id under which it is a template. The same for all tags of a name.
    pub snapshot: TemplateId,
    /// Bare name under which it is a template, if it has one.
    pub name: Option<String>,
    /// Its tag.
    pub tag: String,
    /// Checkpoint that the sandbox had been made of, put back to or taken at last.
    pub parent: Option<CheckpointId>,
    /// Sandbox that it was taken of, which may be gone.
    pub sandbox: SandboxId,
    /// Template below it all.
    pub template: TemplateId,
    /// The name of that template at the time.
    pub template_name: String,
    /// Host that has the image.
    pub node: NodeId,
    /// The image, as its host knows it.
    pub checkpoint: Checkpoint,
    /// Limits of the sandboxes that are made of it.
    pub resources: Resources,
    /// Time at which it was taken.
    pub created_at: Timestamp,
}

/// Selection of the checkpoints in a list, which runs from the newest to the oldest.
#[derive(Debug, Clone)]
pub struct CheckpointFilter {
    /// Team that owns them.
    pub team: TeamId,
    /// Only those that were taken of this sandbox.
    pub sandbox: Option<SandboxId>,
    /// Only those of this name or snapshot, and tag.
    pub named: Option<(String, Option<String>)>,
    /// Only those after this place in the list.
    pub after: Option<(Timestamp, CheckpointId)>,
    /// Limit on their number.
    pub limit: u32,
}

/// Number and size of the checkpoints of a team.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckpointTotal {
    /// Their number.
    pub count: u64,
    /// Space that they take, in bytes.
    pub bytes: u64,
}

/// The checkpoints in the database.
#[derive(Debug)]
pub struct Checkpoints<'a>(pub(crate) &'a Store);

impl Checkpoints<'_> {
    /// Records a checkpoint whose image is complete. One of the same team, name and tag is replaced.
    /// Returns the record as it is kept, with the snapshot that its name had already, and what was
    /// replaced.
    pub fn insert(
        &self,
        record: CheckpointRecord,
    ) -> Receipt<(CheckpointRecord, Option<CheckpointRecord>)> {
        let operation = "record a checkpoint";
        let has_checkpoints = self.0.has_checkpoints();
        self.0.write(operation, move |connection| {
            has_checkpoints.store(true, Ordering::Release);
            insert(connection, &record).map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Forgets all checkpoints of a team that a name or a snapshot means, and returns them.
    pub fn remove(&self, team: TeamId, named: String) -> Receipt<Vec<CheckpointRecord>> {
        let operation = "forget checkpoints";
        self.0.write(operation, move |connection| {
            connection
                .prepare_cached(
                    "DELETE FROM checkpoints WHERE team = ?1 AND (name = ?2 OR snapshot = ?2)
                     RETURNING *",
                )
                .and_then(|mut delete| {
                    let rows = delete.query_map([team.as_str(), &named], read)?;
                    rows.collect()
                })
                .and_then(|removed| close_ranks(connection, removed))
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Forgets at most `batch` checkpoints that were taken before `before`, and returns them.
    pub fn prune(&self, before: Timestamp, batch: u32) -> Receipt<Vec<CheckpointRecord>> {
        let operation = "forget old checkpoints";
        self.0.write(operation, move |connection| {
            connection
                .prepare_cached(
                    "DELETE FROM checkpoints WHERE id IN (SELECT id FROM checkpoints
                     WHERE created_at < ?1 ORDER BY created_at LIMIT ?2) RETURNING *",
                )
                .and_then(|mut delete| {
                    let rows = delete.query_map(params![column::micros(before), batch], read)?;
                    rows.collect()
                })
                .and_then(|removed| close_ranks(connection, removed))
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Notes the checkpoint that a sandbox was made of, or put back to.
    pub fn set_position(&self, sandbox: SandboxId, checkpoint: CheckpointId) -> Receipt {
        let operation = "record the checkpoint of a sandbox";
        self.0.write(operation, move |connection| {
            set_position(connection, &sandbox, &checkpoint)
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Notes the checkpoint that a sandbox was put back to, and the template that its files are made of
    /// since.
    pub fn set_back(&self, sandbox: SandboxId, checkpoint: CheckpointId, base: String) -> Receipt {
        let operation = "record the way back of a sandbox";
        self.0.write(operation, move |connection| {
            set_position(connection, &sandbox, &checkpoint)
                .and_then(|()| {
                    connection
                        .prepare_cached("UPDATE sandboxes SET base = ?2 WHERE id = ?1")?
                        .execute([sandbox.as_str(), &base])
                })
                .map(drop)
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// The checkpoint that a sandbox was made of, put back to, or that was taken of it at last.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn position(&self, sandbox: SandboxId) -> Result<Option<CheckpointId>, StoreError> {
        let operation = "find the checkpoint of a sandbox";
        self.0
            .read(operation, move |connection| {
                position(connection, &sandbox).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The checkpoint of a team that a name or a snapshot means, with this tag.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn find(
        &self,
        team: TeamId,
        named: String,
        tag: String,
    ) -> Result<Option<CheckpointRecord>, StoreError> {
        let operation = "find a checkpoint";
        if !self.0.may_have_checkpoints() {
            return Ok(None);
        }
        self.0
            .read(operation, move |connection| {
                connection
                    .prepare_cached(
                        "SELECT * FROM checkpoints WHERE team = ?1
                         AND (name = ?2 OR snapshot = ?2) AND tag = ?3",
                    )
                    .and_then(|mut query| {
                        let row = query.query_row([team.as_str(), &named, &tag], read);
                        row.optional()
                    })
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The checkpoints that pass the filter, the newest first.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn list(
        &self,
        filter: CheckpointFilter,
    ) -> Result<Vec<CheckpointRecord>, StoreError> {
        let operation = "list the checkpoints of a team";
        self.0
            .read(operation, move |connection| {
                list(connection, &filter).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The images of all checkpoints on a host.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn images(&self, node: NodeId) -> Result<Vec<Checkpoint>, StoreError> {
        let operation = "list the images of a host";
        self.0
            .read(operation, move |connection| {
                connection
                    .prepare_cached("SELECT * FROM checkpoints WHERE node = ?1")
                    .and_then(|mut query| {
                        let rows = query.query_map([node.as_str()], read)?;
                        rows.map(|row| Ok(row?.checkpoint)).collect()
                    })
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// Number and size of a team's checkpoints.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn total(&self, team: TeamId) -> Result<CheckpointTotal, StoreError> {
        let operation = "count the checkpoints of a team";
        self.0
            .read(operation, move |connection| {
                connection
                    .prepare_cached(
                        "SELECT count(*) AS count, coalesce(sum(bytes), 0) AS bytes
                         FROM checkpoints WHERE team = ?1",
                    )
                    .and_then(|mut query| {
                        query.query_row([team.as_str()], |row| {
                            Ok(CheckpointTotal {
                                count: column::size(row, "count")?,
                                bytes: column::size(row, "bytes")?,
                            })
                        })
                    })
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }
}

/// Returns true if there are checkpoints.
pub(crate) fn exist(connection: &Connection) -> Result<bool, StoreError> {
    connection
        .query_row("SELECT EXISTS (SELECT 1 FROM checkpoints)", [], |row| {
            row.get(0)
        })
        .map_err(|source| StoreError::of("look for checkpoints", source))
}

fn insert(
    connection: &Connection,
    record: &CheckpointRecord,
) -> rusqlite::Result<(CheckpointRecord, Option<CheckpointRecord>)> {
    let known: Option<String> = match &record.name {
        Some(name) => connection
            .prepare_cached("SELECT snapshot FROM checkpoints WHERE team = ?1 AND name = ?2")?
            .query_row([record.team.as_str(), name], |row| row.get(0))
            .optional()?,
        None => None,
    };
    let snapshot = match known {
        Some(known) => column::word("snapshot", &known)?,
        None => record.snapshot.clone(),
    };
    let replaced = connection
        .prepare_cached(
            "DELETE FROM checkpoints WHERE team = ?1 AND snapshot = ?2 AND tag = ?3 RETURNING *",
        )?
        .query_row([record.team.as_str(), snapshot.as_str(), &record.tag], read)
        .optional()?;
    let replaced = close_ranks(connection, replaced.into_iter().collect())?.pop();
    let record = CheckpointRecord {
        snapshot,
        parent: position(connection, &record.sandbox)?,
        ..record.clone()
    };
    insert_row(connection, &record)?;
    set_position(connection, &record.sandbox, &record.id)?;
    Ok((record, replaced))
}

fn insert_row(connection: &Connection, record: &CheckpointRecord) -> rusqlite::Result<()> {
    let resources = record.resources;
    connection
        .prepare_cached(
            "INSERT INTO checkpoints (id, team, snapshot, name, tag, parent, sandbox, template,
             template_name, node, kind, record, bytes, cpus, memory_mib, disk_mib, pids,
             created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
             ?18)",
        )?
        .execute(params![
            record.id.as_str(),
            record.team.as_str(),
            record.snapshot.as_str(),
            record.name,
            record.tag,
            record.parent.as_ref().map(CheckpointId::as_str),
            record.sandbox.as_str(),
            record.template.as_str(),
            record.template_name,
            record.node.as_str(),
            record.checkpoint.kind.as_str(),
            record.checkpoint.record,
            column::count(record.checkpoint.bytes),
            resources.cpus,
            resources.memory_mib,
            resources.disk_mib,
            resources.pids,
            column::micros(record.created_at),
        ])?;
    Ok(())
}

/// Has those that came after checkpoints which are removed come after the ones before them, so that a
/// history never names what is not there.
fn close_ranks(
    connection: &Connection,
    removed: Vec<CheckpointRecord>,
) -> rusqlite::Result<Vec<CheckpointRecord>> {
    let parents: HashMap<_, _> = (removed.iter())
        .map(|record| (&record.id, record.parent.as_ref()))
        .collect();
    for record in &removed {
        let mut parent = record.parent.as_ref();
        while let Some(also_removed) = parent.and_then(|parent| parents.get(parent)) {
            parent = *also_removed;
        }
        let change = params![record.id.as_str(), parent.map(CheckpointId::as_str)];
        for update in [
            "UPDATE checkpoints SET parent = ?2 WHERE parent = ?1",
            "UPDATE sandboxes SET checkpoint = ?2 WHERE checkpoint = ?1 AND ended_at IS NULL",
        ] {
            connection.prepare_cached(update)?.execute(change)?;
        }
    }
    Ok(removed)
}

fn position(
    connection: &Connection,
    sandbox: &SandboxId,
) -> rusqlite::Result<Option<CheckpointId>> {
    let position: Option<String> = connection
        .prepare_cached("SELECT checkpoint FROM sandboxes WHERE id = ?1")?
        .query_row([sandbox.as_str()], |row| row.get(0))
        .optional()?
        .flatten();
    (position.map(|position| column::word("checkpoint", &position))).transpose()
}

fn set_position(
    connection: &Connection,
    sandbox: &SandboxId,
    checkpoint: &CheckpointId,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE sandboxes SET checkpoint = ?2 WHERE id = ?1")?
        .execute([sandbox.as_str(), checkpoint.as_str()])?;
    Ok(())
}

fn list(
    connection: &Connection,
    filter: &CheckpointFilter,
) -> rusqlite::Result<Vec<CheckpointRecord>> {
    let (named, tag) = match &filter.named {
        Some((named, tag)) => (Some(named), tag.as_ref()),
        None => (None, None),
    };
    let (at, id) = match &filter.after {
        Some((at, id)) => (Some(column::micros(*at)), Some(id.as_str())),
        None => (None, None),
    };
    connection
        .prepare_cached(
            "SELECT * FROM checkpoints WHERE team = ?1
               AND (?2 IS NULL OR sandbox = ?2)
               AND (?3 IS NULL OR name = ?3 OR snapshot = ?3)
               AND (?4 IS NULL OR tag = ?4)
               AND (?5 IS NULL OR created_at < ?5 OR (created_at = ?5 AND id > ?6))
             ORDER BY created_at DESC, id LIMIT ?7",
        )?
        .query_map(
            params![
                filter.team.as_str(),
                filter.sandbox.as_ref().map(SandboxId::as_str),
                named,
                tag,
                at,
                id,
                filter.limit,
            ],
            read,
        )?
        .collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<CheckpointRecord> {
    let parent: Option<String> = row.get("parent")?;
    Ok(CheckpointRecord {
        id: column::parsed(row, "id")?,
        team: column::parsed(row, "team")?,
        snapshot: column::parsed(row, "snapshot")?,
        name: row.get("name")?,
        tag: row.get("tag")?,
        parent: parent
            .map(|parent| column::word("parent", &parent))
            .transpose()?,
        sandbox: column::parsed(row, "sandbox")?,
        template: column::parsed(row, "template")?,
        template_name: row.get("template_name")?,
        node: column::parsed(row, "node")?,
        checkpoint: Checkpoint {
            record: row.get("record")?,
            kind: column::parsed(row, "kind")?,
            bytes: column::size(row, "bytes")?,
        },
        resources: Resources {
            cpus: row.get("cpus")?,
            memory_mib: row.get("memory_mib")?,
            disk_mib: row.get("disk_mib")?,
            pids: row.get("pids")?,
        },
        created_at: column::time(row, "created_at")?,
    })
}
