//! Forgetting.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};
use skep_types::SandboxId;

use crate::column;

/// Forgets at most `batch` ended sandboxes: those that ended before `before`, and the oldest
/// beyond `keep`. Returns which.
pub(super) fn prune(
    connection: &Connection,
    before: Timestamp,
    keep: u32,
    batch: u32,
) -> rusqlite::Result<Vec<SandboxId>> {
    let beyond: Option<i64> = connection
        .prepare_cached(
            "SELECT ended_at FROM sandboxes WHERE ended_at IS NOT NULL
             ORDER BY ended_at DESC LIMIT 1 OFFSET ?1",
        )?
        .query_row([keep], |row| row.get(0))
        .optional()?;
    let ids = connection
        .prepare_cached(
            "SELECT id FROM sandboxes
             WHERE ended_at IS NOT NULL AND (ended_at < ?1 OR ended_at <= ?2)
             ORDER BY ended_at LIMIT ?3",
        )?
        .query_map(params![column::micros(before), beyond, batch], |row| {
            column::parsed(row, "id")
        })?
        .collect::<rusqlite::Result<Vec<SandboxId>>>()?;
    for statement in [
        "DELETE FROM idempotent_requests WHERE sandbox = ?1",
        "DELETE FROM sandbox_metadata WHERE sandbox = ?1",
        "DELETE FROM sandboxes WHERE id = ?1",
    ] {
        let mut delete = connection.prepare_cached(statement)?;
        for id in &ids {
            delete.execute([id.as_str()])?;
        }
    }
    Ok(ids)
}
