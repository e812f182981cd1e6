//! Which slots are taken.

use std::sync::Mutex;

use crate::instance::{Names, SLOTS, Slot};

/// The slots of one server.
#[derive(Debug)]
pub(crate) struct Slots {
    names: Names,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    taken: Vec<bool>,
    /// Where the search starts: a slot that was just given back rests longest, so that nothing
    /// that still travels to its last sandbox reaches the next one.
    next: usize,
}

impl Slots {
    pub(crate) fn new(names: Names) -> Self {
        Self {
            names,
            state: Mutex::new(State {
                taken: vec![false; usize::from(SLOTS)],
                next: 0,
            }),
        }
    }

    /// Takes a free slot, if there is one.
    pub(crate) fn take(&self) -> Option<Slot> {
        let mut state = self.lock();
        let count = state.taken.len();
        let index = (0..count)
            .map(|step| (state.next + step) % count)
            .find(|index| !state.taken[*index])?;
        state.taken[index] = true;
        state.next = (index + 1) % count;
        Some(self.names.slot(u16::try_from(index).ok()?))
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
        if let Some(taken) = self.lock().taken.get_mut(usize::from(slot.number())) {
            *taken = false;
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
