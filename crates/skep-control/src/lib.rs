//! The control plane: teams, keys, quotas, and the sandboxes and templates they own.
//!
//! [`Control`] decides and keeps the database; it runs nothing itself. It uses the hosts that run
//! sandboxes through the trait [`Nodes`], templates through [`Templates`], and whoever builds new
//! ones through [`Builds`] and [`Uploads`]; each has a fake beside it.
//!
//! A sandbox of another team does not exist: every look-up takes the caller, and nothing here
//! says more than "not found".

mod build_housekeeping;
mod builds;
mod caller;
mod connect;
mod control;
mod copy;
mod create;
mod deadline;
mod egress_proxy;
mod events;
mod fill;
mod housekeeping;
mod idempotency;
mod identity;
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
mod team_templates;
mod template_changes;
mod template_list;
mod template_tags;
mod templates;
mod uploads;
mod vault;
mod vendor_images;
mod version_deletion;
mod version_detail;
mod version_name;
mod version_request;
mod version_start;
mod version_status;
mod volume_files;
mod volume_mounts;
mod volumes;
mod warm;
mod webhook_deliveries;
mod webhooks;

pub use builds::{BuildReports, Builds, CollectError, FakeBuilds};
pub use caller::{AuthError, Blocked, Caller};
pub use connect::{ConnectOrder, Connected, IfRunning};
pub use control::{Control, Parts, WeakControl};
pub use copy::ForkRequest;
pub use create::{CreateError, CreateRequest, QuotaReached};
pub use deadline::{DeadlineError, Lifetime, LifetimeError};
pub use events::{EventQuery, EventStream, build_of_event};
pub use fill::FillError;
pub use housekeeping::Retention;
pub use idempotency::{IdempotencyError, IdempotencyKey, IdempotencyKeyError, RequestDigest};
pub use identity::IdentityError;
pub use key::{ApiKey, MalformedKey};
pub use keys::{KeyError, KeyMask, NewKey};
pub use list::{Cursor, CursorError, ListQuery, Page, SortOrder, States};
pub use logs::{LogDirection, LogQuery};
pub use metrics::{MetricPoint, MetricRange};
pub use nodes::{Admitted, FakeNodes, NodeCreateError, Nodes};
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
pub use template_list::{ListedTemplate, TemplateError, TemplateHistory};
pub use template_tags::ListedTag;
pub use templates::{FakeTemplates, LayerFiles, LayerInfo, ResolveError, TemplateInfo, Templates};
pub use uploads::{FakeUploads, FileLink, LinkError, Upload, UploadError, UploadLink, Uploads};
pub use vault::{SecretError, SecretValue, SecretValueError};
pub use version_detail::{VersionDetail, VersionHistory, VersionRow};
pub use version_name::{Tag, TagError, VersionName, VersionNameError};
pub use version_request::{
    RequestedVersion, ResourceError, ResourceRequest, VersionError, VersionRequest,
};
pub use version_start::{RequestedBase, RequestedStep, StartRequest};
pub use version_status::{BuildLogQuery, BuildView};
pub use volume_files::{FilesError, VolumeDownload, VolumeFiles};
pub use volume_mounts::{InvalidMounts, MountRequest, NO_BUCKETS};
pub use volumes::{NewVolume, VolumeRequestError};
pub use webhook_deliveries::{DeliveryPage, DeliveryQuery, OutgoingDelivery};
pub use webhooks::{NewWebhook, WebhookError, WebhookUpdate};

// Rows of sandboxes, templates, keys and teams are the same here.
pub use skep_store::{
    AttemptRecord, BuildRecord, BuildStatus, CheckpointRecord, DeliveryCounts, DeliveryRecord,
    DeliveryVerdict, EventRecord, Key, LogLine, NetworkChange, Order, SandboxRecord, SecretRecord,
    Standing, StoreError, Team, TemplateRecord, VolumeRecord, WebhookRecord,
};

// What tokens and their keys are.
pub use skep_identity::{Issuer, IssuerError, PublicKey};

// And what volumes are made of.
pub use skep_volume::{
    Attributes, Backend as VolumeBackend, ContentError, Entry as VolumeEntry, EntryKind,
    FakeVolumes, Ownership, PathError, VolumeError, VolumePath, VolumeUsage, WriteMode,
};
