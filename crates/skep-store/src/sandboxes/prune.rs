//! Deletion of old records.

use jiff::Timestamp;
use rusqlite::{Connection, params};
use skep_types::{SandboxId, fair_share};

use crate::column;

/// Forgets at most `batch` ended sandboxes: those that ended before `before`, and so many that at
/// most `keep` are left, the oldest of the teams that have the most. Returns which.
///
/// One number for all teams would let a team erase the others' by starting sandboxes and ending
/// them.
pub(super) fn prune(
    connection: &Connection,
    before: Timestamp,
    keep: u32,
    batch: u32,
) -> rusqlite::Result<Vec<SandboxId>> {
    let mut ids = ended_before(connection, before, batch)?;
    if ids.is_empty() {
        ids = beyond_a_fair_share(connection, keep, batch)?;
    }
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

fn ended_before(
    connection: &Connection,
    before: Timestamp,
    batch: u32,
) -> rusqlite::Result<Vec<SandboxId>> {
    connection
        .prepare_cached("SELECT id FROM sandboxes WHERE ended_at < ?1 ORDER BY ended_at LIMIT ?2")?
        .query_map(params![column::micros(before), batch], |row| {
            column::parsed(row, "id")
        })?
        .collect()
}

fn beyond_a_fair_share(
    connection: &Connection,
    keep: u32,
    batch: u32,
) -> rusqlite::Result<Vec<SandboxId>> {
    let counts: Vec<(String, u32)> = connection
        .prepare_cached(
            "SELECT team, COUNT(*) FROM sandboxes WHERE ended_at IS NOT NULL GROUP BY team",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let share = fair_share(
        counts.iter().map(|(_, count)| (*count).into()).collect(),
        keep.into(),
    );
    let share = u32::try_from(share).unwrap_or(u32::MAX);
    let mut ids = Vec::new();
    let mut room = batch;
    for (team, count) in counts {
        let excess = count.saturating_sub(share).min(room);
        room -= excess;
        let oldest = connection
            .prepare_cached(
                "SELECT id FROM sandboxes WHERE team = ?1 AND ended_at IS NOT NULL
                 ORDER BY ended_at LIMIT ?2",
            )?
            .query_map(params![team, excess], |row| column::parsed(row, "id"))?
            .collect::<rusqlite::Result<Vec<SandboxId>>>()?;
        ids.extend(oldest);
    }
    Ok(ids)
}
