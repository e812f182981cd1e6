//! Rotation of keys: the one that signs, and those that are published.
//!
//! ```text
//! made ──► published ──► signs ──► only published ──► forgotten
//!              1 h          until the next signs    24 h
//! ```

use std::time::Duration;

/// Time for which a key is published before it signs: whoever keeps the keys for a while has it then.
const AHEAD: Duration = Duration::from_hours(1);
/// Time for which a key is published after it has signed for the last time: longer than any token
/// lives, so that whoever looks at one later, in a log perhaps, still finds it.
const BEHIND: Duration = Duration::from_hours(24);

/// Age of a key, for [`Rotation::of`].
pub type KeyAge = Duration;

/// Work on keys at one moment. Numbers are places in the list that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// The key that signs; none if there is no key.
    pub signing: Option<usize>,
    /// True if another is to be made.
    pub wants_key: bool,
    /// The keys that nobody needs any more.
    pub forgotten: Vec<usize>,
}

impl Rotation {
    /// Work on keys of these ages, the newest first, where each is to sign for `period`.
    pub fn of(ages: &[KeyAge], period: Duration) -> Self {
        let oldest = ages.len().checked_sub(1);
        // The first of all signs at once: there is no other.
        let signing = ages.iter().position(|age| *age >= AHEAD).or(oldest);
        let wants_key = ages.first().is_none_or(|newest| *newest >= period);
        // Since the next one signs, its predecessor does not.
        let retired = |number: &usize| {
            let next = number.checked_sub(1).and_then(|next| ages.get(next));
            next.is_some_and(|next| *next >= AHEAD + BEHIND)
        };
        Self {
            signing,
            wants_key,
            forgotten: (0..ages.len()).filter(retired).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_hours(30 * 24);
    const HOUR: Duration = Duration::from_hours(1);

    #[track_caller]
    fn check(hours: &[u32], signing: Option<usize>, wants_key: bool, forgotten: &[usize]) {
        let ages: Vec<_> = hours.iter().map(|hours| HOUR * *hours).collect();
        let forgotten = forgotten.to_vec();
        let expected = Rotation {
            signing,
            wants_key,
            forgotten,
        };
        assert_eq!(Rotation::of(&ages, PERIOD), expected, "{hours:?}");
    }

    #[test]
    fn a_key_is_published_before_and_after_it_signs() {
        check(&[], None, true, &[]);
        check(&[0], Some(0), false, &[]);
        check(&[719], Some(0), false, &[]);
        check(&[720], Some(0), true, &[]);
        check(&[0, 720], Some(1), false, &[]);
        check(&[1, 721], Some(0), false, &[]);
        check(&[24, 744], Some(0), false, &[]);
        check(&[25, 745], Some(0), false, &[1]);
        // A server that stood still for long.
        check(&[2000, 2720, 3440], Some(0), true, &[1, 2]);
    }
}
