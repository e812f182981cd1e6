//! Events of sandboxes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use serde::{Deserialize, Serialize};
use skep_types::{EndReason, EventKind, ExecutionId, SandboxId, TeamId, TemplateId, random_bytes};
use tokio::sync::watch;

use crate::{Receipt, Store, StoreError, column, deliveries};

/// Something that happened to a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// Place among all events, which only grows.
    pub seq: u64,
    /// Unique id, a UUID.
    pub id: String,
    /// Team that owns the sandbox.
    pub team: TeamId,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Its run at the time.
    pub execution: ExecutionId,
    /// Template that it is made of.
    pub template: TemplateId,
    /// Reference of the template below it all; `None` in events of older servers.
    pub base: Option<String>,
    /// Kind of the event.
    pub kind: EventKind,
    /// Time at which it was recorded.
    pub at: Timestamp,
    /// Time at which the run began.
    pub started_at: Timestamp,
    /// Processors that it may use.
    pub cpus: u32,
    /// Memory that it may use, in MiB.
    pub memory_mib: u32,
    /// Reason, if it ended.
    pub end_reason: Option<EndReason>,
    /// The new deadline, if that was changed.
    pub ends_at: Option<Timestamp>,
    /// The new rules, if those were changed.
    pub network: Option<NetworkChange>,
    /// Key-value pairs of the sandbox's owner, as long as it is remembered.
    pub metadata: BTreeMap<String, String>,
}

/// Network rules of a sandbox since its owner has changed them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkChange {
    /// Addresses, ranges and host names that it may reach.
    pub allowed: Vec<String>,
    /// Addresses and ranges that it may not.
    pub denied: Vec<String>,
}

/// Selection of events.
#[derive(Debug, Clone)]
pub struct EventFilter {
    /// Only those of this team's sandboxes.
    pub team: TeamId,
    /// Only those of this sandbox.
    pub sandbox: Option<SandboxId>,
    /// Only these; none means all.
    pub kinds: Vec<EventKind>,
    /// Only those after this place.
    pub after: Option<u64>,
    /// The oldest first if true, else the newest.
    pub oldest_first: bool,
    /// Number of events to leave out.
    pub offset: u32,
    /// Limit on their number.
    pub limit: u32,
}

/// The events in the database.
#[derive(Debug)]
pub struct Events<'a>(pub(crate) &'a Store);

