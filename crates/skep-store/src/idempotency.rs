//! Creation requests with an idempotency key, and the sandboxes they made.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use skep_types::{SandboxId, TeamId};

use crate::column;

/// Time for which a request is remembered.
const MEMORY: Duration = Duration::from_hours(24);

/// Key by which a caller has a repeated request answered like the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The caller's name for the request.
    pub key: String,
    /// Digest of the whole request.
    pub request: String,
}

/// A request that was remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// Digest of the whole first request.
    pub request: String,
    /// The sandbox it was given.
    pub sandbox: SandboxId,
}

pub(crate) fn remember(
    connection: &Connection,
    team: &TeamId,
    idempotency: &Idempotency,
    sandbox: &SandboxId,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let oldest = column::micros(now) - column::duration_micros(MEMORY);
    connection
        .prepare_cached("DELETE FROM idempotent_requests WHERE created_at < ?1")?
        .execute([oldest])?;
    connection
        .prepare_cached(
            "INSERT INTO idempotent_requests (team, key, request, sandbox, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            team.as_str(),
            idempotency.key,
            idempotency.request,
            sandbox.as_str(),
            column::micros(now),
        ])?;
    Ok(())
}

pub(crate) fn forget(connection: &Connection, team: &TeamId, key: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM idempotent_requests WHERE team = ?1 AND key = ?2")?
        .execute([team.as_str(), key])?;
    Ok(())
}

pub(crate) fn find(
    connection: &Connection,
    team: &TeamId,
    key: &str,
) -> rusqlite::Result<Option<IdempotentRequest>> {
    connection
        .prepare_cached(
            "SELECT request, sandbox FROM idempotent_requests WHERE team = ?1 AND key = ?2",
        )?
        .query_row([team.as_str(), key], |row| {
            Ok(IdempotentRequest {
                request: row.get("request")?,
                sandbox: column::parsed(row, "sandbox")?,
            })
        })
        .optional()
}
