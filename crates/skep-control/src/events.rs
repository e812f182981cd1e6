//! Events of a team's sandboxes, those of the past and those to come.

use jiff::{SignedDuration, Timestamp};
use skep_store::{EventFilter, EventRecord, NetworkChange, Receipt, Store, StoreError};
use skep_telemetry::Chain;
use skep_types::{AddressRange, BuildId, Egress, EventKind, SandboxId, TeamId};
use tokio::sync::watch;

use crate::control::now;
use crate::template_list::build_of;
use crate::{Caller, Control};

/// Time for which events are kept.
const RETENTION: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Limit on the events of all teams that are kept, the newest.
const MOST_EVENTS: u32 = 1_000_000;
/// Number of events deleted in one transaction, each with its deliveries to webhooks.
const BATCH: u32 = 100;
/// Number of events that a stream reads at once.
const PAGE: u32 = 100;

/// A question about events.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Only those of this sandbox.
    pub sandbox: Option<SandboxId>,
    /// Only these; none means all.
    pub kinds: Vec<EventKind>,
    /// The oldest first if true.
    pub oldest_first: bool,
    /// Number of events to leave out.
    pub offset: u32,
    /// Limit on their number.
    pub limit: u32,
}

/// Events of a team as they happen. It reads the database, so one that is slow misses nothing as long
/// as events are kept, and nothing waits in memory for it.
#[derive(Debug)]
pub struct EventStream {
    store: Store,
    filter: EventFilter,
    news: watch::Receiver<()>,
}

impl EventStream {
    /// The next events, at least one. Waits until there are any.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has taken nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub async fn next(&mut self) -> Result<Vec<EventRecord>, StoreError> {
        loop {
            self.news.mark_unchanged();
            let found = self.store.events().list(self.filter.clone()).await?;
            if let Some(last) = found.last() {
                self.filter.after = Some(last.seq);
                return Ok(found);
            }
            // The sender is the store's, which this holds.
            self.news.changed().await.ok();
        }
    }
}

impl Control {
    /// Events of the caller's sandboxes, those that have ended included.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub async fn events(
        &self,
        caller: &Caller,
        query: EventQuery,
    ) -> Result<Vec<EventRecord>, StoreError> {
        let filter = filter(caller.team.id.clone(), query);
        self.inner.store.events().list(filter).await
    }

    /// Events of the caller's sandboxes after that place, and from now on if there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub async fn follow_events(
        &self,
        caller: &Caller,
        query: EventQuery,
        after: Option<u64>,
    ) -> Result<EventStream, StoreError> {
        let events = self.inner.store.events();
        let news = events.news();
        let after = match after {
            Some(after) => after,
            None => events.last().await?,
        };
        let filter = EventFilter {
            after: Some(after),
            oldest_first: true,
            offset: 0,
            limit: PAGE,
            ..filter(caller.team.id.clone(), query)
        };
        Ok(EventStream {
            store: self.inner.store.clone(),
            filter,
            news,
        })
    }

    /// Records behind the back of the caller that a checkpoint was taken.
    pub(crate) fn note_checkpoint(&self, id: SandboxId) {
        let noting = self.inner.store.events().checkpointed(id, now());
        self.note(noting);
    }

    /// Records behind the back of the caller that a sandbox has other rules for what leaves it.
    pub(crate) fn note_network(&self, id: &SandboxId, egress: &Egress) {
        let rules = egress.rules();
        let change = NetworkChange {
            allowed: rules.allowed,
            denied: match rules.internet {
                // Which is in place of what was denied.
                Some(false) => vec![AddressRange::everything().to_string()],
                Some(true) | None => rules.denied,
            },
        };
        let events = self.inner.store.events();
        self.note(events.network_changed(id.clone(), change, now()));
    }

    fn note(&self, noting: Receipt) {
        let store = self.inner.store.clone();
        self.inner.tasks.spawn("note an event", async move {
            match noting.recorded().await {
                Ok(()) => store.events().announce(),
                Err(error) => tracing::warn!(error = %Chain(&error), "an event is lost"),
            }
        });
    }

    /// Forgets events that are too old or too many; returns how many.
    pub(crate) async fn forget_events(&self) -> Result<usize, StoreError> {
        let before = Timestamp::now()
            .checked_sub(RETENTION)
            .unwrap_or(Timestamp::MIN);
        let mut forgotten = 0;
        loop {
            let events = self.inner.store.events();
            let count = events.prune(before, MOST_EVENTS, BATCH).recorded().await?;
            if count == 0 {
                return Ok(forgotten);
            }
            forgotten += count;
        }
    }
}

/// Id of the build that the sandbox of an event was made of, as it is listed for its template.
pub fn build_of_event(record: &EventRecord) -> String {
    let version = record.base.as_deref().and_then(|base| base.split_once(':'));
    match version {
        Some((template, build))
            if template == record.template.as_str() && build.parse::<BuildId>().is_ok() =>
        {
            build.to_owned()
        }
        Some(_) | None => build_of(record.template.as_str()),
    }
}

fn filter(team: TeamId, query: EventQuery) -> EventFilter {
    EventFilter {
        team,
        sandbox: query.sandbox,
        kinds: query.kinds,
        after: None,
        oldest_first: query.oldest_first,
        offset: query.offset,
        limit: query.limit,
    }
}
