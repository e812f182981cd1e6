//! The node's journal, in the record.

use jiff::Timestamp;
use skep_node::{Journal, Living, Noted};
use skep_store::{Receipt, SandboxRecord, Store};
use skep_telemetry::Chain;
use skep_types::{Ending, ExecutionId, SandboxId};

/// Writes the node's notes into the record.
#[derive(Debug, Clone)]
pub(crate) struct StoreJournal(pub(crate) Store);

impl StoreJournal {
    /// The sandbox of a record as the node wants it for adoption.
    pub(crate) fn living(record: SandboxRecord) -> Living {
        let created_at = record.order.created_at;
        let (text, started_at, ends_at) = match record.run {
            Some(run) => (Some(run.launch_record), run.started_at, run.ends_at),
            None => (None, created_at, created_at),
        };
        Living {
            id: record.order.id,
            resources: record.order.resources,
            record: text,
            started_at,
            ends_at,
        }
    }
}

impl Journal for StoreJournal {
    fn started(
        &self,
        id: &SandboxId,
        execution: ExecutionId,
        record: String,
        started_at: Timestamp,
        ends_at: Timestamp,
    ) -> Noted {
        let id = id.clone();
        noted(
            self.0
                .sandboxes()
                .started(id, execution, record, started_at, ends_at),
        )
    }

    fn changed(
        &self,
        id: &SandboxId,
        execution: ExecutionId,
        record: String,
        ends_at: Timestamp,
    ) -> Noted {
        noted(
            self.0
                .sandboxes()
                .deadline(id.clone(), execution, record, ends_at),
        )
    }

    fn ended(&self, id: &SandboxId, ending: &Ending) -> Noted {
        noted(self.0.sandboxes().ended(id.clone(), ending.clone()))
    }
}

fn noted<T: Send + 'static>(receipt: Receipt<T>) -> Noted {
    Box::pin(async move {
        if let Err(error) = receipt.recorded().await {
            tracing::error!(error = %Chain(&error), "the record missed a change");
        }
    })
}
