//! Parts of sandboxes that are made before their sandbox is asked for.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use skep_telemetry::Chain;
use skep_types::PoolPolicy;

/// Number of kinds of a part that are kept ready: those that were asked for last.
const KINDS: usize = 2;

/// Prefix of a part's name until it has an owner. No sandbox is called like this.
pub(crate) const PREFIX: &str = "ready-";

/// Parts that are ready, by kind.
#[derive(Debug)]
pub(crate) struct Pool<K, T> {
    /// Held only for a look-up or a change.
    policy: Mutex<PoolPolicy<K, T>>,
    number: AtomicU64,
}

impl<K: Clone + PartialEq, T> Pool<K, T> {
    /// A pool that keeps up to `high` parts of a kind.
    pub(crate) fn new(high: usize) -> Self {
        Self {
            policy: Mutex::new(PoolPolicy::new(high, KINDS)),
            number: AtomicU64::new(0),
        }
    }

    /// Takes a part of this kind if one is ready, and the parts that had to make place for
    /// this kind: the caller removes those.
    pub(crate) fn take(&self, kind: &K) -> (Option<T>, Vec<T>) {
        self.policy.lock().take(kind, Instant::now())
    }

    /// Returns true if another part should be made ahead.
    pub(crate) fn wants_more(&self) -> bool {
        self.policy.lock().next_to_fill().is_some()
    }

    /// Makes one part, if one is wanted, by its kind and its name until it has an owner. Gives
    /// back what nobody wants any more. Blocks.
    pub(crate) fn make_one<E: std::error::Error + 'static>(
        &self,
        make: impl FnOnce(&K, &str) -> Result<T, E>,
    ) -> Option<T> {
        let kind = self.policy.lock().next_to_fill().cloned()?;
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        // Without the lock, which launches need meanwhile. If the part is not wanted any more when
        // it is ready, `add` gives it back.
        match make(&kind, &format!("{PREFIX}{number}")) {
            Ok(part) => self.policy.lock().add(&kind, part).err(),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "cannot keep a part of sandboxes ready");
                self.policy.lock().stop_filling(&kind);
                None
            }
        }
    }

    /// Takes everything that is ready.
    pub(crate) fn clear(&self) -> Vec<T> {
        self.policy.lock().clear()
    }
}

/// Counts the launches under way. Parts are made when there is none.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    launches: AtomicUsize,
    /// Held by whoever makes parts, which one at a time does.
    making: Mutex<()>,
}

impl UnderWay {
    /// Says that a sandbox is being launched, until the answer is dropped.
    pub(crate) fn launching(&self) -> Launching<'_> {
        self.launches.fetch_add(1, Ordering::SeqCst);
        Launching(self)
    }

    /// Calls `make_one` while it has something to do and nobody waits for a sandbox. Blocks.
    pub(crate) fn in_quiet_moments(&self, mut make_one: impl FnMut() -> bool) {
        let Some(_one_at_a_time) = self.making.try_lock() else {
            return;
        };
        while self.launches.load(Ordering::SeqCst) == 0 && make_one() {}
    }
}

/// Guard that counts a sandbox as being launched while it lives.
#[derive(Debug)]
pub struct Launching<'a>(&'a UnderWay);

impl Drop for Launching<'_> {
    fn drop(&mut self) {
        self.0.launches.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_made_while_nobody_waits_for_a_sandbox() {
        let pool = Pool::new(3);
        let under_way = UnderWay::default();
        let make = || {
            let unwanted = pool
                .make_one(|kind: &u32, name| Ok::<_, std::io::Error>(format!("{name} of {kind}")));
            assert_eq!(unwanted, None);
            pool.wants_more()
        };
        assert_eq!(pool.take(&7), (None, vec![]));
        let launching = under_way.launching();
        under_way.in_quiet_moments(make);
        assert_eq!(pool.take(&7).0, None);
        drop(launching);
        under_way.in_quiet_moments(make);
        assert_eq!(
            pool.clear(),
            ["ready-0 of 7", "ready-1 of 7", "ready-2 of 7"]
        );
    }

    #[test]
    fn what_cannot_be_made_is_not_tried_again_until_it_is_asked_for() {
        let pool: Pool<u32, ()> = Pool::new(3);
        pool.take(&7);
        pool.make_one(|_, _| Err(std::io::Error::other("no room")));
        assert!(!pool.wants_more());
        pool.take(&7);
        assert!(pool.wants_more());
    }
}
