//! Allocation of slots.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::instance::{Naming, SLOTS, Slot};

/// The slots of one server.
#[derive(Debug)]
pub(crate) struct Slots {
    naming: Naming,
    state: Mutex<State>,
}

/// Fewer slots than these are not worth a run of their own.
const LEAST: u16 = 16;

/// Slots that lie side by side. While its first slot is taken, no other run has the same first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The number of the first.
    pub first: u16,
    /// Number of slots in the run.
    pub count: u16,
}

/// A slot that is taken, and given back when this is dropped.
#[derive(Debug)]
pub struct TakenSlot {
    slots: Arc<Slots>,
    slot: Slot,
}

impl TakenSlot {
    /// The slot itself.
    pub fn slot(&self) -> Slot {
        self.slot
    }
}

impl Drop for TakenSlot {
    fn drop(&mut self) {
        self.slots.give_back(self.slot);
    }
}

/// A run that is kept for its owner until this is dropped. Slots of it that are taken stay so.
#[derive(Debug)]
pub struct KeptRun {
    slots: Arc<Slots>,
    run: Run,
}

impl KeptRun {
    /// The run itself.
    pub fn run(&self) -> Run {
        self.run
    }
}

impl Drop for KeptRun {
    fn drop(&mut self) {
        self.slots.release(self.run);
    }
}

impl Slots {
    /// Guard of a slot that was just taken.
    pub(crate) fn taken(self: &Arc<Self>, slot: Slot) -> TakenSlot {
        TakenSlot {
            slots: Arc::clone(self),
            slot,
        }
    }

    /// Guards of a run that was just reserved, and of its first slot.
    pub(crate) fn kept(self: &Arc<Self>, run: Run) -> (KeptRun, TakenSlot) {
        let slots = Arc::clone(self);
        (
            KeptRun { slots, run },
            self.taken(self.naming.slot(run.first)),
        )
    }
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
    /// The first slot of the run that each is kept for, if it is.
    reserved: Vec<Option<u16>>,
    /// Index at which the search starts: a slot that was just given back rests longest, so that
    /// nothing that still travels to its last sandbox reaches the next one.
    next: usize,
    /// Sequence number of the last return of each slot; 0 if it was never given back.
    given_back: Vec<u64>,
    returns: u64,
    /// Those that were given back and of which the packet filter may still remember something.
    remembered: BTreeSet<usize>,
}

impl Slots {
    pub(crate) fn new(naming: Naming) -> Self {
        Self {
            naming,
            state: Mutex::new(State {
                taken: vec![false; usize::from(SLOTS)],
                reserved: vec![None; usize::from(SLOTS)],
                next: 0,
                given_back: vec![0; usize::from(SLOTS)],
                returns: 0,
                remembered: BTreeSet::new(),
            }),
        }
    }

    /// Takes a free slot, if there is one. When all that are free are kept for runs, one of those:
    /// a sandbox is worth more than a fast one.
    pub(crate) fn take(&self) -> Option<Slot> {
        let mut state = self.state.lock();
        let count = state.taken.len();
        let mut indices = (0..count).map(|step| (state.next + step) % count);
        let index = indices
            .find(|index| !state.taken[*index] && state.reserved[*index].is_none())
            .or_else(|| state.longest_free(0..count, |_| true))?;
        state.taken[index] = true;
        state.reserved[index] = None;
        state.next = (index + 1) % count;
        Some(self.naming.slot(u16::try_from(index).ok()?))
    }

    /// Keeps so many free slots side by side for who names them, and takes the first. Fewer, but
    /// at least [`LEAST`] or what was asked for, where no gap between those that are taken is so
    /// large.
    pub(crate) fn reserve(&self, count: u16) -> Option<Run> {
        let mut state = self.state.lock();
        let mut counts = std::iter::successors(Some(count), |count| Some(count / 2))
            .take_while(|next| *next >= count.min(LEAST) && *next > 0);
        let run = counts.find_map(|count| state.gap(count))?;
        state.reserved[run.indices()].fill(Some(run.first));
        state.taken[usize::from(run.first)] = true;
        Some(run)
    }

