//! Queries on sandboxes.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use skep_types::{
    AccessToken, EndReason, Ending, Ingress, NodeId, Resources, SandboxId, SandboxRun, TeamId,
    Usage,
};

use super::{Order, SandboxFilter, SandboxRecord, Span, Spawns, identity, mounts};
use crate::column;

pub(super) fn ended_by_age(connection: &Connection) -> rusqlite::Result<Vec<(SandboxId, TeamId)>> {
    connection
        .prepare_cached(
            "SELECT id, team FROM sandboxes WHERE ended_at IS NOT NULL ORDER BY ended_at",
        )?
        .query_map([], |row| {
            Ok((column::parsed(row, "id")?, column::parsed(row, "team")?))
        })?
        .collect()
}

pub(super) fn find(
    connection: &Connection,
    id: &SandboxId,
) -> rusqlite::Result<Option<SandboxRecord>> {
    let record = connection
        .prepare_cached("SELECT * FROM sandboxes WHERE id = ?1")?
        .query_row([id.as_str()], read)
        .optional()?;
    record
        .map(|record| with_metadata(connection, record))
        .transpose()
}

pub(super) fn living(
    connection: &Connection,
    node: &NodeId,
) -> rusqlite::Result<Vec<SandboxRecord>> {
    let mut query = connection.prepare_cached(
        "SELECT * FROM sandboxes WHERE node = ?1 AND ended_at IS NULL ORDER BY created_at, id",
    )?;
    collect(connection, query.query_map([node.as_str()], read)?)
}

pub(super) fn list(
    connection: &Connection,
    filter: &SandboxFilter,
) -> rusqlite::Result<Vec<SandboxRecord>> {
    // Two statements, because one with an optional team could not use the index.
    let mut query = connection.prepare_cached(match &filter.team {
        Some(_) => {
            "SELECT * FROM sandboxes
             WHERE team = ?1 AND (?2 OR ended_at IS NULL)
               AND (?3 IS NULL OR created_at < ?3 OR (created_at = ?3 AND id > ?4))
             ORDER BY created_at DESC, id LIMIT ?5"
        }
        None => {
            "SELECT * FROM sandboxes
             WHERE ?1 IS NULL AND (?2 OR ended_at IS NULL)
               AND (?3 IS NULL OR created_at < ?3 OR (created_at = ?3 AND id > ?4))
             ORDER BY created_at DESC, id LIMIT ?5"
        }
    })?;
    let after = filter.after.as_ref();
    let rows = query.query_map(
        params![
            filter.team.as_ref().map(TeamId::as_str),
            filter.ended,
            after.map(|position| column::micros(position.created_at)),
            after.map(|position| position.id.as_str()),
            filter.limit,
        ],
        read,
    )?;
    collect(connection, rows)
}

pub(super) fn spawns(connection: &Connection, team: &TeamId) -> rusqlite::Result<Vec<Spawns>> {
    connection
        .prepare_cached(
            "SELECT template, count(*) AS count, max(created_at) AS last FROM sandboxes
             WHERE team = ?1 GROUP BY template",
        )?
        .query_map([team.as_str()], |row| {
            Ok(Spawns {
                template: column::parsed(row, "template")?,
                count: column::size(row, "count")?,
                last: column::time(row, "last")?,
            })
        })?
        .collect()
}

pub(super) fn spans(
    connection: &Connection,
    team: &TeamId,
    from: Timestamp,
    until: Timestamp,
) -> rusqlite::Result<Vec<Span>> {
    connection
        .prepare_cached(
            "SELECT started_at, ended_at FROM sandboxes
             WHERE team = ?1 AND started_at <= ?3 AND (ended_at IS NULL OR ended_at >= ?2)",
        )?
        .query_map(
            params![team.as_str(), column::micros(from), column::micros(until)],
            |row| {
                Ok(Span {
                    started_at: column::time(row, "started_at")?,
                    ended_at: column::optional_time(row, "ended_at")?,
                })
            },
        )?
        .collect()
}

fn collect(
    connection: &Connection,
    rows: impl Iterator<Item = rusqlite::Result<SandboxRecord>>,
) -> rusqlite::Result<Vec<SandboxRecord>> {
    rows.map(|record| with_metadata(connection, record?))
        .collect()
}

