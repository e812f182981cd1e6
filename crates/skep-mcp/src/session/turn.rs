//! Turns: sandboxes with names are looked for and made by one caller at a time, so that two calls
//! do not make two of one name.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex as SyncMutex;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The turns of all teams. Whoever waits for a name, waits for callers of the own team alone: a
/// turn takes as long as a sandbox needs to start.
pub(super) static TURNS: Turns = Turns(SyncMutex::new(BTreeMap::new()));

type Key = (Arc<str>, String);

/// Turns that somebody has or waits for.
#[derive(Debug)]
pub(super) struct Turns(SyncMutex<BTreeMap<Key, Arc<Mutex<()>>>>);

/// The turn of one caller, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    // Dropped before the place, which it keeps.
    _held: OwnedMutexGuard<()>,
    _place: Place<'a>,
}

/// Somebody who has a turn or waits for it.
#[derive(Debug)]
struct Place<'a> {
    turns: &'a Turns,
    key: Key,
}

impl Turns {
    /// Waits for the turn for a name of a team.
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves nothing.
    pub(super) async fn take(&self, team: &Arc<str>, name: &str) -> Turn<'_> {
        let key = (Arc::clone(team), name.to_owned());
        let place = Place {
            turns: self,
            key: key.clone(),
        };
        let mutex = Arc::clone(self.0.lock().entry(key).or_default());
        Turn {
            _held: mutex.lock_owned().await,
            _place: place,
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut turns = self.turns.0.lock();
        let turn = turns.get(&self.key);
        if turn.is_some_and(|turn| Arc::strong_count(turn) == 1) {
            turns.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Output of a future, if it has to wait for nobody.
    fn at_once<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut context = Context::from_waker(Waker::noop());
        match future.as_mut().poll(&mut context) {
            Poll::Ready(found) => Some(found),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_name_is_held_by_one_caller_of_a_team_and_by_no_other_team() {
        let turns = Turns(SyncMutex::default());
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let take = |team, name: &str| at_once(pin!(turns.take(team, name)));
        let held = take(&a, "work");
        assert!(held.is_some());
        // The control: the same name of the same team waits, until it is given back.
        let mut waiting = pin!(turns.take(&a, "work"));
        assert!(at_once(waiting.as_mut()).is_none());
        assert!(take(&a, "work").is_none());
        assert!(take(&b, "work").is_some());
        // Whatever names a team holds, and however many.
        let others: Vec<_> = (0..1000)
            .map(|number| take(&a, &format!("n{number}")))
            .collect();
        assert!(others.iter().all(Option::is_some));
        assert!(take(&b, "other").is_some());
        drop((held, others));
        let held = at_once(waiting.as_mut());
        assert!(held.is_some() && turns.0.lock().len() == 1);
        drop(held);
        assert!(turns.0.lock().is_empty(), "nothing is kept");
    }
}
