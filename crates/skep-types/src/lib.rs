//! The vocabulary of the domain.
//!
//! Everything here is a value: no clock, no files, no sockets, no runtime. A type that can be
//! constructed is valid, so nothing below the edges checks the same thing twice.

mod authenticated;
mod capacity;
mod domain;
mod end;
mod fair_share;
mod id;
mod log;
mod network;
mod phase;
mod pool;
mod random;
mod redacted;
mod resources;
mod run;
mod sandbox;
mod secrets;
mod template;
mod tenant;

pub use authenticated::Authenticated;
pub use capacity::{AdmissionPolicy, Capacity, HostCapacity, HostResource, Promised, Reserve};
pub use domain::DomainName;
pub use end::{EndReason, Ending, Usage};
pub use fair_share::fair_share;
pub use id::{ExecutionId, IdError, SandboxId, TeamId, TemplateId};
pub use log::{LogEntry, LogLevel};
pub use network::{Egress, PLATFORM_DENIED};
pub use phase::{Event, Phase, Refused, Verdict};
pub use pool::PoolPolicy;
pub use random::random_bytes;
pub use redacted::Redacted;
pub use resources::Resources;
pub use run::SandboxRun;
pub use sandbox::{AccessToken, DeadlineMode, NotHere, SandboxSpec, SandboxStatus, WhenStopped};
pub use secrets::{Secrets, SecretsError};
pub use template::{ReferenceError, TemplateImage, TemplateReference};
pub use tenant::{Sharing, TenantId};
