//! Places for sockets, of which a team has so many.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Limit on the sockets of a team: ten tabs with a few terminals each.
pub(crate) const SEATS_PER_TEAM: usize = 64;

/// Sockets that are open, by team.
#[derive(Debug, Default)]
pub(crate) struct Seats(Mutex<HashMap<String, usize>>);

/// A place, given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    team: String,
}

impl Seats {
    /// A place for a socket of a team, unless all of its places are taken.
    pub(crate) fn take(self: &Arc<Self>, team: &str) -> Option<Seat> {
        let mut taken = self.0.lock();
        let count = taken.entry(team.to_owned()).or_default();
        if *count >= SEATS_PER_TEAM {
            return None;
        }
        *count += 1;
        Some(Seat {
            seats: Arc::clone(self),
            team: team.to_owned(),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.lock();
        if let Some(count) = taken.get_mut(&self.team) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.team);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_has_so_many_places_and_gives_them_back() {
        let seats = Arc::new(Seats::default());
        let mut taken: Vec<_> = (0..SEATS_PER_TEAM).map(|_| seats.take("a")).collect();
        assert!(taken.iter().all(Option::is_some));
        assert!(seats.take("a").is_none());
        assert!(seats.take("b").is_some());
        taken.pop();
        assert!(seats.take("a").is_some());
        taken.clear();
        assert!(seats.0.lock().is_empty());
    }
}
