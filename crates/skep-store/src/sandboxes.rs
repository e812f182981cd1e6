//! Sandboxes: what was ordered, where it runs, how it ended.

mod identity;
mod mounts;
mod prune;
mod query;
mod record;
mod write;

pub(crate) use query::metadata;

use jiff::Timestamp;
use skep_types::{Ending, NodeId, SandboxId, SandboxRun, TeamId};

pub use record::{Order, Position, SandboxFilter, SandboxRecord, Span, Spawns};

use crate::{Idempotency, IdempotentRequest, Receipt, Store, StoreError, idempotency};

/// The sandboxes in the database.
///
/// Control inserts a sandbox that it orders; from then on its node owns the row: it says when it has
/// started, when it will end and how it ended. Writes to one sandbox happen in the order of the
/// calls.
///
/// What has happened to a sandbox is not lost when the disk is full: it is kept in memory and
/// written when there is room. A new one is refused then.
#[derive(Debug)]
pub struct Sandboxes<'a>(pub(crate) &'a Store);

impl Sandboxes<'_> {
    /// Records a sandbox that is about to be started, and under which name the request for it
    /// is remembered.
    ///
    /// The receipt fails with [`StoreError::Taken`] if there ever was one of that id, or if the
    /// idempotency key is in use; nothing is recorded then.
    pub fn insert(&self, order: Order, idempotency: Option<Idempotency>) -> Receipt {
        self.0.write("record a sandbox", move |connection| {
            write::insert(connection, &order, idempotency.as_ref())
        })
    }

    /// Records that a sandbox runs, for the first time or again.
    ///
    /// The receipt fails with [`StoreError::Missing`] if it is not there or has ended.
    pub fn started(&self, id: SandboxId, run: SandboxRun) -> Receipt {
        self.0
            .write_retained("record the start of a sandbox", move |connection| {
                write::started(connection, &id, &run)
            })
    }

    /// Records the driver's record, the deadline and the pause of a run as they are now.
    ///
    /// The receipt fails with [`StoreError::Missing`] if that run is over.
    pub fn changed(&self, id: SandboxId, run: SandboxRun) -> Receipt {
        self.0
            .write_retained("record a change of a run", move |connection| {
                write::changed(connection, &id, &run)
            })
    }

    /// Records how a sandbox ended. The first ending is kept; says whether it was this one.
    ///
    /// The receipt fails with [`StoreError::Missing`] if there never was such a sandbox.
    pub fn ended(&self, id: SandboxId, ending: Ending) -> Receipt<bool> {
        self.0
            .write_retained("record the end of a sandbox", move |connection| {
                write::ended(connection, &id, &ending)
            })
    }

    /// Forgets at most `batch` ended sandboxes: those that ended before `before`, then, if more
    /// than `keep` are left, the oldest of the teams that have the most. Returns which; none means
    /// that there are no more.
    pub fn prune(&self, before: Timestamp, keep: u32, batch: u32) -> Receipt<Vec<SandboxId>> {
        let operation = "forget old sandboxes";
        self.0.write(operation, move |connection| {
            prune::prune(connection, before, keep, batch)
                .map_err(|source| StoreError::of(operation, source))
        })
    }

    /// The sandboxes of a node that have not ended as far as the database knows, the oldest first:
    /// what a new server of that node has to adopt or to bury. Those of other nodes are theirs. Those without a [`SandboxRecord::run`] never started.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn living(&self, node: NodeId) -> Result<Vec<SandboxRecord>, StoreError> {
        let operation = "list the living sandboxes";
        self.0
            .read(operation, move |connection| {
                query::living(connection, &node).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The ended sandboxes and their teams, the oldest first.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn ended_by_age(&self) -> Result<Vec<(SandboxId, TeamId)>, StoreError> {
        let operation = "list the ended sandboxes";
        self.0
            .read(operation, move |connection| {
                query::ended_by_age(connection).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// One sandbox, living or ended.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn find(&self, id: SandboxId) -> Result<Option<SandboxRecord>, StoreError> {
        let operation = "find a sandbox";
        self.0
            .read(operation, move |connection| {
                query::find(connection, &id).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The sandboxes that pass the filter, the newest first.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn list(&self, filter: SandboxFilter) -> Result<Vec<SandboxRecord>, StoreError> {
        let operation = "list the sandboxes";
        self.0
            .read(operation, move |connection| {
                query::list(connection, &filter).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// Counts a team's sandboxes by template.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn spawns(&self, team: TeamId) -> Result<Vec<Spawns>, StoreError> {
        let operation = "count the sandboxes of each template";
        self.0
            .read(operation, move |connection| {
                query::spawns(connection, &team).map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// Lists the times during which sandboxes of a team ran, as far as they touch the time from
    /// `from` to `until`.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn spans(
        &self,
        team: TeamId,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Span>, StoreError> {
        let operation = "list the runs of a team";
        self.0
            .read(operation, move |connection| {
                query::spans(connection, &team, from, until)
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// The request that a team remembered under an idempotency key.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`].
    pub async fn remembered(
        &self,
        team: TeamId,
        key: String,
    ) -> Result<Option<IdempotentRequest>, StoreError> {
        let operation = "find an idempotency key";
        self.0
            .read(operation, move |connection| {
                idempotency::find(connection, &team, &key)
                    .map_err(|source| StoreError::of(operation, source))
            })
            .await
    }

    /// Forgets an idempotency key, so that the request may be tried afresh.
    pub fn forget(&self, team: TeamId, key: String) -> Receipt {
        let operation = "forget an idempotency key";
        self.0.write_retained(operation, move |connection| {
            idempotency::forget(connection, &team, &key)
                .map_err(|source| StoreError::of(operation, source))
        })
    }
}
