//! Asking a build to stop.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

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
        let mut asked = self
            .state
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *asked = true;
        self.state.changed.notify_all();
    }

    /// Returns true once cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        *self
            .state
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the request, at most `patience`, and says whether it has come.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let asked = self
            .state
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *self
            .state
            .changed
            .wait_timeout_while(asked, patience, |asked| !*asked)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}
