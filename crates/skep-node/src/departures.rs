//! Memory of sandboxes that have ended.
//!
//! Whoever used one a moment ago asks the proxy for it again, with the token that opened it. The
//! token proves that they may know why it ended; to everybody else it never existed.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use skep_types::{AccessToken, Departure, SandboxId};

/// Number of ends that are remembered; the oldest is forgotten first. The database knows all.
const MOST: usize = 10_000;

/// The last sandboxes that have ended.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<SandboxId, (AccessToken, Departure)>,
    /// In the order of their ends.
    order: VecDeque<SandboxId>,
}

impl Departures {
    /// Remembers the end of a sandbox that this token opened.
    pub(crate) fn remember(&self, id: &SandboxId, token: AccessToken, departure: Departure) {
        let mut known = self.known.lock();
        if known.by_id.insert(id.clone(), (token, departure)).is_none() {
            known.order.push_back(id.clone());
        }
        if known.order.len() > MOST
            && let Some(oldest) = known.order.pop_front()
        {
            known.by_id.remove(&oldest);
        }
    }

    /// The end of a sandbox whose token is accepted.
    pub(crate) fn find(
        &self,
        id: &SandboxId,
        accepts: impl Fn(&AccessToken) -> bool,
    ) -> Option<Departure> {
        let known = self.known.lock();
        let (token, departure) = known.by_id.get(id)?;
        accepts(token).then_some(*departure)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use skep_types::EndReason;

    use super::*;

    fn departure() -> Departure {
        Departure {
            reason: EndReason::Timeout,
            at: Timestamp::UNIX_EPOCH,
            memory_mib: 512,
        }
    }

    #[test]
    fn only_the_token_of_the_sandbox_learns_of_its_end() {
        let departures = Departures::default();
        let id = SandboxId::random();
        departures.remember(&id, AccessToken::from_record("secret"), departure());
        let asked = |id: &SandboxId, token: &str| departures.find(id, |known| known.matches(token));
        assert_eq!(asked(&id, "secret"), Some(departure()));
        assert_eq!(asked(&id, "other"), None);
        assert_eq!(asked(&SandboxId::random(), "secret"), None);
    }

    #[test]
    fn the_oldest_end_is_forgotten_first() {
        let departures = Departures::default();
        let token = || AccessToken::from_record("secret");
        let first = SandboxId::random();
        departures.remember(&first, token(), departure());
        for _ in 0..MOST {
            departures.remember(&SandboxId::random(), token(), departure());
        }
        assert_eq!(departures.find(&first, |_| true), None);
        assert_eq!(departures.known.lock().by_id.len(), MOST);
    }
}
