//! What the node writes down, so that a killed server loses nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use skep_types::{Ending, ExecutionId, SandboxId};

/// Where the node writes what must outlive the server.
///
/// Calls return at once and are carried out in the order of the calls; what a reader finds
/// after the server was killed is a prefix of them. The record is opaque text.
pub trait Journal: fmt::Debug + Send + Sync {
    /// The sandbox is being launched: from now on something of it may exist on the host.
    fn starting(&self, id: &SandboxId, execution: ExecutionId);

    /// The sandbox runs.
    fn started(
        &self,
        id: &SandboxId,
        execution: ExecutionId,
        record: String,
        started_at: Timestamp,
        ends_at: Timestamp,
    );

    /// The sandbox has another deadline.
    fn deadline(&self, id: &SandboxId, execution: ExecutionId, record: String, ends_at: Timestamp);

    /// The sandbox is gone.
    fn ended(&self, id: &SandboxId, ending: &Ending);
}

/// A journal in memory, for tests. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryJournal {
    /// The last thing written about each sandbox.
    entries: Arc<Mutex<BTreeMap<SandboxId, Entry>>>,
}

#[derive(Debug, Clone, Default)]
struct Entry {
    record: Option<(String, Timestamp, Timestamp)>,
    ending: Option<Ending>,
}

impl MemoryJournal {
    /// How the sandbox ended, if the journal knows.
    pub fn ending(&self, id: &SandboxId) -> Option<Ending> {
        self.lock().get(id).and_then(|entry| entry.ending.clone())
    }

    /// The records of the sandboxes that have started and not ended, as a restarted server
    /// would read them.
    pub fn living(&self) -> Vec<crate::Living> {
        let living = |(id, entry): (&SandboxId, &Entry)| {
            let (record, started_at, ends_at) = entry.record.clone()?;
            entry.ending.is_none().then(|| crate::Living {
                id: id.clone(),
                record: Some(record),
                started_at,
                ends_at,
            })
        };
        self.lock().iter().filter_map(living).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<SandboxId, Entry>> {
        self.entries.lock().expect("no holder panics")
    }
}

impl Journal for MemoryJournal {
    fn starting(&self, id: &SandboxId, _execution: ExecutionId) {
        self.lock().entry(id.clone()).or_default();
    }

    fn started(
        &self,
        id: &SandboxId,
        _execution: ExecutionId,
        record: String,
        started_at: Timestamp,
        ends_at: Timestamp,
    ) {
        self.lock().entry(id.clone()).or_default().record = Some((record, started_at, ends_at));
    }

    fn deadline(
        &self,
        id: &SandboxId,
        _execution: ExecutionId,
        record: String,
        ends_at: Timestamp,
    ) {
        if let Some((old, _, old_end)) = self
            .lock()
            .get_mut(id)
            .and_then(|entry| entry.record.as_mut())
        {
            *old = record;
            *old_end = ends_at;
        }
    }

    fn ended(&self, id: &SandboxId, ending: &Ending) {
        self.lock().entry(id.clone()).or_default().ending = Some(ending.clone());
    }
}
