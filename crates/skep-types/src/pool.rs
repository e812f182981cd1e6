//! Refill policy of a pool: items that are kept ready, by kind. No clock, no task, no lock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A pool of items that are ready, by kind, and the rule by which it is filled again.
///
/// Each kind has a low and a high mark: below the low one it is filled up to the high one.
/// A kind is filled from the first time that it is asked for.
#[derive(Debug)]
pub struct PoolPolicy<K, T> {
    /// A kind with so many is full.
    high: usize,
    /// Number of kinds kept ready at once. The one that was not asked for the longest goes.
    kinds: usize,
    stocks: Vec<Stock<K, T>>,
}

#[derive(Debug)]
struct Stock<K, T> {
    kind: K,
    items: VecDeque<T>,
    /// True from the moment it has too few until it is full.
    is_filling: bool,
    asked: Instant,
}

impl<K: Clone + PartialEq, T> PoolPolicy<K, T> {
    /// A pool of `kinds` kinds, each with up to `high` items.
    pub fn new(high: usize, kinds: usize) -> Self {
        Self {
            high,
            kinds,
            stocks: Vec::new(),
        }
    }

    /// A stock with fewer than this is filled again. A quarter may go before, so that a steady
    /// flow is served in batches.
    fn low(&self) -> usize {
        self.high - self.high / 4
    }

    /// Takes the oldest item of a kind and remembers that the kind is asked for. What had to
    /// make room for a new kind is the second answer.
    pub fn take(&mut self, kind: &K, now: Instant) -> (Option<T>, Vec<T>) {
        let cleared = self.demand(kind, now);
        let low = self.low();
        let stock = self.stocks.iter_mut().find(|stock| stock.kind == *kind);
        let item = stock.and_then(|stock| {
            let item = stock.items.pop_front();
            stock.is_filling |= stock.items.len() < low;
            item
        });
        (item, cleared)
    }

    /// Remembers that a kind is asked for, or will be. What had to make room for it is the
    /// answer.
    pub fn demand(&mut self, kind: &K, now: Instant) -> Vec<T> {
        if self.high == 0 {
            return Vec::new();
        }
        if let Some(stock) = self.stocks.iter_mut().find(|stock| stock.kind == *kind) {
            stock.asked = now;
            return Vec::new();
        }
        let oldest = (self.stocks.iter().enumerate()).min_by_key(|(_, stock)| stock.asked);
        let cleared = match oldest {
            Some((index, _)) if self.stocks.len() >= self.kinds => {
                self.stocks.swap_remove(index).items.into()
            }
            _ => Vec::new(),
        };
        self.stocks.push(Stock {
            kind: kind.clone(),
            items: VecDeque::new(),
            is_filling: true,
            asked: now,
        });
        cleared
    }

    /// The kind to make one more of: of those that are not full, the one asked for last.
    pub fn next_to_fill(&self) -> Option<&K> {
        let filling = self.stocks.iter().filter(|stock| stock.is_filling);
        filling
            .max_by_key(|stock| stock.asked)
            .map(|stock| &stock.kind)
    }

    /// Returns true if a kind has less than half of what is kept of it, so that filling it is
    /// urgent.
    pub fn is_short(&self, kind: &K) -> bool {
        let stock = self.stocks.iter().find(|stock| stock.kind == *kind);
        stock.is_some_and(|stock| stock.items.len() < self.high / 2)
    }

    /// Adds an item of a kind, or gives it back if the kind is full or no longer kept.
    ///
    /// # Errors
    ///
    /// The item itself.
    pub fn add(&mut self, kind: &K, item: T) -> Result<(), T> {
        let high = self.high;
        let stock = self.stocks.iter_mut().find(|stock| stock.kind == *kind);
        let Some(stock) = stock.filter(|stock| stock.items.len() < high) else {
            return Err(item);
        };
        stock.items.push_back(item);
        stock.is_filling = stock.items.len() < high;
        Ok(())
    }

    /// Makes no more of a kind until it is asked for again.
    pub fn stop_filling(&mut self, kind: &K) {
        for stock in self.stocks.iter_mut().filter(|stock| stock.kind == *kind) {
            stock.is_filling = false;
        }
    }

    /// Takes away the kinds that were not asked for in the time they are kept, and what is ready
    /// of them.
    pub fn expire(&mut self, now: Instant, kept: Duration) -> Vec<T> {
        let expired = (self.stocks).extract_if(.., |stock| now >= stock.asked + kept);
        expired.flat_map(|stock| stock.items).collect()
    }

    /// Returns the time at which [`Self::expire`] has something to do; `None` if there is no kind
    /// at all.
    pub fn next_expiry(&self, kept: Duration) -> Option<Instant> {
        let asked = self.stocks.iter().map(|stock| stock.asked);
        asked.min().map(|asked| asked + kept)
    }