    /// Keeps them no longer. Those that are taken stay so.
    pub(crate) fn release(&self, run: Run) {
        let mut state = self.state.lock();
        let kept = state.reserved[run.indices()].iter_mut();
        for reserved in kept.filter(|reserved| **reserved == Some(run.first)) {
            *reserved = None;
        }
    }

    /// Keeps only those that are taken.
    pub(crate) fn release_free(&self, run: Run) {
        let mut state = self.state.lock();
        for index in run.indices() {
            if state.is_of(index, run) && !state.taken[index] {
                state.reserved[index] = None;
            }
        }
    }

    /// Takes the free slot of a run that has rested longest.
    pub(crate) fn take_reserved(&self, run: Run) -> Option<Slot> {
        let mut state = self.state.lock();
        let index = state.longest_free(run.indices(), |index| state.is_of(index, run))?;
        state.taken[index] = true;
        Some(self.naming.slot(u16::try_from(index).ok()?))
    }

    /// Number of all slots, and number of the free ones, which [`Self::take`] gives to anybody.
    pub(crate) fn count(&self) -> (usize, usize) {
        let taken = &self.state.lock().taken;
        let free = taken.iter().filter(|taken| !**taken);
        (taken.len(), free.count())
    }

    /// Number of slots of a run that are taken by those they are kept for.
    pub(crate) fn in_use(&self, run: Run) -> usize {
        let state = self.state.lock();
        let is_in_use = |index: &usize| state.taken[*index] && state.is_of(*index, run);
        run.indices().filter(is_in_use).count()
    }

    /// Takes this very slot, whoever it is kept for. False if it is taken or there is none of
    /// that number.
    pub(crate) fn take_number(&self, number: u16) -> bool {
        let mut state = self.state.lock();
        let index = usize::from(number);
        if state.taken.get(index) != Some(&false) {
            return false;
        }
        state.taken[index] = true;
        state.reserved[index] = None;
        true
    }

    /// Gives a slot back.
    pub(crate) fn give_back(&self, slot: Slot) {
        let mut state = self.state.lock();
        let index = usize::from(slot.number());
        if index < state.taken.len() {
            state.taken[index] = false;
            state.returns += 1;
            state.given_back[index] = state.returns;
            state.remembered.insert(index);
        }
    }

    /// Takes the slots that were given back since this was last asked, so that nobody has them
    /// while the packet filter is told to forget them. One that somebody has again is left out.
    pub(crate) fn hold_remembered(&self) -> Vec<Slot> {
        let mut state = self.state.lock();
        let remembered = std::mem::take(&mut state.remembered);
        let free: Vec<_> = remembered
            .into_iter()
            .filter(|index| !state.taken[*index])
            .collect();
        for index in &free {
            state.taken[*index] = true;
        }
        let numbers = free
            .into_iter()
            .filter_map(|index| u16::try_from(index).ok());
        numbers.map(|number| self.naming.slot(number)).collect()
    }

    /// Gives back what [`Self::hold_remembered`] took, as it was.
    pub(crate) fn let_go(&self, slots: &[Slot]) {
        let mut state = self.state.lock();
        for slot in slots {
            state.taken[usize::from(slot.number())] = false;
        }
    }

    pub(crate) fn is_taken(&self, slot: Slot) -> bool {
        let state = self.state.lock();
        let taken = state.taken.get(usize::from(slot.number()));
        taken.copied().unwrap_or(false)
    }
}

impl State {
    /// Finds a run of `count` free slots that are kept for nobody. Searches from the end, away from
    /// those that come and go.
    fn gap(&self, count: u16) -> Option<Run> {
        let is_free = |index: usize| !self.taken[index] && self.reserved[index].is_none();
        let runs = (0..=SLOTS.checked_sub(count)?).map(|first| Run { first, count });
        runs.rev().find(|run| run.indices().all(is_free))
    }

    fn is_of(&self, index: usize, run: Run) -> bool {
        self.reserved[index] == Some(run.first)
    }

