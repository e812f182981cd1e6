//! The node's journal, so that a killed server loses nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture};
use parking_lot::Mutex;
use skep_types::{Egress, Ending, LivingSandbox, Resources, SandboxId, SandboxRun};

/// Resolves when a note would survive the death of the server.
pub type Noted = BoxFuture<'static, ()>;

/// Storage of the node for what must outlive the server.
///
/// Notes are taken in the order of the calls; each call returns what to wait for until its
/// note would survive the death of the server. A note that cannot be taken is the journal's to
/// report: the sandbox goes on. The record is opaque text.
pub trait Journal: fmt::Debug + Send + Sync {
    /// The sandbox runs, for the first time or again.
    fn started(&self, id: &SandboxId, run: SandboxRun) -> Noted;

    /// The driver's record of a sandbox has changed, its deadline, or whether it is paused.
    fn changed(&self, id: &SandboxId, run: SandboxRun) -> Noted;

    /// The sandbox is gone.
    fn ended(&self, id: &SandboxId, ending: &Ending) -> Noted;

    /// Resolves when all notes so far would survive even a loss of power; to false if that is not to
    /// be had.
    fn synced(&self) -> BoxFuture<'static, bool>;
}

/// A journal in memory, for tests. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryJournal {
    /// The last thing written about each sandbox.
    entries: Arc<Mutex<BTreeMap<SandboxId, Entry>>>,
    is_broken: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Default)]
struct Entry {
    run: Option<SandboxRun>,
    ending: Option<Ending>,
}

impl MemoryJournal {
    /// Says from now on whether what it notes would survive only the server, as on a disk that is broken.
    pub fn set_broken(&self, is_broken: bool) {
        self.is_broken.store(is_broken, Ordering::SeqCst);
    }

    /// The end of the sandbox, if the journal knows it.
    pub fn ending(&self, id: &SandboxId) -> Option<Ending> {
        self.entries
            .lock()
            .get(id)
            .and_then(|entry| entry.ending.clone())
    }

    /// The records of the sandboxes that have started and not ended, as a restarted server
    /// would read them.
    pub fn living(&self) -> Vec<LivingSandbox> {
        let living = |(id, entry): (&SandboxId, &Entry)| {
            let run = entry.run.clone()?;
            entry.ending.is_none().then(|| LivingSandbox {
                id: id.clone(),
                resources: Resources::default(),
                egress: Egress::default(),
                run: Some(run),
            })
        };
        self.entries.lock().iter().filter_map(living).collect()
    }
}

impl Journal for MemoryJournal {
    fn started(&self, id: &SandboxId, run: SandboxRun) -> Noted {
        self.entries.lock().entry(id.clone()).or_default().run = Some(run);
        future::ready(()).boxed()
    }

    fn changed(&self, id: &SandboxId, run: SandboxRun) -> Noted {
        if let Some(entry) = self.entries.lock().get_mut(id) {
            entry.run = Some(run);
        }
        future::ready(()).boxed()
    }

    fn ended(&self, id: &SandboxId, ending: &Ending) -> Noted {
        self.entries.lock().entry(id.clone()).or_default().ending = Some(ending.clone());
        future::ready(()).boxed()
    }

    fn synced(&self) -> BoxFuture<'static, bool> {
        let is_broken = self.is_broken.load(Ordering::SeqCst);
        future::ready(!is_broken).boxed()
    }
}
