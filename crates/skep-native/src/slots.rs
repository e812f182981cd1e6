//! Which slots are taken.

use std::sync::Mutex;

use crate::instance::{Names, SLOTS, Slot};

/// The slots of one server.
#[derive(Debug)]
pub(crate) struct Slots {
    names: Names,
    state: Mutex<State>,
}

/// Slots that lie side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The number of the first.
    pub(crate) first: u16,
    /// How many there are.
    pub(crate) count: u16,
}

impl Run {
    fn indices(self) -> std::ops::Range<usize> {
        let first = usize::from(self.first);
        first..first + usize::from(self.count)
    }
}

#[derive(Debug)]
struct State {
    taken: Vec<bool>,
    /// Those that are only taken by whom they are kept for.
    reserved: Vec<bool>,
    /// Where the search starts: a slot that was just given back rests longest, so that nothing
    /// that still travels to its last sandbox reaches the next one.
    next: usize,
    /// When each was last given back, in the order of all that were; 0 if it never was.
    given_back: Vec<u64>,
    returns: u64,
}

impl Slots {
    pub(crate) fn new(names: Names) -> Self {
        Self {
            names,
            state: Mutex::new(State {
                taken: vec![false; usize::from(SLOTS)],
                reserved: vec![false; usize::from(SLOTS)],
                next: 0,
                given_back: vec![0; usize::from(SLOTS)],
                returns: 0,
            }),
        }
    }

    /// Takes a free slot, if there is one.
    pub(crate) fn take(&self) -> Option<Slot> {
        let mut state = self.lock();
        let count = state.taken.len();
        let index = (0..count)
            .map(|step| (state.next + step) % count)
            .find(|index| !state.taken[*index] && !state.reserved[*index])?;
        state.taken[index] = true;
        state.next = (index + 1) % count;
        Some(self.names.slot(u16::try_from(index).ok()?))
    }

    /// Keeps so many free slots side by side from all who do not name them.
    pub(crate) fn reserve(&self, count: u16) -> Option<Run> {
        let mut state = self.lock();
        let is_free = |index: usize| !state.taken[index] && !state.reserved[index];
        // From the end, away from those that come and go.
        let first = (0..=SLOTS.checked_sub(count)?).rev().find(|first| {
            Run {
                first: *first,
                count,
            }
            .indices()
            .all(is_free)
        })?;
        let run = Run { first, count };
        state.reserved[run.indices()].fill(true);
        Some(run)
    }

    /// Keeps them no longer. Those that are taken stay so.
    pub(crate) fn release(&self, run: Run) {
        self.lock().reserved[run.indices()].fill(false);
    }

    /// Takes the free slot of a run that has rested longest.
    pub(crate) fn take_reserved(&self, run: Run) -> Option<Slot> {
        let mut state = self.lock();
        let index = run
            .indices()
            .filter(|index| !state.taken[*index])
            .min_by_key(|index| state.given_back[*index])?;
        state.taken[index] = true;
        Some(self.names.slot(u16::try_from(index).ok()?))
    }

    /// How many there are, and how many of them are free, for somebody at least.
    pub(crate) fn count(&self) -> (usize, usize) {
        let taken = &self.lock().taken;
        let free = taken.iter().filter(|taken| !**taken);
        (taken.len(), free.count())
    }

    /// How many slots of a run are taken.
    pub(crate) fn in_use(&self, run: Run) -> usize {
        let state = self.lock();
        state.taken[run.indices()]
            .iter()
            .filter(|taken| **taken)
            .count()
    }

    /// Takes this very slot. False if it is taken or there is none of that number.
    pub(crate) fn take_number(&self, number: u16) -> bool {
        let mut state = self.lock();
        match state.taken.get_mut(usize::from(number)) {
            Some(taken) => !std::mem::replace(taken, true),
            None => false,
        }
    }

    /// Gives a slot back.
    pub(crate) fn give_back(&self, slot: Slot) {
        let mut state = self.lock();
        let index = usize::from(slot.number());
        if index < state.taken.len() {
            state.taken[index] = false;
            state.returns += 1;
            state.given_back[index] = state.returns;
        }
    }

    pub(crate) fn is_taken(&self, slot: Slot) -> bool {
        let state = self.lock();
        let taken = state.taken.get(usize::from(slot.number()));
        taken.copied().unwrap_or(false)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_was_given_back_rests_while_others_are_free() {
        let slots = Slots::new(Names::of(0));
        let first = slots.take().unwrap();
        slots.give_back(first);
        assert_ne!(slots.take().unwrap(), first);
    }

    #[test]
    fn slots_that_are_kept_go_to_nobody_else() {
        let slots = Slots::new(Names::of(0));
        let run = slots.reserve(3).unwrap();
        for _ in 3..SLOTS {
            slots.take().unwrap();
        }
        assert_eq!(slots.take(), None);
        assert_eq!(slots.reserve(1), None);
        let kept: Vec<_> = (0..3).filter_map(|_| slots.take_reserved(run)).collect();
        assert_eq!((kept.len(), slots.in_use(run)), (3, 3));
        assert_eq!(slots.take_reserved(run), None);
        slots.give_back(kept[0]);
        assert_eq!(slots.take(), None, "it is still kept");
        slots.release(run);
        assert_eq!(slots.take(), Some(kept[0]));
    }

    #[test]
    fn a_kept_slot_that_was_given_back_rests_while_others_are_free() {
        let slots = Slots::new(Names::of(0));
        let run = slots.reserve(3).unwrap();
        let take = || slots.take_reserved(run).unwrap();
        let (first, second) = (take(), take());
        slots.give_back(second);
        slots.give_back(first);
        let third = take();
        assert!(![first, second].contains(&third), "one was never taken");
        assert_eq!((take(), take()), (second, first), "the longest rest first");
    }

    #[test]
    fn when_all_are_taken_there_is_none() {
        let slots = Slots::new(Names::of(0));
        assert!(slots.take_number(7));
        assert!(!slots.take_number(7));
        assert!(!slots.take_number(SLOTS));
        for _ in 1..SLOTS {
            assert_ne!(slots.take().unwrap().number(), 7);
        }
        assert_eq!(slots.take(), None);
        slots.give_back(Names::of(0).slot(7));
        assert_eq!(slots.take().unwrap().number(), 7);
    }
}
