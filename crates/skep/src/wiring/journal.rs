//! The node's journal, in the database.

use skep_node::{Journal, Living, Noted};
use skep_store::{Receipt, SandboxRecord, Store};
use skep_telemetry::Chain;
use skep_types::{Ending, SandboxId, SandboxRun};

/// Writes the node's notes into the database.
#[derive(Debug, Clone)]
pub(crate) struct StoreJournal(pub(crate) Store);

impl StoreJournal {
    /// The sandbox of a row as the node wants it for adoption.
    pub(crate) fn living(record: SandboxRecord) -> Living {
        Living {
            id: record.order.id,
            resources: record.order.resources,
            run: record.run,
        }
    }
}

impl Journal for StoreJournal {
    fn started(&self, id: &SandboxId, run: SandboxRun) -> Noted {
        noted(self.0.sandboxes().started(id.clone(), run))
    }

    fn changed(&self, id: &SandboxId, run: SandboxRun) -> Noted {
        noted(self.0.sandboxes().changed(id.clone(), run))
    }

    fn ended(&self, id: &SandboxId, ending: &Ending) -> Noted {
        noted(self.0.sandboxes().ended(id.clone(), ending.clone()))
    }
}

fn noted<T: Send + 'static>(receipt: Receipt<T>) -> Noted {
    Box::pin(async move {
        if let Err(error) = receipt.recorded().await {
            tracing::error!(error = %Chain(&error), "the database missed a change");
        }
    })
}
