//! Statements that look at deliveries.

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};
use skep_types::{DeliveryStatus, WebhookId};

use super::{AttemptRecord, DeliveryCounts, DeliveryFilter, DeliveryRecord, DueDelivery};
use crate::{column, events};

/// Columns of a due delivery whose names its event has, too.
const DUE: &str = "d.seq AS delivery, d.id AS delivery_id, d.webhook, d.tries, d.url, d.sealed";

pub(super) fn due(
    connection: &Connection,
    now: Timestamp,
    each: u32,
    limit: u32,
) -> rusqlite::Result<Vec<DueDelivery>> {
    // By webhook, so that one with a long queue hides no other, and by turns of the teams.
    let query = format!(
        "SELECT {DUE}, e.* FROM (
             SELECT d.*, w.url, w.sealed,
                 row_number() OVER (PARTITION BY w.team ORDER BY d.due_at) AS turn
             FROM webhooks w
             JOIN deliveries d ON d.seq IN (
                 SELECT seq FROM deliveries
                 WHERE webhook = w.id AND status = 'pending' AND due_at <= ?1
                 ORDER BY due_at LIMIT ?2)
             WHERE w.is_enabled) d
         JOIN events e ON e.seq = d.event
         ORDER BY d.turn, d.due_at LIMIT ?3"
    );
    let mut query = connection.prepare_cached(&query)?;
    let rows = query.query_map(params![column::micros(now), each, limit], read_due)?;
    rows.map(|due| {
        let due = due?;
        let event = events::with_metadata(connection, due.event)?;
        Ok(DueDelivery { event, ..due })
    })
    .collect()
}

fn read_due(row: &Row<'_>) -> rusqlite::Result<DueDelivery> {
    let event = events::read(row)?;
    Ok(DueDelivery {
        seq: column::size(row, "delivery")?,
        id: column::parsed(row, "delivery_id")?,
        webhook: column::parsed(row, "webhook")?,
        team: event.team.clone(),
        url: row.get("url")?,
        sealed: row.get("sealed")?,
        tries: row.get("tries")?,
        event,
    })
}

pub(super) fn next_due(
    connection: &Connection,
    now: Timestamp,
) -> rusqlite::Result<Option<Timestamp>> {
    let next: Option<i64> = connection
        .prepare_cached(
            "SELECT min((SELECT min(due_at) FROM deliveries
                         WHERE webhook = w.id AND status = 'pending' AND due_at > ?1))
             FROM webhooks w WHERE w.is_enabled",
        )?
        .query_row([column::micros(now)], |row| row.get(0))?;
    next.map(Timestamp::from_microsecond)
        .transpose()
        .map_err(|error| column::unreadable("due_at", error))
}

/// Deliveries of a webhook that wait, counted no further than `most`.
pub(super) fn pending(connection: &Connection, webhook: &str, most: u32) -> rusqlite::Result<u32> {
    connection
        .prepare_cached(
            "SELECT count(*) FROM (
                 SELECT 1 FROM deliveries WHERE webhook = ?1 AND status = 'pending' LIMIT ?2)",
        )?
        .query_row(params![webhook, most], |row| row.get(0))
}

pub(super) fn counts(
    connection: &Connection,
    webhook: WebhookId,
) -> rusqlite::Result<DeliveryCounts> {
    let mut counts = DeliveryCounts::default();
    let mut query = connection.prepare_cached(
        "SELECT status, count(*) AS number, sum(attempts) AS attempts FROM deliveries
         WHERE webhook = ?1 GROUP BY status",
    )?;
    let mut rows = query.query([webhook.to_string()])?;
    while let Some(row) = rows.next()? {
        let number = column::size(row, "number")?;
        counts.attempts += column::size(row, "attempts")?;
        match column::parsed(row, "status")? {
            DeliveryStatus::Pending => counts.pending = number,
            DeliveryStatus::Delivered => counts.delivered = number,
            DeliveryStatus::Failed => counts.failed = number,
        }
    }
    Ok(counts)
}

