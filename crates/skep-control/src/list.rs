//! Lists of living sandboxes: filter, order, pages.

mod cursor;

use std::cmp::Ordering;

use jiff::Timestamp;
use skep_types::{Phase, SandboxId, ShownState, TemplateReference};

pub use cursor::{Cursor, CursorError};

use crate::{Caller, Control, Sandbox};

/// Selection and order of the sandboxes in a list.
#[derive(Debug, Clone)]
pub struct ListQuery {
    /// Pairs that must all be in the metadata.
    pub metadata: Vec<(String, String)>,
    /// States that sandboxes must be in.
    pub states: States,
    /// Order of the list.
    pub order: SortOrder,
    /// Only those that started then or later.
    pub started_after: Option<Timestamp>,
    /// Only those made of this template, by name or id.
    pub template: Option<TemplateReference>,
    /// Page size; `None` is all on one page.
    pub limit: Option<usize>,
    /// End of the page before.
    pub after: Option<Cursor>,
}

impl ListQuery {
    /// Everything, the newest first.
    pub fn everything() -> Self {
        Self {
            metadata: Vec::new(),
            states: States {
                running: true,
                paused: true,
            },
            order: SortOrder::NewestFirst,
            started_after: None,
            template: None,
            limit: None,
            after: None,
        }
    }
}

/// Selection of states in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct States {
    /// Those that run.
    pub running: bool,
    /// Those that are paused.
    pub paused: bool,
}

/// Orders in which a list is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortOrder {
    /// The latest start first; among equals the smaller id.
    NewestFirst,
    /// Exactly the reverse.
    OldestFirst,
}

/// One page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The items, in order.
    pub items: Vec<T>,
    /// Start of the next page, if there is one.
    pub next: Option<Cursor>,
    /// Number of running sandboxes on all pages.
    pub running: usize,
}

impl Control {
    /// The sandboxes of the caller's team that pass the filter.
    pub async fn list(&self, caller: &Caller, query: &ListQuery) -> Page<Sandbox> {
        page(self.all(caller).await, query)
    }
}

/// Sort key of an item in a list.
type SortKey<'a> = (Timestamp, &'a SandboxId);

/// Properties of an item that a list needs.
trait Listed {
    fn sort_key(&self) -> SortKey<'_>;
    fn phase(&self) -> Phase;
    fn passes(&self, query: &ListQuery) -> bool;
}

impl Listed for Sandbox {
    fn sort_key(&self) -> SortKey<'_> {
        (self.status.started_at, &self.order.id)
    }

    fn phase(&self) -> Phase {
        self.status.phase
    }

    fn passes(&self, query: &ListQuery) -> bool {
        let metadata = &self.order.metadata;
        let written = |(key, value): &(String, String)| metadata.get(key) == Some(value);
        query.metadata.iter().all(written)
            && query
                .started_after
                // Clients echo the microseconds that they were shown.
                .is_none_or(|after| micros(self.status.started_at) >= micros(after))
            && query.template.as_ref().is_none_or(|template| {
                template.identifier == self.order.template_name
                    || template.identifier == self.order.template.as_str()
            })
    }
}

fn page<T: Listed>(mut items: Vec<T>, query: &ListQuery) -> Page<T> {
    items.retain(|item| {
        let shown = match item.phase().shown() {
            Some(ShownState::Running) => query.states.running,
            Some(ShownState::Paused) => query.states.paused,
            None => false,
        };
        shown && item.passes(query)
    });
    let running = items
        .iter()
        .filter(|item| item.phase().shown() == Some(ShownState::Running))
        .count();
    if let Some(after) = &query.after {
        let last = (after.at, &after.id);
        items.retain(|item| compare(item.sort_key(), last, query.order) == Ordering::Greater);
    }
    items.sort_unstable_by(|left, right| compare(left.sort_key(), right.sort_key(), query.order));
    let limit = query.limit.unwrap_or(usize::MAX);
    let more = items.len() > limit;
    items.truncate(limit);
    let last = items.last().filter(|_| more);
    let next = last.map(|item| Cursor {
        at: item.sort_key().0,
        id: item.sort_key().1.clone(),
    });
    Page {
        items,
        next,
        running,
    }
}

fn compare(left: SortKey<'_>, right: SortKey<'_>, order: SortOrder) -> Ordering {
    let newest_first = micros(right.0)
        .cmp(&micros(left.0))
        .then_with(|| left.1.cmp(right.1));
    match order {
        SortOrder::NewestFirst => newest_first,
        SortOrder::OldestFirst => newest_first.reverse(),
    }
}

fn micros(time: Timestamp) -> i64 {
    time.as_microsecond()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Thing {
        key: Cursor,
        phase: Phase,
    }

    impl Listed for Thing {
        fn sort_key(&self) -> SortKey<'_> {
            (self.key.at, &self.key.id)
        }

        fn phase(&self) -> Phase {
            self.phase
        }

        fn passes(&self, _query: &ListQuery) -> bool {
            true
        }
    }

    fn things() -> impl Strategy<Value = Vec<Thing>> {
        let phase = prop_oneof![
            Just(Phase::Running),
            Just(Phase::Paused),
            Just(Phase::Stopping)
        ];
        // Few moments, so that many things share one.
        let thing = (0i64..5, phase).prop_map(|(second, phase)| Thing {
            key: Cursor {
                at: Timestamp::from_second(second).unwrap(),
                id: SandboxId::random(),
            },
            phase,
        });
        proptest::collection::vec(thing, 0..40)
    }

    fn orders() -> impl Strategy<Value = SortOrder> {
        prop_oneof![Just(SortOrder::NewestFirst), Just(SortOrder::OldestFirst)]
    }

    proptest! {
        #[test]
        fn pages_together_are_the_list_and_repeat_nothing(
            things in things(),
            order in orders(),
            limit in 1usize..7,
        ) {
            let mut query = ListQuery { order, ..ListQuery::everything() };
            let whole = page(things.clone(), &query);
            prop_assert!(whole.next.is_none());
            query.limit = Some(limit);
            let mut seen = Vec::new();
            loop {
                let page = page(things.clone(), &query);
                prop_assert_eq!(page.running, whole.running);
                prop_assert!(page.items.len() <= limit);
                seen.extend(page.items);
                match page.next {
                    Some(next) => query.after = Some(next),
                    None => break,
                }
            }
            prop_assert_eq!(seen, whole.items);
        }

        #[test]
        fn the_two_orders_are_each_others_reverse(things in things()) {
            let newest = page(things.clone(), &ListQuery::everything());
            let query = ListQuery { order: SortOrder::OldestFirst, ..ListQuery::everything() };
            let mut oldest = page(things, &query).items;
            oldest.reverse();
            prop_assert_eq!(newest.items, oldest);
        }

        #[test]
        fn a_state_that_was_not_asked_for_is_not_shown(things in things()) {
            let mut query = ListQuery::everything();
            query.states.paused = false;
            let page = page(things, &query);
            prop_assert!(page.items.iter().all(|thing| thing.phase == Phase::Running));
            prop_assert_eq!(page.running, page.items.len());
        }
    }
}
