//! Refill policy of a pool: things that are kept ready, by kind. No clock, no task, no lock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Things that are ready, by kind.
///
/// Each kind has a low and a high mark: below the low one it is filled up to the high one.
/// A kind is wanted from the first time that it is asked for.
#[derive(Debug)]
pub struct Shelves<K, T> {
    /// A kind with so many is full.
    high: usize,
    /// Number of kinds kept ready at once. The one that was not asked for the longest goes.
    kinds: usize,
    shelves: Vec<Shelf<K, T>>,
}

#[derive(Debug)]
struct Shelf<K, T> {
    kind: K,
    things: VecDeque<T>,
    /// True from the moment it has too few until it is full.
    is_filling: bool,
    asked: Instant,
}

impl<K: Clone + PartialEq, T> Shelves<K, T> {
    /// Shelves for `kinds` kinds, each with up to `high` things.
    pub fn new(high: usize, kinds: usize) -> Self {
        Self {
            high,
            kinds,
            shelves: Vec::new(),
        }
    }

    /// A shelf with fewer than this is filled again. A quarter may go before, so that a steady
    /// flow is served in batches.
    fn low(&self) -> usize {
        self.high - self.high / 4
    }

    /// Takes the oldest thing of a kind and remembers that the kind is asked for. What had to
    /// make place for a new kind is the second answer.
    pub fn take(&mut self, kind: &K, now: Instant) -> (Option<T>, Vec<T>) {
        let cleared = self.want(kind, now);
        let low = self.low();
        let shelf = self.shelves.iter_mut().find(|shelf| shelf.kind == *kind);
        let thing = shelf.and_then(|shelf| {
            let thing = shelf.things.pop_front();
            shelf.is_filling |= shelf.things.len() < low;
            thing
        });
        (thing, cleared)
    }

    /// Remembers that a kind is asked for, or will be. What had to make place for it is the
    /// answer.
    pub fn want(&mut self, kind: &K, now: Instant) -> Vec<T> {
        if self.high == 0 {
            return Vec::new();
        }
        if let Some(shelf) = self.shelves.iter_mut().find(|shelf| shelf.kind == *kind) {
            shelf.asked = now;
            return Vec::new();
        }
        let oldest = (self.shelves.iter().enumerate()).min_by_key(|(_, shelf)| shelf.asked);
        let cleared = match oldest {
            Some((index, _)) if self.shelves.len() >= self.kinds => {
                self.shelves.swap_remove(index).things.into()
            }
            _ => Vec::new(),
        };
        self.shelves.push(Shelf {
            kind: kind.clone(),
            things: VecDeque::new(),
            is_filling: true,
            asked: now,
        });
        cleared
    }

    /// The kind that one more is wanted of: the one that was asked for last.
    pub fn wanted(&self) -> Option<&K> {
        let filling = self.shelves.iter().filter(|shelf| shelf.is_filling);
        filling
            .max_by_key(|shelf| shelf.asked)
            .map(|shelf| &shelf.kind)
    }

    /// Puts a thing where it belongs, or gives it back if nobody wants it any more.
    ///
    /// # Errors
    ///
    /// The thing itself.
    pub fn put(&mut self, kind: &K, thing: T) -> Result<(), T> {
        let high = self.high;
        let shelf = self.shelves.iter_mut().find(|shelf| shelf.kind == *kind);
        let Some(shelf) = shelf.filter(|shelf| shelf.things.len() < high) else {
            return Err(thing);
        };
        shelf.things.push_back(thing);
        shelf.is_filling = shelf.things.len() < high;
        Ok(())
    }

    /// Stops wanting more of a kind until it is asked for again.
    pub fn rest(&mut self, kind: &K) {
        for shelf in self.shelves.iter_mut().filter(|shelf| shelf.kind == *kind) {
            shelf.is_filling = false;
        }
    }

    /// Takes away the kinds that were not asked for in the time they are kept, and what is ready
    /// of them.
    pub fn expire(&mut self, now: Instant, kept: Duration) -> Vec<T> {
        let expired = (self.shelves).extract_if(.., |shelf| now >= shelf.asked + kept);
        expired.flat_map(|shelf| shelf.things).collect()
    }

    /// Returns the time at which [`Self::expire`] has something to do; `None` if there is no kind
    /// at all.
    pub fn next_expiry(&self, kept: Duration) -> Option<Instant> {
        let asked = self.shelves.iter().map(|shelf| shelf.asked);
        asked.min().map(|asked| asked + kept)
    }

