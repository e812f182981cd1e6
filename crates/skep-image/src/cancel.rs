//! Asking a build to stop.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A request to stop, shared between whoever may ask and the build that looks at it.
///
/// A cancelled build ends its child processes and leaves only finished layers behind, so the
/// next build of the same recipe goes on where this one stopped.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Set once cancellation was requested.
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Cancel {
    /// Asks for the end. Asking twice is the same as asking once.
    pub fn cancel(&self) {
        *self.state.asked.lock() = true;
        self.state.changed.notify_all();
    }

    /// Returns true once cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        *self.state.asked.lock()
    }

    /// Waits for the request, at most `timeout`, and says whether it has come.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let mut asked = self.state.asked.lock();
        let changed = &self.state.changed;
        changed.wait_while_for(&mut asked, |asked| !*asked, timeout);
        *asked
    }
}