pub(super) fn list(
    connection: &Connection,
    filter: &DeliveryFilter,
) -> rusqlite::Result<Vec<DeliveryRecord>> {
    let marks = |count: usize| vec!["?"; count.max(1)].join(", ");
    let (statuses, kinds) = (marks(filter.statuses.len()), marks(filter.kinds.len()));
    let (order, beyond) = if filter.oldest_first {
        ("ASC", ">")
    } else {
        ("DESC", "<")
    };
    // Only the numbers of marks and the order are pasted, which are ours.
    let query = format!(
        "SELECT d.*, e.id AS event_id, e.kind, e.sandbox FROM webhooks w
         JOIN deliveries d ON d.webhook = w.id
         JOIN events e ON e.seq = d.event
         WHERE w.team = ? AND (? IS NULL OR w.id = ?) AND (? OR d.status IN ({statuses}))
             AND (? OR e.kind IN ({kinds})) AND d.created_at >= ? AND d.created_at < ?
             AND (? IS NULL OR d.seq {beyond} ?)
         ORDER BY d.seq {order} LIMIT ?"
    );
    let mut query = connection.prepare_cached(&query)?;
    let rows = query.query_map(params_from_iter(values(filter)), read)?;
    rows.map(|record| with_attempts(connection, record?))
        .collect()
}

fn values(filter: &DeliveryFilter) -> Vec<Value> {
    let webhook = filter.webhook.map(|id| id.to_string());
    let mut values: Vec<Value> = vec![
        filter.team.as_str().to_owned().into(),
        webhook.clone().into(),
        webhook.into(),
    ];
    let mut list = |words: Vec<&'static str>| {
        values.push(i64::from(words.is_empty()).into());
        if words.is_empty() {
            values.push(Value::Null);
        }
        values.extend(words.into_iter().map(|word| word.to_owned().into()));
    };
    list(filter.statuses.iter().map(|word| word.as_str()).collect());
    list(filter.kinds.iter().map(|word| word.as_str()).collect());
    let cursor = filter.cursor.map(column::count);
    values.extend::<[Value; 5]>([
        filter.start.map_or(i64::MIN, column::micros).into(),
        filter.end.map_or(i64::MAX, column::micros).into(),
        cursor.into(),
        cursor.into(),
        filter.limit.into(),
    ]);
    values
}

fn read(row: &Row<'_>) -> rusqlite::Result<DeliveryRecord> {
    let status: DeliveryStatus = column::parsed(row, "status")?;
    let due_at = match status {
        DeliveryStatus::Pending => Some(column::time(row, "due_at")?),
        DeliveryStatus::Delivered | DeliveryStatus::Failed => None,
    };
    Ok(DeliveryRecord {
        seq: column::size(row, "seq")?,
        id: column::parsed(row, "id")?,
        webhook: column::parsed(row, "webhook")?,
        status,
        event: row.get("event_id")?,
        kind: column::parsed(row, "kind")?,
        sandbox: column::parsed(row, "sandbox")?,
        created_at: column::time(row, "created_at")?,
        due_at,
        attempts: Vec::new(),
    })
}

fn with_attempts(
    connection: &Connection,
    mut record: DeliveryRecord,
) -> rusqlite::Result<DeliveryRecord> {
    record.attempts = connection
        .prepare_cached("SELECT * FROM delivery_attempts WHERE delivery = ?1 ORDER BY number")?
        .query_map([column::count(record.seq)], |row| {
            let failure: Option<String> = row.get("failure")?;
            Ok(AttemptRecord {
                at: column::time(row, "at")?,
                duration: column::duration(row, "duration")?,
                answer: row.get("answer")?,
                failure: failure
                    .map(|failure| column::word("failure", &failure))
                    .transpose()?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(record)
}
