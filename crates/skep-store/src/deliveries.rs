//! Events on their way to webhooks, and what became of them.
//!
//! A delivery is recorded together with its event and stays pending until an attempt has ended it, so
//! a server that dies in between sends it again: receivers see an event at least once.

mod query;

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, params};
use skep_types::{
    AttemptFailure, DeliveryId, DeliveryStatus, EventKind, SandboxId, TeamId, WebhookId,
};

use crate::{EventRecord, Receipt, Store, StoreError, column};

/// Limit on the deliveries of a webhook that wait. What comes when as many do is a dead letter at once.
/// They are counted when an event is recorded, which everybody's writes wait for.
const MOST_PENDING: u32 = 1_000;
/// Limit on the attempts of a delivery that are remembered, the newest.
const MOST_ATTEMPTS: u32 = 25;

/// A delivery that is due, with all that is needed to send it.
#[derive(Debug, Clone)]
pub struct DueDelivery {
    /// Place among all deliveries.
    pub seq: u64,
    /// Id, the same at every attempt.
    pub id: DeliveryId,
    /// The webhook.
    pub webhook: WebhookId,
    /// Team that owns it.
    pub team: TeamId,
    /// Address to send it to.
    pub url: String,
    /// The secret that signs it, sealed.
    pub sealed: Vec<u8>,
    /// Attempts before, since it was last asked for.
    pub tries: u32,
    /// The event.
    pub event: EventRecord,
}

/// An attempt to deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Time at which it began.
    pub at: Timestamp,
    /// Time that it took.
    pub duration: Duration,
    /// Status that the receiver answered with, if it did.
    pub answer: Option<u16>,
    /// Kind of its failure, if it failed.
    pub failure: Option<AttemptFailure>,
}

/// Meaning of an attempt for its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryVerdict {
    /// The receiver has it.
    Delivered,
    /// It is tried again at that time.
    Again(Timestamp),
    /// It is given up.
    GivenUp,
}

/// A delivery with its attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// Place among all deliveries.
    pub seq: u64,
    /// Id, the same at every attempt.
    pub id: DeliveryId,
    /// The webhook.
    pub webhook: WebhookId,
    /// State after the newest attempt.
    pub status: DeliveryStatus,
    /// Id of the event.
    pub event: String,
    /// Kind of the event.
    pub kind: EventKind,
    /// The sandbox that it happened to.
    pub sandbox: SandboxId,
    /// Time at which it was recorded.
    pub created_at: Timestamp,
    /// Time of the next attempt, if there will be one.
    pub due_at: Option<Timestamp>,
    /// The newest attempts, the oldest first.
    pub attempts: Vec<AttemptRecord>,
}

/// Selection of deliveries.
#[derive(Debug, Clone)]
pub struct DeliveryFilter {
    /// Only those of this team's webhooks.
    pub team: TeamId,
    /// Only those of this webhook.
    pub webhook: Option<WebhookId>,
    /// Only these states; none means all.
    pub statuses: Vec<DeliveryStatus>,
    /// Only these events; none means all.
    pub kinds: Vec<EventKind>,
    /// Only those recorded then or later.
    pub start: Option<Timestamp>,
    /// Only those recorded before.
    pub end: Option<Timestamp>,
    /// Place of the last one that was seen.
    pub cursor: Option<u64>,
    /// The oldest first if true, else the newest.
    pub oldest_first: bool,
    /// Limit on their number.
    pub limit: u32,
}

/// Numbers of a webhook's deliveries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Those that wait.
    pub pending: u64,
    /// Those that were taken.
    pub delivered: u64,
    /// Those that were given up.
    pub failed: u64,
    /// Attempts of all of them.
    pub attempts: u64,
}

/// The deliveries in the database.
#[derive(Debug)]
pub struct Deliveries<'a>(pub(crate) &'a Store);

