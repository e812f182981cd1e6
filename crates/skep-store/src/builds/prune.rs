//! Deletion of builds that nobody needs.
//!
//! A version that goes is taken away first, so that nobody can ask for it any more, and forgotten
//! later: what was made of it in the instant between has a record by then, and brings it back.

use std::collections::HashSet;

use jiff::Timestamp;
use rusqlite::{Connection, params};
use skep_types::{BuildBase, LayerKey};

use super::{encoding, record};
use crate::column;

/// The builds that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildRetention {
    /// The time now.
    pub now: Timestamp,
    /// Builds that failed before this moment are forgotten.
    pub failed_before: Option<Timestamp>,
    /// Versions that no tag means since before this moment, and that nothing uses, are taken away.
    pub untagged_before: Option<Timestamp>,
    /// Versions that were taken away before this moment, or whose template was deleted before it, are
    /// forgotten.
    pub removed_before: Timestamp,
}

/// Number of builds that are gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrunedBuilds {
    /// Versions that cannot be asked for any more.
    pub removed: usize,
    /// Builds of which nothing is left in the record.
    pub forgotten: usize,
}

/// True of a build that a sandbox which lives, paused or not, or a snapshot stands on.
const IS_USED: &str = "(EXISTS (SELECT 1 FROM sandboxes WHERE ended_at IS NULL
        AND base = builds.template || ':' || builds.id)
     OR EXISTS (SELECT 1 FROM checkpoints WHERE template_name = builds.template || ':' || builds.id))";

/// True of a build that a tag has meant since `?1`: no newer one with a ready build had taken its
/// place by then, and it was not taken off.
const IS_TAGGED: &str = "EXISTS (SELECT 1 FROM template_tags AS own WHERE own.build = builds.id
     AND (own.removed_at IS NULL OR own.removed_at >= ?1)
     AND NOT EXISTS (SELECT 1 FROM template_tags AS newer JOIN builds AS other ON other.id = newer.build
         WHERE newer.template = own.template AND newer.tag = own.tag AND newer.number > own.number
           AND newer.removed_at IS NULL AND other.status = 'ready' AND other.removed_at IS NULL
           AND newer.build <> own.build AND other.ended_at < ?1))";

pub(super) fn prune(
    connection: &Connection,
    limits: &BuildRetention,
) -> rusqlite::Result<PrunedBuilds> {
    bring_back(connection)?;
    let removed = match limits.untagged_before {
        Some(before) => take_away(connection, before, limits.now)?,
        None => 0,
    };
    let mut forgotten = forget(
        connection,
        &format!(
            "SELECT id FROM builds WHERE status IN ('ready', 'error') AND NOT {IS_USED}
             AND (removed_at < ?1 OR EXISTS (SELECT 1 FROM templates
                  WHERE templates.id = builds.template AND deleted_at < ?1))"
        ),
        limits.removed_before,
    )?;
    if let Some(before) = limits.failed_before {
        let failed = "SELECT id FROM builds WHERE status = 'error' AND ended_at < ?1";
        forgotten += forget(connection, failed, before)?;
    }
    Ok(PrunedBuilds { removed, forgotten })
}

/// Versions of which a sandbox was made while they were taken away.
fn bring_back(connection: &Connection) -> rusqlite::Result<usize> {
    let sql =
        format!("UPDATE builds SET removed_at = NULL WHERE removed_at IS NOT NULL AND {IS_USED}");
    connection.prepare_cached(&sql)?.execute([])
}

fn take_away(
    connection: &Connection,
    before: Timestamp,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let sql = format!(
        "UPDATE builds SET removed_at = ?2 WHERE status = 'ready' AND removed_at IS NULL
         AND ended_at < ?1 AND NOT {IS_TAGGED} AND NOT {IS_USED}"
    );
    connection
        .prepare_cached(&sql)?
        .execute(params![column::micros(before), column::micros(now)])
}

/// Forgets the builds that a query names.
fn forget(connection: &Connection, query: &str, before: Timestamp) -> rusqlite::Result<usize> {
    let ids: Vec<String> = connection
        .prepare_cached(query)?
        .query_map([column::micros(before)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for statement in [
        "DELETE FROM build_logs WHERE build = ?1",
        "DELETE FROM template_tags WHERE build = ?1",
        "DELETE FROM builds WHERE id = ?1",
    ] {
        let mut delete = connection.prepare_cached(statement)?;
        for id in &ids {
            delete.execute([id])?;
        }
    }
    Ok(ids.len())
}

pub(super) fn layers(connection: &Connection) -> rusqlite::Result<HashSet<LayerKey>> {
    let mut needed = HashSet::new();
    let mut query = connection
        .prepare_cached("SELECT * FROM builds WHERE status = 'ready' OR status = 'building'")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (result, ordered): (Option<String>, Option<String>) =
            (row.get("result")?, row.get("ordered")?);
        if let Some(result) = result {
            let built = encoding::decode_result(&result, 0)
                .map_err(|error| column::unreadable("result", error))?;
            needed.extend(built.image.layers);
        } else if let Some(ordered) = ordered {
            // An order that cannot be read is not carried out, so it needs nothing.
            let order = encoding::decode_order(&ordered, &record::read(row)?).ok();
            if let Some(BuildBase::Template { image, .. }) = order.map(|order| order.base) {
                needed.extend(image.layers);
            }
        }
    }
    Ok(needed)
}
