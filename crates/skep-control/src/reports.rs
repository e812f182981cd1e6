//! Reports of nodes about their sandboxes, which control writes to the database.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_store::{Order, Receipt, SandboxRecord, Store, StoreError};
use skep_telemetry::Chain;
use skep_types::{Ending, LivingSandbox, NodeId, SandboxId, SandboxRun};

/// Resolves when a report would survive the death of the server.
pub type Reported = BoxFuture<'static, ()>;

/// The sandboxes of a node that should live, as the database had them when its server started.
#[derive(Debug, Default)]
pub struct Living {
    records: Vec<SandboxRecord>,
}

impl Living {
    /// The same as the node needs it, to adopt them.
    pub fn to_adopt(&self) -> Vec<LivingSandbox> {
        let living = self.records.iter().map(|record| LivingSandbox {
            egress: record.order.egress(),
            id: record.order.id.clone(),
            resources: record.order.resources,
            run: record.run.clone(),
        });
        living.collect()
    }

    /// The orders that they were made by.
    pub(crate) fn into_orders(self) -> impl Iterator<Item = Order> {
        self.records.into_iter().map(|record| record.order)
    }
}

/// The reports of one node. The database is control's: a node says what has happened and reads
/// what it has to adopt, and knows nothing of how it is kept.
///
/// Reports are written in the order of the calls. One that cannot be written is logged here: the
/// sandbox goes on.
#[derive(Debug, Clone)]
pub struct Reports {
    store: Store,
    node: NodeId,
}

impl Reports {
    /// The reports of `node`.
    pub fn new(store: Store, node: NodeId) -> Self {
        Self { store, node }
    }

    /// The sandboxes of this node that have not ended as far as the database knows. Read once, when
    /// a server starts: the node adopts them, and [`Control::open`] takes note of those it has.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// [`Control::open`]: crate::Control::open
    pub async fn living(&self) -> Result<Living, StoreError> {
        let records = self.store.sandboxes().living(self.node.clone()).await?;
        Ok(Living { records })
    }

    /// A sandbox runs, for the first time or again.
    pub fn started(&self, id: SandboxId, run: SandboxRun) -> Reported {
        self.reported(self.store.sandboxes().started(id, run))
    }

    /// The record of a sandbox's driver has changed, its deadline, or whether it is paused.
    pub fn changed(&self, id: SandboxId, run: SandboxRun) -> Reported {
        self.reported(self.store.sandboxes().changed(id, run))
    }

    /// A sandbox is gone.
    pub fn ended(&self, id: SandboxId, ending: Ending) -> Reported {
        self.reported(self.store.sandboxes().ended(id, ending))
    }

    /// Resolves when all reports so far would survive even a loss of power; to false if the database
    /// did not get them to the disk.
    pub fn synced(&self) -> BoxFuture<'static, bool> {
        let syncing = self.store.sync();
        let syncing = async move {
            let synced = syncing.recorded().await;
            synced
                .inspect_err(|error| {
                    tracing::error!(error = %Chain(error), "the database is not on the disk");
                })
                .is_ok()
        };
        syncing.boxed()
    }
}

impl Reports {
    fn reported<T: Send + 'static>(&self, receipt: Receipt<T>) -> Reported {
        let store = self.store.clone();
        let writing = async move {
            match receipt.recorded().await {
                Ok(_) => store.events().announce(),
                Err(error) => {
                    tracing::error!(error = %Chain(&error), "the database missed a change of a sandbox");
                }
            }
        };
        writing.boxed()
    }
}
