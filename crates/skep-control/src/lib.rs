//! The control plane: teams, keys, quotas, and the sandboxes and templates they own.
//!
//! [`Control`] decides and keeps the database; it runs nothing itself. It uses the hosts that run
//! sandboxes through the trait [`Nodes`] and templates through [`Templates`]; both have a fake
//! beside them.
//!
//! A sandbox of another team does not exist: every look-up takes the caller, and nothing here
//! says more than "not found".

mod caller;
mod connect;
mod control;
mod copy;
mod create;
mod deadline;
mod housekeeping;
mod idempotency;
mod key;
mod keys;
mod list;
mod logs;
mod metrics;
mod nodes;
mod pause;
mod quota;
mod records;
mod registry;
mod reports;
mod sandbox;
mod snapshot;
mod team_limits;
mod team_metrics;
mod template_list;
mod templates;
mod warm;

pub use caller::{AuthError, Blocked, Caller};
pub use connect::{ConnectOrder, Connected, IfRunning};
pub use control::{Control, Parts};
pub use copy::ForkRequest;
pub use create::{CreateError, CreateRequest, QuotaReached};
pub use deadline::{DeadlineError, Lifetime, LifetimeError};
pub use housekeeping::Retention;
pub use idempotency::{IdempotencyError, IdempotencyKey, IdempotencyKeyError, RequestDigest};
pub use key::{ApiKey, MalformedKey};
pub use keys::{KeyError, KeyMask, NewKey};
pub use list::{Cursor, CursorError, ListQuery, Page, SortOrder, States};
pub use logs::{LogDirection, LogQuery};
pub use metrics::{MetricPoint, MetricRange};
pub use nodes::{Admitted, FakeNodes, KillError, NodeCreateError, Nodes};
pub use pause::{ChangeError, PauseOrder};
pub use quota::{Full, Quota, QuotaGuard};
pub use records::{RecordPage, RecordQuery};
pub use reports::{Living, Reported, Reports};
pub use sandbox::{Sandbox, SandboxNotFound, StopError};
pub use snapshot::{
    ForeignName, SnapshotCursor, SnapshotError, SnapshotName, SnapshotOrder, SnapshotPage,
    SnapshotQuery,
};
pub use team_limits::TeamLimits;
pub use team_metrics::{BackwardRange, TeamPoint, TimeRange};
pub use template_list::{ListedTemplate, TemplateError};
pub use templates::{FakeTemplates, ResolveError, TemplateInfo, Templates};

// Rows of sandboxes, keys and teams are the same here.
pub use skep_store::{CheckpointRecord, Key, Order, SandboxRecord, Standing, StoreError, Team};
