//! The sandboxes that run.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use skep_types::SandboxId;

use crate::sandbox::NativeSandbox;

/// The sandboxes that were launched or adopted by this server and not destroyed yet.
#[derive(Debug, Default)]
pub(crate) struct RunningSandboxes {
    sandboxes: Mutex<HashMap<SandboxId, Arc<NativeSandbox>>>,
}

impl RunningSandboxes {
    /// Makes a sandbox findable.
    pub(crate) fn add(&self, id: &SandboxId, sandbox: &Arc<NativeSandbox>) {
        let mut sandboxes = self.sandboxes.lock();
        sandboxes.insert(id.clone(), Arc::clone(sandbox));
    }

    pub(crate) fn remove(&self, id: &SandboxId) {
        let removed = self.sandboxes.lock().remove(id);
        // Without the lock: a sandbox that goes with it takes the locks of its lease.
        drop(removed);
    }

    pub(crate) fn clear(&self) {
        let removed = std::mem::take(&mut *self.sandboxes.lock());
        drop(removed);
    }

    pub(crate) fn get(&self, id: &SandboxId) -> Option<Arc<NativeSandbox>> {
        self.sandboxes.lock().get(id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<(SandboxId, Arc<NativeSandbox>)> {
        let sandboxes = self.sandboxes.lock();
        let all = sandboxes.iter();
        all.map(|(id, sandbox)| (id.clone(), Arc::clone(sandbox)))
            .collect()
    }
}
