//! Statements that change sandboxes.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use skep_types::{Ending, EventKind, HostMask, ImageKind, SandboxId, SandboxRun};

use super::{Order, identity, mounts};
use crate::error::is_taken;
use crate::{Idempotency, StoreError, column, events, idempotency};

pub(super) fn insert(
    connection: &Connection,
    order: &Order,
    idempotency: Option<&Idempotency>,
) -> Result<(), StoreError> {
    insert_rows(connection, order, idempotency).map_err(|source| {
        if is_taken(&source) {
            return StoreError::Taken {
                kind: "sandbox or idempotency key",
                name: order.id.to_string(),
            };
        }
        StoreError::of("record a sandbox", source)
    })
}

fn insert_rows(
    connection: &Connection,
    order: &Order,
    idempotency: Option<&Idempotency>,
) -> rusqlite::Result<()> {
    let resources = order.resources;
    connection
        .prepare_cached(
            "INSERT INTO sandboxes (id, team, template, template_name, access_token, internet,
             cpus, memory_mib, disk_mib, pids, lifetime, created_at, node,
             on_timeout, auto_resume, base, is_private, host_mask, https_ports, mounts,
             identity_tokens)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
             ?18, ?19, ?20, ?21)",
        )?
        .execute(params![
            order.id.as_str(),
            order.team.as_str(),
            order.template.as_str(),
            order.template_name,
            order.access_token.as_ref().map(|token| token.reveal()),
            order.internet,
            resources.cpus,
            resources.memory_mib,
            resources.disk_mib,
            resources.pids,
            column::duration_micros(order.lifetime),
            column::micros(order.created_at),
            order.node.as_str(),
            order.on_timeout.as_str(),
            order.auto_resume,
            order.base,
            order.ingress.is_private,
            order.ingress.host_mask.as_ref().map(HostMask::as_str),
            column::ports(&order.ingress.https_ports),
            mounts::encode(&order.mounts),
            identity::encode(&order.identity),
        ])?;
    let mut metadata = connection
        .prepare_cached("INSERT INTO sandbox_metadata (sandbox, key, value) VALUES (?1, ?2, ?3)")?;
    for (key, value) in &order.metadata {
        metadata.execute([order.id.as_str(), key, value])?;
    }
    if let Some(idempotency) = idempotency {
        idempotency::remember(
            connection,
            &order.team,
            idempotency,
            &order.id,
            order.created_at,
        )?;
    }
    Ok(())
}

pub(super) fn started(
    connection: &Connection,
    id: &SandboxId,
    run: &SandboxRun,
) -> Result<(), StoreError> {
    let operation = "record the start of a sandbox";
    let kind = match ran_before(connection, id) {
        Ok(true) => EventKind::Resumed,
        Ok(false) => EventKind::Created,
        Err(source) => return Err(StoreError::of(operation, source)),
    };
    let changed = connection
        .prepare_cached(
            "UPDATE sandboxes SET execution = ?2, driver_record = ?3, started_at = ?4,
             ends_at = ?5, paused = ?6 WHERE id = ?1 AND ended_at IS NULL",
        )
        .and_then(|mut update| {
            update.execute(params![
                id.as_str(),
                run.execution.to_string(),
                run.driver_record,
                column::micros(run.started_at),
                column::micros(run.ends_at),
                run.paused.map(ImageKind::as_str),
            ])
        })
        .map_err(|source| StoreError::of(operation, source))?;
    one("living sandbox", id, changed)?;
    let recorded = events::record(connection, id, kind, run.started_at);
    recorded.map_err(|source| StoreError::of(operation, source))
}

fn ran_before(connection: &Connection, id: &SandboxId) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM sandboxes WHERE id = ?1 AND started_at IS NOT NULL")?
        .exists([id.as_str()])
}