    /// Takes everything that is ready, and makes no more until somebody asks.
    pub fn clear(&mut self) -> Vec<T> {
        let stocks = self.stocks.iter_mut();
        stocks
            .flat_map(|stock| {
                stock.is_filling = false;
                stock.items.drain(..)
            })
            .collect()
    }

    /// Returns the number of items that are ready, of all kinds.
    pub fn count(&self) -> usize {
        self.stocks.iter().map(|stock| stock.items.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Duration = Duration::from_mins(30);

    fn fill(pool: &mut PoolPolicy<&'static str, u32>) -> u32 {
        let mut count = 0;
        while let Some(kind) = pool.next_to_fill().copied() {
            count += 1;
            pool.add(&kind, count).unwrap();
        }
        count
    }

    #[test]
    fn the_first_one_of_a_kind_is_not_there_and_the_next_are() {
        let now = Instant::now();
        let mut pool = PoolPolicy::new(4, 4);
        assert_eq!(pool.take(&"base", now), (None, vec![]));
        assert_eq!(fill(&mut pool), 4);
        assert_eq!(pool.take(&"base", now).0, Some(1));
        assert_eq!(pool.next_to_fill(), None, "three of four are enough");
        assert_eq!(pool.take(&"base", now).0, Some(2));
        assert_eq!(fill(&mut pool), 2);
        assert_eq!(pool.take(&"other", now).0, None);
    }

    #[test]
    fn a_stock_is_short_below_half_of_it() {
        let now = Instant::now();
        let mut pool = PoolPolicy::new(4, 4);
        pool.demand(&"base", now);
        assert!(pool.is_short(&"base"));
        fill(&mut pool);
        let mut after_each = || {
            pool.take(&"base", now);
            pool.is_short(&"base")
        };
        assert_eq!(
            [after_each(), after_each(), after_each()],
            [false, false, true]
        );
        assert!(!pool.is_short(&"other"));
    }

    #[test]
    fn what_is_wanted_is_there_for_the_first_who_asks() {
        let now = Instant::now();
        let mut pool = PoolPolicy::new(2, 4);
        assert_eq!(pool.demand(&"base", now), Vec::<u32>::new());
        assert_eq!(fill(&mut pool), 2);
        assert_eq!(pool.demand(&"base", now), Vec::<u32>::new());
        assert_eq!(pool.next_to_fill(), None, "it is full already");
        assert_eq!(pool.take(&"base", now).0, Some(1));
    }

    #[test]
    fn nothing_is_kept_where_nothing_is_to_be_kept() {
        let mut pool: PoolPolicy<_, u32> = PoolPolicy::new(0, 4);
        assert_eq!(pool.take(&"base", Instant::now()), (None, vec![]));
        assert_eq!((pool.next_to_fill(), pool.next_expiry(KEPT)), (None, None));
        assert_eq!(pool.add(&"base", 1), Err(1));
    }

    #[test]
    fn a_fifth_kind_replaces_the_one_not_asked_for_the_longest() {
        let start = Instant::now();
        let mut pool = PoolPolicy::new(1, 4);
        for (second, kind) in ["a", "b", "c", "d", "a"].iter().enumerate() {
            let now = start + Duration::from_secs(second as u64);
            pool.take(kind, now);
            fill(&mut pool);
        }
        let later = start + Duration::from_secs(9);
        assert_eq!(pool.take(&"e", later), (None, vec![1]));
        assert_eq!(pool.add(&"b", 7), Err(7), "b made room");
    }

    #[test]
    fn what_nobody_asks_for_goes_in_time() {
        let start = Instant::now();
        let mut pool = PoolPolicy::new(2, 4);
        pool.take(&"old", start);
        fill(&mut pool);
        let later = start + KEPT / 2;
        pool.take(&"new", later);
        fill(&mut pool);
        assert_eq!(pool.next_expiry(KEPT), Some(start + KEPT));
        assert_eq!(pool.expire(later, KEPT), Vec::<u32>::new());
        assert_eq!(pool.expire(start + KEPT, KEPT).len(), 2);
        assert_eq!(pool.count(), 2);
        assert_eq!(pool.expire(later + KEPT, KEPT).len(), 2);
        assert_eq!(pool.next_expiry(KEPT), None);
    }

    #[test]
    fn what_failed_or_was_cleared_is_wanted_again_when_asked_for() {
        let now = Instant::now();
        let mut pool: PoolPolicy<_, u32> = PoolPolicy::new(2, 4);
        pool.take(&"base", now);
        pool.stop_filling(&"base");
        assert_eq!(pool.next_to_fill(), None);
        pool.take(&"base", now);
        assert_eq!(fill(&mut pool), 2);
        assert_eq!(pool.clear(), [1, 2]);
        assert_eq!((pool.next_to_fill(), pool.count()), (None, 0));
        pool.take(&"base", now);
        assert_eq!(pool.next_to_fill(), Some(&"base"));
    }
}
