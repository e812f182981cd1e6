//! The node's journal: its reports to control.

use futures_util::future::BoxFuture;
use skep_control::Reports;
use skep_node::{Journal, Noted};
use skep_types::{Ending, SandboxId, SandboxRun};

/// Passes the node's notes on to control, which writes them to the database.
#[derive(Debug, Clone)]
pub(crate) struct ReportJournal(pub(crate) Reports);

impl Journal for ReportJournal {
    fn started(&self, id: &SandboxId, run: SandboxRun) -> Noted {
        self.0.started(id.clone(), run)
    }

    fn changed(&self, id: &SandboxId, run: SandboxRun) -> Noted {
        self.0.changed(id.clone(), run)
    }

    fn ended(&self, id: &SandboxId, ending: &Ending) -> Noted {
        self.0.ended(id.clone(), ending.clone())
    }

    fn synced(&self) -> BoxFuture<'static, bool> {
        self.0.synced()
    }
}