impl Deliveries<'_> {
    /// Deliveries of enabled webhooks that are due, at most `each` of a webhook and `limit` of all,
    /// those that have waited longest first.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn due(
        &self,
        now: Timestamp,
        each: u32,
        limit: u32,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        if !self.0.may_have_webhooks() {
            return Ok(Vec::new());
        }
        let operation = "find deliveries that are due";
        self.0
            .read(operation, move |connection| {
                query::due(connection, now, each, limit)
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The time after `now` at which the next delivery of an enabled webhook is due.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn next_due(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        if !self.0.may_have_webhooks() {
            return Ok(None);
        }
        let operation = "find the next delivery";
        self.0
            .read(operation, move |connection| {
                query::next_due(connection, now).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// Records an attempt and what it means. One whose delivery is gone meanwhile leaves nothing.
    pub fn attempted(
        &self,
        delivery: u64,
        attempt: AttemptRecord,
        verdict: DeliveryVerdict,
    ) -> Receipt {
        let operation = "record an attempt to deliver";
        self.0.write_retained(operation, move |connection| {
            attempted(connection, delivery, &attempt, verdict)
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Makes dead letters of a webhook due again, the oldest first and as many as may wait; returns
    /// how many.
    pub fn redeliver(&self, webhook: WebhookId, at: Timestamp) -> Receipt<usize> {
        let operation = "send dead letters again";
        self.0.write(operation, move |connection| {
            redeliver(connection, webhook, at).map_err(|source| StoreError::of(operation, source))
        })
    }

    /// Deliveries that a filter selects.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn list(&self, filter: DeliveryFilter) -> Result<Vec<DeliveryRecord>, StoreError> {
        let operation = "list deliveries";
        self.0
            .read(operation, move |connection| {
                query::list(connection, &filter).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// Numbers of a webhook's deliveries, as far as they are remembered.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn counts(&self, webhook: WebhookId) -> Result<DeliveryCounts, StoreError> {
        let operation = "count deliveries";
        self.0
            .read(operation, move |connection| {
                query::counts(connection, webhook)
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }
}

/// Records the deliveries of a new event: one for each enabled webhook of its team that is told of
/// its kind.
pub(crate) fn record(
    connection: &Connection,
    event: i64,
    team: &str,
    kind: EventKind,
    at: Timestamp,
) -> rusqlite::Result<()> {
    let webhooks: Vec<String> = connection
        .prepare_cached(
            "SELECT id FROM webhooks JOIN webhook_kinds ON webhook = id
             WHERE team = ?1 AND kind = ?2 AND is_enabled",
        )?
        .query_map([team, kind.as_str()], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for webhook in webhooks {
        let is_full = query::pending(connection, &webhook, MOST_PENDING)? >= MOST_PENDING;
        let status = if is_full {
            DeliveryStatus::Failed
        } else {
            DeliveryStatus::Pending
        };
        connection
            .prepare_cached(
                "INSERT INTO deliveries (id, webhook, event, status, due_at, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
            )?
            .execute(params![
                DeliveryId::random().to_string(),
                webhook,
                event,
                status.as_str(),
                column::micros(at),
            ])?;
        if is_full {
            let attempt = AttemptRecord {
                at,
                duration: Duration::ZERO,
                answer: None,
                failure: Some(AttemptFailure::Canceled),
            };
            insert_attempt(connection, connection.last_insert_rowid(), 0, &attempt)?;
        }
    }
    Ok(())
}

fn attempted(
    connection: &Connection,
    delivery: u64,
    attempt: &AttemptRecord,
    verdict: DeliveryVerdict,
) -> rusqlite::Result<()> {
    let delivery = column::count(delivery);
    let (status, due_at) = match verdict {
        DeliveryVerdict::Delivered => (DeliveryStatus::Delivered, attempt.at),
        DeliveryVerdict::Again(at) => (DeliveryStatus::Pending, at),
        DeliveryVerdict::GivenUp => (DeliveryStatus::Failed, attempt.at),
    };
    let changed = connection
        .prepare_cached(
            "UPDATE deliveries SET status = ?2, due_at = ?3, attempts = attempts + 1,
             tries = tries + 1 WHERE seq = ?1",
        )?
        .execute(params![delivery, status.as_str(), column::micros(due_at)])?;
    if changed == 0 {
        return Ok(());
    }
    let number: u32 = connection
        .prepare_cached("SELECT attempts FROM deliveries WHERE seq = ?1")?
        .query_row([delivery], |row| row.get(0))?;
    insert_attempt(connection, delivery, number, attempt)?;
    connection
        .prepare_cached(
            "DELETE FROM delivery_attempts WHERE delivery = ?1 AND number <= ?2 AND ?2 > 0",
        )?
        .execute(params![delivery, number.saturating_sub(MOST_ATTEMPTS)])
        .map(drop)
}

fn insert_attempt(
    connection: &Connection,
    delivery: i64,
    number: u32,
    attempt: &AttemptRecord,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO delivery_attempts (delivery, number, at, duration, answer, failure)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            delivery,
            number,
            column::micros(attempt.at),
            column::duration_micros(attempt.duration),
            attempt.answer,
            attempt.failure.map(AttemptFailure::as_str),
        ])
        .map(drop)
}

fn redeliver(
    connection: &Connection,
    webhook: WebhookId,
    at: Timestamp,
) -> rusqlite::Result<usize> {
    let webhook = webhook.to_string();
    let pending = query::pending(connection, &webhook, MOST_PENDING)?;
    connection
        .prepare_cached(
            "UPDATE deliveries SET status = 'pending', due_at = ?2, tries = 0 WHERE seq IN (
                 SELECT seq FROM deliveries WHERE webhook = ?1 AND status = 'failed'
                 ORDER BY seq LIMIT ?3)",
        )?
        .execute(params![
            webhook,
            column::micros(at),
            MOST_PENDING.saturating_sub(pending)
        ])
}
