//! Requests whose callers have left.
//!
//! The proxy names each request and says when its caller has left, on a connection of its own.
//! That may be after the request's own connection has broken, so a name is kept for as long as
//! the execution runs; and it may overtake the request, so names that nobody has are kept for
//! a little while too.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Cancellations that came before their request. Older ones are forgotten.
const MAX_EARLY: usize = 64;

/// The executions that can be cancelled.
#[derive(Debug, Default)]
pub(crate) struct Cancellations {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: HashMap<String, Weak<CancellationToken>>,
    early: VecDeque<String>,
    /// Number of names from which on dead ones are looked for.
    sweep_at: usize,
}

impl Cancellations {
    /// Makes a token that [`Cancellations::cancel`] finds for as long as somebody holds it.
    pub(crate) fn register(&self, name: Option<&str>) -> Arc<CancellationToken> {
        let token = Arc::new(CancellationToken::new());
        let Some(name) = name else {
            return token;
        };
        let mut state = self.state.lock();
        if let Some(place) = state.early.iter().position(|early| early == name) {
            state.early.remove(place);
            token.cancel();
            return token;
        }
        // Only when their number has doubled, so that the cost for each request is constant.
        if state.running.len() >= state.sweep_at {
            state.running.retain(|_, token| token.strong_count() > 0);
            state.sweep_at = 2 * state.running.len() + 16;
        }
        state
            .running
            .insert(name.to_owned(), Arc::downgrade(&token));
        token
    }

    /// The caller of this request has left. Says whether it was running.
    pub(crate) fn cancel(&self, name: &str) -> bool {
        let mut state = self.state.lock();
        match state.running.remove(name) {
            Some(token) => match token.upgrade() {
                Some(token) => {
                    token.cancel();
                    true
                }
                None => false,
            },
            None => {
                if state.early.len() >= MAX_EARLY {
                    state.early.pop_front();
                }
                state.early.push_back(name.to_owned());
                false
            }
        }
    }
}

/// Returns true if this is a name as the proxy makes them.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_execution_is_cancelled_by_its_name() {
        let cancellations = Cancellations::default();
        let token = cancellations.register(Some("a"));
        let other = cancellations.register(Some("b"));
        assert!(cancellations.cancel("a"));
        assert!(token.is_cancelled() && !other.is_cancelled());
    }

    #[test]
    fn a_cancellation_that_overtakes_its_request_still_cancels_it() {
        let cancellations = Cancellations::default();
        assert!(!cancellations.cancel("a"));
        assert!(cancellations.register(Some("a")).is_cancelled());
        assert!(!cancellations.register(Some("a")).is_cancelled());
    }

    #[test]
    fn names_of_executions_that_have_ended_do_not_pile_up() {
        let cancellations = Cancellations::default();
        for number in 0..10_000 {
            drop(cancellations.register(Some(&number.to_string())));
            cancellations.cancel(&format!("early {number}"));
        }
        let state = cancellations.state.lock();
        assert!(state.running.len() < 64 && state.early.len() <= MAX_EARLY);
    }
}