    /// Takes everything that is ready, and wants no more until somebody asks.
    pub fn clear(&mut self) -> Vec<T> {
        let shelves = self.shelves.iter_mut();
        shelves
            .flat_map(|shelf| {
                shelf.is_filling = false;
                shelf.things.drain(..)
            })
            .collect()
    }

    /// Returns the number of things that are ready, of all kinds.
    pub fn count(&self) -> usize {
        self.shelves.iter().map(|shelf| shelf.things.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Duration = Duration::from_mins(30);

    fn fill(shelves: &mut Shelves<&'static str, u32>) -> u32 {
        let mut count = 0;
        while let Some(kind) = shelves.wanted().copied() {
            count += 1;
            shelves.put(&kind, count).unwrap();
        }
        count
    }

    #[test]
    fn the_first_one_of_a_kind_is_not_there_and_the_next_are() {
        let now = Instant::now();
        let mut shelves = Shelves::new(4, 4);
        assert_eq!(shelves.take(&"base", now), (None, vec![]));
        assert_eq!(fill(&mut shelves), 4);
        assert_eq!(shelves.take(&"base", now).0, Some(1));
        assert_eq!(shelves.wanted(), None, "three of four are enough");
        assert_eq!(shelves.take(&"base", now).0, Some(2));
        assert_eq!(fill(&mut shelves), 2);
        assert_eq!(shelves.take(&"other", now).0, None);
    }

    #[test]
    fn what_is_wanted_is_there_for_the_first_who_asks() {
        let now = Instant::now();
        let mut shelves = Shelves::new(2, 4);
        assert_eq!(shelves.want(&"base", now), Vec::<u32>::new());
        assert_eq!(fill(&mut shelves), 2);
        assert_eq!(shelves.want(&"base", now), Vec::<u32>::new());
        assert_eq!(shelves.wanted(), None, "it is full already");
        assert_eq!(shelves.take(&"base", now).0, Some(1));
    }

    #[test]
    fn nothing_is_kept_where_nothing_is_to_be_kept() {
        let mut shelves: Shelves<_, u32> = Shelves::new(0, 4);
        assert_eq!(shelves.take(&"base", Instant::now()), (None, vec![]));
        assert_eq!((shelves.wanted(), shelves.next_expiry(KEPT)), (None, None));
        assert_eq!(shelves.put(&"base", 1), Err(1));
    }

    #[test]
    fn a_fifth_kind_takes_the_place_of_the_one_not_asked_for_the_longest() {
        let start = Instant::now();
        let mut shelves = Shelves::new(1, 4);
        for (second, kind) in ["a", "b", "c", "d", "a"].iter().enumerate() {
            let now = start + Duration::from_secs(second as u64);
            shelves.take(kind, now);
            fill(&mut shelves);
        }
        let later = start + Duration::from_secs(9);
        assert_eq!(shelves.take(&"e", later), (None, vec![1]));
        assert_eq!(shelves.put(&"b", 7), Err(7), "b made place");
    }

    #[test]
    fn what_nobody_asks_for_goes_in_time() {
        let start = Instant::now();
        let mut shelves = Shelves::new(2, 4);
        shelves.take(&"old", start);
        fill(&mut shelves);
        let later = start + KEPT / 2;
        shelves.take(&"new", later);
        fill(&mut shelves);
        assert_eq!(shelves.next_expiry(KEPT), Some(start + KEPT));
        assert_eq!(shelves.expire(later, KEPT), Vec::<u32>::new());
        assert_eq!(shelves.expire(start + KEPT, KEPT).len(), 2);
        assert_eq!(shelves.count(), 2);
        assert_eq!(shelves.expire(later + KEPT, KEPT).len(), 2);
        assert_eq!(shelves.next_expiry(KEPT), None);
    }

    #[test]
    fn what_failed_or_was_cleared_is_wanted_again_when_asked_for() {
        let now = Instant::now();
        let mut shelves: Shelves<_, u32> = Shelves::new(2, 4);
        shelves.take(&"base", now);
        shelves.rest(&"base");
        assert_eq!(shelves.wanted(), None);
        shelves.take(&"base", now);
        assert_eq!(fill(&mut shelves), 2);
        assert_eq!(shelves.clear(), [1, 2]);
        assert_eq!((shelves.wanted(), shelves.count()), (None, 0));
        shelves.take(&"base", now);
        assert_eq!(shelves.wanted(), Some(&"base"));
    }
}
