//! The vocabulary of the domain.
//!
//! Everything here is a value: no clock, no files, no sockets, no runtime. A type that can be
//! constructed is valid, so nothing below the edges checks the same thing twice.

mod authenticated;
mod build;
mod capability;
mod capacity;
mod check;
mod checkpoint;
mod closest;
mod departure;
mod domain;
mod egress;
mod end;
mod event;
mod fair_share;
mod id;
mod identity;
mod ingress;
mod kept;
mod layer_file;
mod layer_key;
mod lifecycle;
mod log;
mod mount;

mod phase;
mod placeholder;
mod pool;
mod pulled_image;
mod random;
mod redacted;
mod request;
mod resources;
mod route;
mod run;
mod sandbox;
mod secrets;
mod sleeper;
mod template;
mod tenant;
mod transition;
mod uuid;
mod vault;
mod volume;
mod webhook;

pub use authenticated::{Authenticated, SentAfter};
pub use build::{
    BuildBase, BuildContext, BuildFailure, BuildId, BuildIdError, BuildLogEntry, BuildOrder,
    BuildPhase, BuildStep, BuiltTemplate, FilesHash, FilesHashError, Instruction,
    RegistryCredentials, VersionCopy,
};
pub use capability::{Capabilities, Capability, Unsupported};
pub use capacity::{AdmissionPolicy, Capacity, HostCapacity, HostResource, Promised, Reserve};
pub use check::{Check, CheckStatus};
pub use checkpoint::{Checkpoint, ImageKind, ImagePurpose};
pub use closest::closest;
pub use departure::Departure;
pub use domain::DomainName;
pub use egress::{
    AddressRange, AddressSpan, Connections, Destination, Egress, EgressError, EgressProxy,
    EgressProxyError, EgressProxyTlsWords, EgressProxyWords, EgressRules, HeaderName,
    HeaderNameError, HostName, HostNameError, HostPattern, HostRule, Names, PLATFORM_DENIED,
    ProxyAddress, ProxyHost, Reach, RequestLimits, RequestPattern, RequestPatternWords,
    RequestRule, RequestRuleError, RequestRuleWords, RequestRules, ValueRequest,
};
pub use end::{EndReason, Ending, Usage};
pub use event::EventKind;
pub use fair_share::fair_share;
pub use id::{CheckpointId, ExecutionId, IdError, NodeId, SandboxId, TeamId, TemplateId};
pub use identity::{IdentityTokenError, IdentityTokenWords, IdentityTokens, UnknownToken};
pub use ingress::{
    HostMask, HostMaskError, HttpsPorts, HttpsPortsError, Ingress, MOST_HTTPS_PORTS,
};
pub use kept::{KeptIn, Obstacle};
pub use layer_file::LayerFile;
pub use layer_key::{LayerKey, LayerKeyError};
pub use lifecycle::{
    OnTimeout, PauseRequest, Restart, ResumeRequest, ResumeStart, Resumed, RollBackRequest,
};
pub use log::{LogEntry, LogLevel};
pub use mount::{Mount, MountTarget, MountTargetError};

pub use phase::{Event, Phase, Refused, ShownState, Verdict};
pub use placeholder::{HeaderTemplate, MalformedPlaceholder, TemplatePart};
pub use pool::PoolPolicy;
pub use pulled_image::PulledImage;
pub use random::random_bytes;
pub use redacted::Redacted;
pub use request::LoggedRequest;
pub use resources::Resources;
pub use route::Route;
pub use run::{LivingSandbox, SandboxRun};
pub use sandbox::{
    AccessToken, DeadlineMode, KillError, NotHere, Placement, SandboxKind, SandboxSpec,
    SandboxStatus, WhenStopped,
};
pub use secrets::{Secrets, SecretsError};
pub use sleeper::Sleeper;
pub use template::{ReferenceError, TemplateImage, TemplateReference, TemplateStart};
pub use tenant::{Sharing, TenantId};
pub use transition::TransitionError;
pub use vault::{
    SecretId, SecretMetadata, SecretMetadataError, SecretName, SecretNameError, SecretSelector,
};
pub use volume::{VolumeId, VolumeIdError, VolumeName, VolumeNameError};
pub use webhook::{AttemptFailure, DeliveryId, DeliveryStatus, WebhookId};