/// The event that a change of a run is, if it is one: other changes are the driver's own business.
fn event_of_change(
    connection: &Connection,
    id: &SandboxId,
    run: &SandboxRun,
) -> rusqlite::Result<Option<EventKind>> {
    let before: Option<(bool, i64)> = connection
        .prepare_cached(
            "SELECT paused IS NOT NULL, ends_at FROM sandboxes
             WHERE id = ?1 AND execution = ?2 AND ended_at IS NULL",
        )?
        .query_row(params![id.as_str(), run.execution.to_string()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    Ok(before.and_then(
        |(was_paused, ended_at)| match (was_paused, run.paused.is_some()) {
            (false, true) => Some(EventKind::Paused),
            (true, false) => Some(EventKind::Resumed),
            (false, false) if ended_at != column::micros(run.ends_at) => Some(EventKind::Updated),
            (false, false) | (true, true) => None,
        },
    ))
}

pub(super) fn changed(
    connection: &Connection,
    id: &SandboxId,
    run: &SandboxRun,
) -> Result<(), StoreError> {
    let operation = "record a change of a run";
    let event =
        event_of_change(connection, id, run).map_err(|source| StoreError::of(operation, source))?;
    let changed = connection
        .prepare_cached(
            "UPDATE sandboxes SET driver_record = ?3, ends_at = ?4, paused = ?5
             WHERE id = ?1 AND execution = ?2 AND ended_at IS NULL",
        )
        .and_then(|mut update| {
            update.execute(params![
                id.as_str(),
                run.execution.to_string(),
                run.driver_record,
                column::micros(run.ends_at),
                run.paused.map(ImageKind::as_str),
            ])
        })
        .map_err(|source| StoreError::of(operation, source))?;
    one("such run of sandbox", id, changed)?;
    match event {
        Some(kind) => events::record(connection, id, kind, Timestamp::now())
            .map_err(|source| StoreError::of(operation, source)),
        None => Ok(()),
    }
}

pub(super) fn ended(
    connection: &Connection,
    id: &SandboxId,
    ending: &Ending,
) -> Result<bool, StoreError> {
    let operation = "record the end of a sandbox";
    let usage = ending.usage;
    let changed = connection
        .prepare_cached(
            "UPDATE sandboxes SET ended_at = ?2, end_reason = ?3, cpu_time = ?4,
             memory_bytes = ?5, cache_bytes = ?6, memory_peak_bytes = ?7, disk_bytes = ?8,
             pids_at_end = ?9, oom_kills = ?10, received_bytes = ?11, sent_bytes = ?12,
             memory_average_bytes = ?13, disk_read_bytes = ?14, disk_written_bytes = ?15
             WHERE id = ?1 AND ended_at IS NULL",
        )
        .and_then(|mut update| {
            update.execute(params![
                id.as_str(),
                column::micros(ending.at),
                ending.reason.as_str(),
                column::duration_micros(usage.cpu_time),
                column::count(usage.memory_bytes),
                column::count(usage.cache_bytes),
                column::count(usage.memory_peak_bytes),
                column::count(usage.disk_bytes),
                usage.pids,
                column::count(usage.out_of_memory_kills),
                column::count(usage.received_bytes),
                column::count(usage.sent_bytes),
                column::count(usage.memory_average_bytes),
                column::count(usage.disk_read_bytes),
                column::count(usage.disk_written_bytes),
            ])
        })
        .map_err(|source| StoreError::of(operation, source))?;
    if changed > 0 {
        let recorded = events::record(connection, id, EventKind::Killed, ending.at);
        recorded.map_err(|source| StoreError::of(operation, source))?;
        return Ok(true);
    }
    let known = connection
        .prepare_cached("SELECT 1 FROM sandboxes WHERE id = ?1")
        .and_then(|mut query| query.exists([id.as_str()]))
        .map_err(|source| StoreError::of(operation, source))?;
    one("sandbox", id, usize::from(known)).map(|()| false)
}

fn one(kind: &'static str, id: &SandboxId, changed: usize) -> Result<(), StoreError> {
    match changed {
        0 => Err(StoreError::Missing {
            kind,
            name: id.to_string(),
        }),
        _ => Ok(()),
    }
}