fn with_metadata(
    connection: &Connection,
    mut record: SandboxRecord,
) -> rusqlite::Result<SandboxRecord> {
    record.order.metadata = metadata(connection, &record.order.id)?;
    Ok(record)
}

/// Key-value pairs of a sandbox that is remembered.
pub(crate) fn metadata(
    connection: &Connection,
    id: &SandboxId,
) -> rusqlite::Result<BTreeMap<String, String>> {
    connection
        .prepare_cached("SELECT key, value FROM sandbox_metadata WHERE sandbox = ?1")?
        .query_map([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<SandboxRecord> {
    Ok(SandboxRecord {
        order: read_order(row)?,
        run: read_run(row)?,
        ending: read_ending(row)?,
    })
}

fn read_order(row: &Row<'_>) -> rusqlite::Result<Order> {
    let access_token: Option<String> = row.get("access_token")?;
    let template_name: String = row.get("template_name")?;
    let base: Option<String> = row.get("base")?;
    let mounts: String = row.get("mounts")?;
    let identity: Option<String> = row.get("identity_tokens")?;
    Ok(Order {
        id: column::parsed(row, "id")?,
        team: column::parsed(row, "team")?,
        node: column::parsed(row, "node")?,
        template: column::parsed(row, "template")?,
        base: base.unwrap_or_else(|| template_name.clone()),
        template_name,
        // In a table of its own; see `with_metadata`.
        metadata: BTreeMap::new(),
        access_token: access_token.as_deref().map(AccessToken::from_record),
        ingress: Arc::new(read_ingress(row)?),
        internet: row.get("internet")?,
        resources: Resources {
            cpus: row.get("cpus")?,
            memory_mib: row.get("memory_mib")?,
            disk_mib: row.get("disk_mib")?,
            pids: row.get("pids")?,
        },
        lifetime: column::duration(row, "lifetime")?,
        on_timeout: column::parsed(row, "on_timeout")?,
        auto_resume: row.get("auto_resume")?,
        mounts: mounts::decode(&mounts)?,
        identity: identity::decode(identity.as_deref())?,
        created_at: column::time(row, "created_at")?,
    })
}

fn read_ingress(row: &Row<'_>) -> rusqlite::Result<Ingress> {
    let host_mask: Option<String> = row.get("host_mask")?;
    let host_mask = host_mask.map(|mask| column::word("host_mask", &mask));
    Ok(Ingress {
        is_private: row.get("is_private")?,
        host_mask: host_mask.transpose()?,
        https_ports: column::read_ports(row, "https_ports")?,
    })
}

fn read_run(row: &Row<'_>) -> rusqlite::Result<Option<SandboxRun>> {
    let Some(started_at) = column::optional_time(row, "started_at")? else {
        return Ok(None);
    };
    let paused: Option<String> = row.get("paused")?;
    Ok(Some(SandboxRun {
        execution: column::parsed(row, "execution")?,
        driver_record: row.get("driver_record")?,
        started_at,
        ends_at: column::time(row, "ends_at")?,
        paused: paused
            .map(|kind| column::word("paused", &kind))
            .transpose()?,
    }))
}

fn read_ending(row: &Row<'_>) -> rusqlite::Result<Option<Ending>> {
    let Some(at) = column::optional_time(row, "ended_at")? else {
        return Ok(None);
    };
    Ok(Some(Ending {
        reason: column::parsed::<EndReason>(row, "end_reason")?,
        usage: Usage {
            cpu_time: column::duration(row, "cpu_time")?,
            memory_bytes: column::size(row, "memory_bytes")?,
            cache_bytes: column::size(row, "cache_bytes")?,
            memory_peak_bytes: column::size(row, "memory_peak_bytes")?,
            memory_average_bytes: column::size(row, "memory_average_bytes")?,
            disk_bytes: column::size(row, "disk_bytes")?,
            disk_read_bytes: column::size(row, "disk_read_bytes")?,
            disk_written_bytes: column::size(row, "disk_written_bytes")?,
            received_bytes: column::size(row, "received_bytes")?,
            sent_bytes: column::size(row, "sent_bytes")?,
            pids: row.get("pids_at_end")?,
            out_of_memory_kills: column::size(row, "oom_kills")?,
        },
        at,
    }))
}
