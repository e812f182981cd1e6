//! The database of teams, keys, templates and sandboxes, the living and the ended.
//!
//! SQLite in one file, written by one thread. A write is put into a bounded queue and gives a
//! [`Receipt`]; the thread commits whatever has gathered in one transaction, and the receipt
//! resolves. No commit waits for the disk, so a caller waits for a memory copy and not for a
//! platter:
//!
//! - **The process is killed** (`kill -9`, a crash, an upgrade): nothing whose receipt resolved
//!   is lost, because the kernel already has it.
//! - **The host loses power**: up to about [`CHECKPOINT_INTERVAL`] of the newest writes are
//!   lost, always the newest and never a part of one. [`Store::flush`] waits until nothing can
//!   be lost either way.
//!
//! Reads use connections of their own and see every write whose receipt has resolved.

mod builds;
mod checkpoint;
mod checkpoints;
mod column;
mod deliveries;
mod error;
mod events;
mod exposition;
mod idempotency;
mod identity_keys;
mod keys;
mod migrations;
mod readers;
mod reserve;
mod sandboxes;
mod secrets;
mod server_keys;
mod store;
mod tags;
mod teams;
mod templates;
mod volumes;
mod webhooks;
mod writer;

pub use builds::{
    BuildDetail, BuildLog, BuildRecord, BuildRetention, BuildStatus, Builds, LogFilter, LogLine,
    PrunedBuilds, StartOutcome, StartedBuild, UnfinishedBuild, VersionDeletion,
};
pub use checkpoint::CHECKPOINT_INTERVAL;
pub use checkpoints::{CheckpointFilter, CheckpointRecord, CheckpointTotal, Checkpoints};
pub use deliveries::{
    AttemptRecord, Deliveries, DeliveryCounts, DeliveryFilter, DeliveryRecord, DeliveryVerdict,
    DueDelivery,
};
pub use error::StoreError;
pub use events::{EventFilter, EventRecord, Events, NetworkChange};
pub use idempotency::{Idempotency, IdempotentRequest};
pub use identity_keys::{IdentityKeyRecord, IdentityKeys};
pub use keys::{Key, Keys};
pub use sandboxes::{Order, Position, SandboxFilter, SandboxRecord, Sandboxes, Span, Spawns};
pub use secrets::{SealedValue, SecretInsert, SecretRecord, Secrets};
pub use server_keys::ServerKeys;
pub use store::Store;
pub use tags::{TagAssignment, Tags, Version};
pub use teams::{Standing, Team, Teams};
pub use templates::{
    DeleteOutcome, NewBuild, RequestOutcome, RequestedBuild, TemplateRecord, Templates,
};
pub use volumes::{VolumeRecord, Volumes};
pub use webhooks::{SealedSignature, WebhookChange, WebhookRecord, WebhookRemoval, Webhooks};
pub use writer::{Metrics, Receipt};
