//! Tickets for the web console: who shows one is let in once, without having seen a key.
//!
//! They are kept in memory alone. A server that stops forgets them, and a link that was printed
//! before is worth nothing afterwards.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use skep_types::{TeamId, random_bytes};
use tokio::time::Instant;

/// Number of tickets of a team that wait for their use.
pub(crate) const MOST_TICKETS: usize = 32;

/// Random bytes of a ticket: nobody guesses them, so looking one up may take as long as it takes.
type Secret = [u8; 32];

/// The tickets that wait for their use. Shared by clones.
#[derive(Clone, Default)]
pub struct Tickets(Arc<Mutex<HashMap<Secret, Issued>>>);

struct Issued {
    team: TeamId,
    ends: Instant,
}

/// The team has as many tickets as it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("team has {MOST_TICKETS} tickets that wait for their use")]
pub struct TooManyTickets;

impl std::fmt::Debug for Tickets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tickets").finish_non_exhaustive()
    }
}

impl Tickets {
    /// A new ticket, which opens the console of a team once within `lifetime`.
    ///
    /// # Errors
    ///
    /// [`TooManyTickets`]
    pub fn issue(&self, team: &TeamId, lifetime: Duration) -> Result<String, TooManyTickets> {
        let now = Instant::now();
        let mut tickets = self.0.lock();
        tickets.retain(|_, issued| issued.ends > now);
        let waiting = tickets.values().filter(|issued| issued.team == *team);
        if waiting.count() >= MOST_TICKETS {
            return Err(TooManyTickets);
        }
        let secret: Secret = random_bytes();
        let issued = Issued {
            team: team.clone(),
            ends: now + lifetime,
        };
        tickets.insert(secret, issued);
        Ok(URL_SAFE_NO_PAD.encode(secret))
    }

    /// The team that a ticket was issued to, which is used up by that.
    pub(crate) fn redeem(&self, ticket: &str) -> Option<TeamId> {
        let secret = URL_SAFE_NO_PAD.decode(ticket).ok()?;
        let secret = Secret::try_from(secret).ok()?;
        let mut tickets = self.0.lock();
        let issued = tickets.remove(&secret)?;
        (issued.ends > Instant::now()).then_some(issued.team)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn a_ticket_opens_once_and_not_too_late() {
        let tickets = Tickets::default();
        let team = TeamId::random();
        let first = tickets.issue(&team, MINUTE).unwrap();
        assert_eq!(first.len(), 43);
        assert_eq!(tickets.redeem(&first), Some(team.clone()));
        assert_eq!(tickets.redeem(&first), None);
        let late = tickets.issue(&team, MINUTE).unwrap();
        tokio::time::advance(MINUTE).await;
        assert_eq!(tickets.redeem(&late), None);
        for wrong in ["", "x", &"A".repeat(43), &"A".repeat(4300)] {
            assert_eq!(tickets.redeem(wrong), None, "{wrong}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_team_has_so_many_and_others_have_their_own() {
        let tickets = Tickets::default();
        let (team, other) = (TeamId::random(), TeamId::random());
        for _ in 0..MOST_TICKETS {
            tickets.issue(&team, MINUTE).unwrap();
        }
        assert_eq!(tickets.issue(&team, MINUTE), Err(TooManyTickets));
        tickets.issue(&other, MINUTE).unwrap();
        tokio::time::advance(MINUTE).await;
        tickets.issue(&team, MINUTE).unwrap();
    }
}