impl Events<'_> {
    /// Records that a checkpoint of a sandbox was taken.
    pub fn checkpointed(&self, id: SandboxId, at: Timestamp) -> Receipt {
        let operation = "record an event";
        self.0.write_retained(operation, move |connection| {
            record(connection, &id, EventKind::Checkpointed, at)
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Records that the rules for what leaves a sandbox were changed.
    pub fn network_changed(&self, id: SandboxId, change: NetworkChange, at: Timestamp) -> Receipt {
        let operation = "record an event";
        self.0.write_retained(operation, move |connection| {
            record_with(connection, &id, EventKind::Updated, Some(&change), at)
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Events that a filter selects.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn list(&self, filter: EventFilter) -> Result<Vec<EventRecord>, StoreError> {
        let operation = "list events";
        self.0
            .read(operation, move |connection| {
                list(connection, &filter).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The place of the newest event.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn last(&self) -> Result<u64, StoreError> {
        let operation = "find the newest event";
        let query = "SELECT coalesce(max(seq), 0) AS seq FROM events";
        self.0
            .read(operation, move |connection| {
                let row = connection.query_row(query, [], |row| column::size(row, "seq"));
                row.map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// Forgets at most `batch` events: those before `before`, and the oldest if more than `keep` are
    /// left. Returns how many.
    pub fn prune(&self, before: Timestamp, keep: u32, batch: u32) -> Receipt<usize> {
        let operation = "forget old events";
        self.0.write(operation, move |connection| {
            connection
                .prepare_cached(
                    "DELETE FROM events WHERE seq IN (
                         SELECT seq FROM events
                         WHERE at < ?1 OR seq <= (SELECT max(seq) FROM events) - ?2
                         ORDER BY seq LIMIT ?3)",
                )
                .and_then(|mut delete| delete.execute(params![column::micros(before), keep, batch]))
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Fires when there may be new events. Whoever waits looks at the database then, so nothing is
    /// queued for anybody, however slow.
    pub fn news(&self) -> watch::Receiver<()> {
        self.0.news().subscribe()
    }

    /// Says that there may be new events: what was written is readable.
    pub fn announce(&self) {
        self.0.news().send_replace(());
    }
}

/// Records an event of a sandbox as its row is now, and its deliveries to webhooks. One that never ran
/// has none.
pub(crate) fn record(
    connection: &Connection,
    id: &SandboxId,
    kind: EventKind,
    at: Timestamp,
) -> rusqlite::Result<()> {
    record_with(connection, id, kind, None, at)
}

/// An update that does not change the network is one of the deadline, which the row has already.
fn record_with(
    connection: &Connection,
    id: &SandboxId,
    kind: EventKind,
    network: Option<&NetworkChange>,
    at: Timestamp,
) -> rusqlite::Result<()> {
    let network = network.map(|change| serde_json::to_string(change).expect("texts are JSON"));
    let recorded: Option<(i64, String)> = connection
        .prepare_cached(
            "INSERT INTO events (id, team, sandbox, execution, template, kind, at, started_at,
                 cpus, memory_mib, end_reason, base, ends_at, network)
             SELECT ?2, team, id, execution, template, ?3, ?4, started_at, cpus, memory_mib,
                 end_reason, base, iif(?3 = 'updated' AND ?5 IS NULL, ends_at, NULL), ?5
             FROM sandboxes WHERE id = ?1 AND started_at IS NOT NULL
             RETURNING seq, team",
        )?
        .query_row(
            params![
                id.as_str(),
                uuid(),
                kind.as_str(),
                column::micros(at),
                network
            ],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    match recorded {
        Some((seq, team)) => deliveries::record(connection, seq, &team, kind, at),
        None => Ok(()),
    }
}

/// A random UUID.
fn uuid() -> String {
    let mut bytes = random_bytes::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    parts.join("-")
}

fn list(connection: &Connection, filter: &EventFilter) -> rusqlite::Result<Vec<EventRecord>> {
    let marks = vec!["?"; filter.kinds.len().max(1)].join(", ");
    let order = if filter.oldest_first { "ASC" } else { "DESC" };
    // Only the number of marks and the order are pasted, which are ours.
    let query = format!(
        "SELECT * FROM events
         WHERE team = ? AND seq > ? AND (? IS NULL OR sandbox = ?) AND (? OR kind IN ({marks}))
         ORDER BY seq {order} LIMIT ? OFFSET ?"
    );
    let sandbox = filter.sandbox.as_ref().map(|id| id.as_str().to_owned());
    let mut values: Vec<Value> = vec![
        filter.team.as_str().to_owned().into(),
        column::count(filter.after.unwrap_or(0)).into(),
        sandbox.clone().into(),
        sandbox.into(),
        i64::from(filter.kinds.is_empty()).into(),
    ];
    values.extend(
        filter
            .kinds
            .iter()
            .map(|kind| kind.as_str().to_owned().into()),
    );
    if filter.kinds.is_empty() {
        values.push(Value::Null);
    }
    values.push(filter.limit.into());
    values.push(filter.offset.into());
    let mut query = connection.prepare_cached(&query)?;
    let rows = query.query_map(params_from_iter(values), read)?;
    rows.map(|record| with_metadata(connection, record?))
        .collect()
}

pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<EventRecord> {
    let end_reason: Option<String> = row.get("end_reason")?;
    let network: Option<String> = row.get("network")?;
    let network = network.map(|text| {
        serde_json::from_str(&text).map_err(|error| column::unreadable("network", error))
    });
    Ok(EventRecord {
        seq: column::size(row, "seq")?,
        id: row.get("id")?,
        team: column::parsed(row, "team")?,
        sandbox: column::parsed(row, "sandbox")?,
        execution: column::parsed(row, "execution")?,
        template: column::parsed(row, "template")?,
        base: row.get("base")?,
        kind: column::parsed(row, "kind")?,
        at: column::time(row, "at")?,
        started_at: column::time(row, "started_at")?,
        cpus: row.get("cpus")?,
        memory_mib: row.get("memory_mib")?,
        end_reason: end_reason
            .map(|reason| column::word("end_reason", &reason))
            .transpose()?,
        ends_at: column::optional_time(row, "ends_at")?,
        network: network.transpose()?,
        // In a table of its own, as long as the sandbox is remembered.
        metadata: BTreeMap::new(),
    })
}

pub(crate) fn with_metadata(
    connection: &Connection,
    mut record: EventRecord,
) -> rusqlite::Result<EventRecord> {
    record.metadata = crate::sandboxes::metadata(connection, &record.sandbox)?;
    Ok(record)
}
