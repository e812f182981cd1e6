//! What is kept of a sandbox.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use skep_types::{
    AccessToken, Egress, Ending, Phase, Resources, SandboxId, SandboxRun, TeamId, TemplateId,
};

/// A sandbox as it was ordered. None of this ever changes.
///
/// Its environment is not kept: its values are secrets, and its agent has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its name.
    pub id: SandboxId,
    /// Whose it is.
    pub team: TeamId,
    /// What it is made of.
    pub template: TemplateId,
    /// The name of that template at the time.
    pub template_name: String,
    /// What its owner wrote on it.
    pub metadata: BTreeMap<String, String>,
    /// What opens its agent.
    pub access_token: Option<AccessToken>,
    /// Whether its owner asked for the internet, if they said anything.
    pub internet: Option<bool>,
    /// Its limits.
    pub resources: Resources,
    /// How long it was ordered for.
    pub lifetime: Duration,
    /// When it was ordered.
    pub created_at: Timestamp,
}

impl Order {
    /// Whom it may talk to.
    pub fn egress(&self) -> Egress {
        match self.internet {
            Some(false) => Egress::None,
            Some(true) | None => Egress::Internet,
        }
    }
}

/// A sandbox as it is in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRecord {
    /// As it was ordered.
    pub order: Order,
    /// Its latest run; `None` if it never started.
    pub run: Option<SandboxRun>,
    /// How it ended, if it did.
    pub ending: Option<Ending>,
}

impl SandboxRecord {
    /// Where the sandbox was in its life when the record was last written.
    pub fn phase(&self) -> Phase {
        match (&self.run, &self.ending) {
            (_, Some(_)) => Phase::Gone,
            (Some(_), None) => Phase::Running,
            (None, None) => Phase::Starting,
        }
    }

    /// Where it stands in a list.
    pub fn position(&self) -> Position {
        Position {
            created_at: self.order.created_at,
            id: self.order.id.clone(),
        }
    }
}

/// Which sandboxes a list shows.
#[derive(Debug, Clone)]
pub struct SandboxFilter {
    /// Only those of this team; `None` is every team's, for the operator.
    pub team: Option<TeamId>,
    /// Whether the ended are shown too.
    pub ended: bool,
    /// Only those after this place in the list.
    pub after: Option<Position>,
    /// At most so many.
    pub limit: u32,
}

/// A place in a list of sandboxes, which runs from the newest to the oldest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// When the sandbox there was ordered.
    pub created_at: Timestamp,
    /// Which it is; the smaller id comes first among equals.
    pub id: SandboxId,
}

/// How often a template was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawns {
    /// The template.
    pub template: TemplateId,
    /// How many sandboxes were made of it.
    pub count: u64,
    /// When the last one was ordered.
    pub last: Timestamp,
}

/// When a sandbox ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it became ready.
    pub started_at: Timestamp,
    /// When it ended; `None` if it runs.
    pub ended_at: Option<Timestamp>,
}
