//! Isolation between sandboxes in what is warmed ahead of need.

use std::fmt;
use std::str::FromStr;

use crate::{IdError, TeamId};

/// Name of the circle of all teams, which is no team's id.
const EVERYBODY: &str = "everybody";

/// A circle of sandboxes that trust each other with a common zygote and with sandboxes that are
/// ready before anybody asks. Sandboxes of two tenants share neither.
///
/// Services that start sandboxes only compare it: that a tenant is a team is known to control,
/// which made the order. It needs no row in the database, because what is shared ends with the
/// server; its text is for the images of sandboxes, which are resumed as the tenant's they were.
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

impl fmt::Display for TenantId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Circle::Team(team) => formatter.write_str(team.as_str()),
            Circle::Everybody => formatter.write_str(EVERYBODY),
        }
    }
}

impl FromStr for TenantId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let circle = match text {
            EVERYBODY => Circle::Everybody,
            team => Circle::Team(team.parse()?),
        };
        Ok(Self(circle))
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
    fn a_tenant_reads_back_from_its_text() {
        for sharing in [Sharing::WithinTeam, Sharing::BetweenTeams] {
            let tenant = TenantId::new(&TeamId::random(), sharing);
            assert_eq!(tenant.to_string().parse(), Ok(tenant));
        }
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