    /// The free one of these that has rested longest.
    fn longest_free(
        &self,
        indices: std::ops::Range<usize>,
        is_meant: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let free = indices.filter(|index| !self.taken[*index] && is_meant(*index));
        free.min_by_key(|index| self.given_back[*index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_of_a_slot_is_forgotten_while_nobody_has_it() {
        let slots = Slots::new(Naming::of(0));
        let (first, second) = (slots.take().unwrap(), slots.take().unwrap());
        assert!(slots.hold_remembered().is_empty());
        slots.give_back(first);
        slots.give_back(second);
        assert!(slots.take_number(second.number()), "somebody has it again");
        let held = slots.hold_remembered();
        assert_eq!(held, [first]);
        assert!(!slots.take_number(first.number()));
        slots.let_go(&held);
        assert!(slots.hold_remembered().is_empty(), "it was forgotten");
        assert!(slots.take_number(first.number()));
    }

    #[test]
    fn a_slot_that_was_given_back_rests_while_others_are_free() {
        let slots = Slots::new(Naming::of(0));
        let first = slots.take().unwrap();
        slots.give_back(first);
        assert_ne!(slots.take().unwrap(), first);
    }

    #[test]
    fn slots_that_are_kept_go_to_nobody_else_while_there_are_others() {
        let slots = Slots::new(Naming::of(0));
        let run = slots.reserve(3).unwrap();
        for _ in 3..SLOTS {
            assert!(
                !run.indices()
                    .contains(&usize::from(slots.take().unwrap().number()))
            );
        }
        assert_eq!(slots.reserve(1), None);
        assert_eq!(slots.in_use(run), 1, "the first");
        let kept = slots.take_reserved(run).unwrap();
        assert_eq!(slots.in_use(run), 2);
        // Rather one of these than none.
        assert_eq!(slots.count().1, 1);
        let last = slots.take().unwrap();
        assert_eq!(slots.in_use(run), 2, "it is not the run's any more");
        assert_eq!((slots.take_reserved(run), slots.take()), (None, None));
        slots.give_back(last);
        assert_eq!(slots.take_reserved(run), None);
        slots.give_back(kept);
        assert_eq!(slots.take(), Some(last), "the one that is kept comes last");
    }

    #[test]
    fn a_run_that_takes_in_nobody_keeps_only_what_it_uses() {
        let slots = Slots::new(Naming::of(0));
        let former = slots.reserve(SLOTS).unwrap();
        let used = slots.take_reserved(former).unwrap();
        assert_eq!(slots.reserve(LEAST), None);
        slots.release_free(former);
        let next = slots.reserve(LEAST).unwrap();
        assert_eq!((slots.in_use(former), slots.in_use(next)), (2, 1));
        // Theirs are told apart, though one run lies within the other.
        let other = slots.take_reserved(next).unwrap();
        assert_eq!((slots.in_use(former), slots.in_use(next)), (2, 2));
        slots.release(former);
        assert_eq!((slots.in_use(former), slots.in_use(next)), (0, 2));
        assert!(slots.is_taken(used) && slots.is_taken(other));
    }

    #[test]
    fn a_run_is_smaller_where_there_is_no_such_gap() {
        let slots = Slots::new(Naming::of(0));
        for number in (0..SLOTS).step_by(40) {
            assert!(slots.take_number(number));
        }
        assert_eq!(slots.reserve(128).unwrap().count, 32);
        for number in (0..SLOTS).step_by(10) {
            slots.take_number(number);
        }
        assert_eq!(slots.reserve(128), None);
        assert_eq!(slots.reserve(3).unwrap().count, 3, "nobody asked for more");
    }

    #[test]
    fn a_kept_slot_that_was_given_back_rests_while_others_are_free() {
        let slots = Slots::new(Naming::of(0));
        let run = slots.reserve(4).unwrap();
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
        let slots = Slots::new(Naming::of(0));
        assert!(slots.take_number(7));
        assert!(!slots.take_number(7));
        assert!(!slots.take_number(SLOTS));
        for _ in 1..SLOTS {
            assert_ne!(slots.take().unwrap().number(), 7);
        }
        assert_eq!(slots.take(), None);
        slots.give_back(Naming::of(0).slot(7));
        assert_eq!(slots.take().unwrap().number(), 7);
    }
}
