//! Deliveries of events to webhooks: what is due, for whoever sends, and what became of it, for the
//! team.

use jiff::Timestamp;
use skep_store::{
    AttemptRecord, DeliveryCounts, DeliveryFilter, DeliveryRecord, DeliveryVerdict, DueDelivery,
    EventRecord, StoreError,
};
use skep_telemetry::Chain;
use skep_types::{DeliveryId, DeliveryStatus, EventKind, TeamId, WebhookId};
use tokio::sync::watch;

use crate::control::now;
use crate::webhooks::context;
use crate::{Caller, Control, SecretError, SecretValue, WebhookError};

/// An event to be sent to a webhook.
#[derive(Debug)]
pub struct OutgoingDelivery {
    /// Place among all deliveries.
    pub seq: u64,
    /// Id of the delivery, the same at every attempt.
    pub id: DeliveryId,
    /// The webhook.
    pub webhook: WebhookId,
    /// Team that owns it.
    pub team: TeamId,
    /// Address to send it to.
    pub url: String,
    /// Secret that signs it; none if it cannot be read, which is in the log.
    pub secret: Option<SecretValue>,
    /// Attempts before.
    pub tries: u32,
    /// The event.
    pub event: EventRecord,
}

/// A question about deliveries.
#[derive(Debug, Clone, Default)]
pub struct DeliveryQuery {
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
    /// The oldest first if true.
    pub oldest_first: bool,
    /// Limit on their number.
    pub limit: u32,
}

/// Some deliveries.
#[derive(Debug)]
pub struct DeliveryPage {
    /// The deliveries.
    pub deliveries: Vec<DeliveryRecord>,
    /// Place to go on after, if there are more.
    pub next: Option<u64>,
}

impl Control {
    /// Deliveries that are due, at most `each` of a webhook and `limit` of all. They stay due until
    /// their attempts are noted.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub async fn due_deliveries(
        &self,
        now: Timestamp,
        each: u32,
        limit: u32,
    ) -> Result<Vec<OutgoingDelivery>, StoreError> {
        let due = self.inner.store.deliveries().due(now, each, limit).await?;
        let mut deliveries = Vec::with_capacity(due.len());
        for delivery in due {
            deliveries.push(self.with_secret(delivery).await);
        }
        Ok(deliveries)
    }

    async fn with_secret(&self, due: DueDelivery) -> OutgoingDelivery {
        let context = context(&due.team, due.webhook);
        let opened = match self.inner.vault.open(&context, &due.sealed).await {
            Ok(opened) => opened.map_err(|source| SecretError::Sealed {
                id: due.webhook.to_string(),
                source,
            }),
            Err(error) => Err(error),
        };
        let secret = opened.inspect_err(|error| {
            tracing::error!(error = %Chain(error), "the secret of a webhook cannot be read");
        });
        OutgoingDelivery {
            seq: due.seq,
            id: due.id,
            webhook: due.webhook,
            team: due.team,
            url: due.url,
            secret: secret.ok(),
            tries: due.tries,
            event: due.event,
        }
    }

    /// The time after `now` at which the next delivery is due.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub async fn next_delivery(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        self.inner.store.deliveries().next_due(now).await
    }

    /// Fires when there may be something to deliver.
    pub fn delivery_news(&self) -> watch::Receiver<()> {
        self.inner.store.events().news()
    }

    /// Notes an attempt to deliver, and what it means.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; the delivery is sent once more then.
    pub async fn note_attempt(
        &self,
        delivery: u64,
        attempt: AttemptRecord,
        verdict: DeliveryVerdict,
    ) -> Result<(), StoreError> {
        let deliveries = self.inner.store.deliveries();
        let noting = deliveries.attempted(delivery, attempt, verdict);
        noting.recorded().await
    }

    /// Deliveries to a webhook of the caller's team.
    ///
    /// # Errors
    ///
    /// [`WebhookError::NotFound`] or [`WebhookError::Record`].
    pub async fn deliveries(
        &self,
        caller: &Caller,
        webhook: WebhookId,
        query: DeliveryQuery,
    ) -> Result<DeliveryPage, WebhookError> {
        let webhook = self.find_webhook(caller, webhook).await?.id;
        Ok(self.delivery_page(caller, Some(webhook), query).await?)
    }

    /// Deliveries to all webhooks of the caller's team that were given up.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub async fn dead_letters(
        &self,
        caller: &Caller,
        query: DeliveryQuery,
    ) -> Result<DeliveryPage, StoreError> {
        let query = DeliveryQuery {
            statuses: vec![DeliveryStatus::Failed],
            ..query
        };
        self.delivery_page(caller, None, query).await
    }

    /// Sends what was given up of a webhook of the caller's team again; returns how much that is.
    ///
    /// # Errors
    ///
    /// [`WebhookError::NotFound`] or [`WebhookError::Record`].
    pub async fn redeliver(
        &self,
        caller: &Caller,
        webhook: WebhookId,
    ) -> Result<usize, WebhookError> {
        let webhook = self.find_webhook(caller, webhook).await?.id;
        let redelivering = self.inner.store.deliveries().redeliver(webhook, now());
        let count = redelivering.recorded().await?;
        self.inner.store.events().announce();
        Ok(count)
    }

    /// Numbers of the deliveries to a webhook of the caller's team.
    ///
    /// # Errors
    ///
    /// [`WebhookError::NotFound`] or [`WebhookError::Record`].
    pub async fn delivery_counts(
        &self,
        caller: &Caller,
        webhook: WebhookId,
    ) -> Result<DeliveryCounts, WebhookError> {
        let webhook = self.find_webhook(caller, webhook).await?.id;
        Ok(self.inner.store.deliveries().counts(webhook).await?)
    }

    async fn delivery_page(
        &self,
        caller: &Caller,
        webhook: Option<WebhookId>,
        query: DeliveryQuery,
    ) -> Result<DeliveryPage, StoreError> {
        let filter = DeliveryFilter {
            team: caller.team.id.clone(),
            webhook,
            statuses: query.statuses,
            kinds: query.kinds,
            start: query.start,
            end: query.end,
            cursor: query.cursor,
            oldest_first: query.oldest_first,
            limit: query.limit.saturating_add(1),
        };
        let mut deliveries = self.inner.store.deliveries().list(filter).await?;
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let has_more = deliveries.len() > limit;
        deliveries.truncate(limit);
        let last = deliveries.last().filter(|_| has_more);
        let next = last.map(|delivery| delivery.seq);
        Ok(DeliveryPage { deliveries, next })
    }
}
