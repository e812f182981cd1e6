//! Isolation between sandboxes in what is warmed ahead of need.

use crate::TeamId;

/// A circle of sandboxes that trust each other with a common zygote and with sandboxes that are
/// ready before anybody asks. Sandboxes of two tenants share neither.
///
/// Services that start sandboxes only compare it: that a tenant is a team is known to control,
/// which made the order. It needs no row in the database, because what is shared ends with the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TenantId(Circle);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Circle {
    Team(TeamId),
    Everybody,
}

impl TenantId {
    /// The tenant of a team's sandbox whose template is shared like this.
    pub fn new(team: &TeamId, sharing: Sharing) -> Self {
        Self(match sharing {
            Sharing::WithinTeam => Circle::Team(team.clone()),
            Sharing::BetweenTeams => Circle::Everybody,
        })
    }
}

/// Rule about who may share what is warmed of a template: its zygote and sandboxes that are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Sandboxes of one team.
    #[default]
    WithinTeam,
    /// Sandboxes of all teams.
    BetweenTeams,
}

impl Sharing {
    /// Returns the rule for a template, if `configured` is the one for those that belong to
    /// everybody. One that a team brought runs that team's code, so it is never shared between
    /// teams.
    pub fn of_owner(owner: Option<&TeamId>, configured: Self) -> Self {
        match owner {
            Some(_) => Self::WithinTeam,
            None => configured,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_teams_are_one_tenant_only_where_they_share() {
        let teams = [TeamId::random(), TeamId::random()];
        let tenants = |sharing| teams.each_ref().map(|team| TenantId::new(team, sharing));
        let [one, other] = tenants(Sharing::default());
        assert_ne!(one, other);
        assert_eq!(one, TenantId::new(&teams[0], Sharing::WithinTeam));
        let [one, other] = tenants(Sharing::BetweenTeams);
        assert_eq!(one, other);
    }

    #[test]
    fn what_a_team_brought_is_its_own_whatever_is_configured() {
        let team = TeamId::random();
        for configured in [Sharing::WithinTeam, Sharing::BetweenTeams] {
            assert_eq!(
                Sharing::of_owner(Some(&team), configured),
                Sharing::WithinTeam
            );
            assert_eq!(Sharing::of_owner(None, configured), configured);
        }
    }
}
