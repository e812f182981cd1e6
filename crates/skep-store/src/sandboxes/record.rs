//! Records of sandboxes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use skep_types::{
    AccessToken, Egress, Ending, IdentityTokens, Ingress, Mount, NodeId, OnTimeout, Phase,
    Resources, SandboxId, SandboxRun, TeamId, TemplateId,
};

/// A sandbox as it was ordered. None of this ever changes.
///
/// Its environment is not kept: its values are secrets, and its agent has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Id of the sandbox, which never returns.
    pub id: SandboxId,
    /// Team that owns it.
    pub team: TeamId,
    /// Host that runs it.
    pub node: NodeId,
    /// Template that it is made of.
    pub template: TemplateId,
    /// The name of that template at the time.
    pub template_name: String,
    /// Name of the template below it all: another than its own if it was made of a snapshot.
    pub base: String,
    /// Key-value pairs of its owner.
    pub metadata: BTreeMap<String, String>,
    /// Token that opens its agent.
    pub access_token: Option<AccessToken>,
    /// Rule for requests to its ports.
    pub ingress: Arc<Ingress>,
    /// The owner's choice of internet access, if they made one.
    pub internet: Option<bool>,
    /// Limits of processors, memory, disk and processes.
    pub resources: Resources,
    /// Time to live that was ordered.
    pub lifetime: Duration,
    /// Fate at the end of that time that was ordered. A resume may have changed it.
    pub on_timeout: OnTimeout,
    /// True if requests to it resume it.
    pub auto_resume: bool,
    /// Volumes in it.
    pub mounts: Vec<Mount>,
    /// Identity tokens that its header rules may name.
    pub identity: IdentityTokens,
    /// Time of the order.
    pub created_at: Timestamp,
}

impl Order {
    /// Destinations that it may reach.
    pub fn egress(&self) -> Egress {
        Egress::of_choice(self.internet)
    }
}

/// A sandbox as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRecord {
    /// The sandbox as it was ordered.
    pub order: Order,
    /// The latest run; `None` if it never started.
    pub run: Option<SandboxRun>,
    /// The end, if it has ended.
    pub ending: Option<Ending>,
}

impl SandboxRecord {
    /// Phase of the sandbox when its row was last written.
    pub fn phase(&self) -> Phase {
        match (&self.run, &self.ending) {
            (_, Some(_)) => Phase::Gone,
            (Some(run), None) if run.paused.is_some() => Phase::Paused,
            (Some(_), None) => Phase::Running,
            (None, None) => Phase::Starting,
        }
    }

    /// Position of the sandbox in a list.
    pub fn position(&self) -> Position {
        Position {
            created_at: self.order.created_at,
            id: self.order.id.clone(),
        }
    }
}

/// Selection of the sandboxes in a list.
#[derive(Debug, Clone)]
pub struct SandboxFilter {
    /// Only those of this team; `None` is every team's, for the operator.
    pub team: Option<TeamId>,
    /// Includes the ended ones if true.
    pub ended: bool,
    /// Only those after this place in the list.
    pub after: Option<Position>,
    /// Limit on the number of records.
    pub limit: u32,
}

/// A place in a list of sandboxes, which runs from the newest to the oldest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Time of the order of the sandbox there.
    pub created_at: Timestamp,
    /// Id of the sandbox; the smaller id comes first among equals.
    pub id: SandboxId,
}

/// Number of sandboxes made of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawns {
    /// Template that was started.
    pub template: TemplateId,
    /// Number of sandboxes made of it.
    pub count: u64,
    /// Time of the last order.
    pub last: Timestamp,
}

/// Time during which a sandbox ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Time at which it became ready.
    pub started_at: Timestamp,
    /// Time of its end; `None` if it runs.
    pub ended_at: Option<Timestamp>,
}
