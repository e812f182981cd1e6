//! A sandbox as it is ordered, and as it is seen.

use std::sync::Arc;

use hmac::{Hmac, Mac};
use jiff::Timestamp;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::{
    Checkpoint, Egress, Ending, ExecutionId, ImageKind, Ingress, KeptIn, Mount, NodeId, Obstacle,
    OnTimeout, Phase, Redacted, SandboxId, Secrets, TemplateImage, TenantId, random_bytes,
};

/// Token that opens a sandbox's agent: 64 hexadecimal characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken(Redacted<Box<str>>);

impl AccessToken {
    /// A new token that nobody can guess.
    pub fn random() -> Self {
        Self::from_bytes(&random_bytes::<32>())
    }

    /// The token that goes with this one and opens less: the sandbox's contexts, and ports whose
    /// owner has closed them. It tells nothing about this one, and whoever has this one needs no
    /// record of it.
    pub fn traffic(&self) -> Self {
        let mut code = Hmac::<Sha256>::new_from_slice(self.reveal().as_bytes())
            .expect("a key may have any length");
        code.update(b"sandbox-traffic");
        Self::from_bytes(&code.finalize().into_bytes())
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        Self(Redacted::new(hex::encode(bytes).into()))
    }

    /// A token kept earlier, from the database.
    pub fn from_record(text: &str) -> Self {
        Self(Redacted::new(text.into()))
    }

    /// The text of the token, for the one who may have it.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }

    /// Returns true if `candidate` is this token, in a time that does not depend on where they
    /// differ.
    pub fn matches(&self, candidate: &str) -> bool {
        self.reveal().as_bytes().ct_eq(candidate.as_bytes()).into()
    }
}

/// The properties that two sandboxes must share for a spare of one to become the other.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxKind {
    /// Template that it is made of.
    pub template: TemplateImage,
    /// Tenant with whose sandboxes it may share what is warmed: a spare lies below its tenant's
    /// zygote before anybody has asked for it.
    pub tenant: TenantId,
}

/// The place of a new sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Host that is to run it.
    pub node: NodeId,
    /// Id that it is to have: that of a spare, if the host has one of its kind.
    pub id: SandboxId,
}

/// Everything a node needs to run a sandbox.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// Unique id of the sandbox.
    pub id: SandboxId,
    /// Template that it is made of.
    pub template: TemplateImage,
    /// Tenant with whose sandboxes it may share what is warmed.
    pub tenant: TenantId,
    /// The caller's environment, for every process in it.
    pub env: Redacted<Vec<(String, String)>>,
    /// Values to mask in the output of code.
    pub secrets: Secrets,
    /// Token that opens its agent; `None` for a sandbox whose owner asked for no token.
    pub access_token: Option<AccessToken>,
    /// True if callers from outside need not show that token, as clients of the first generation
    /// expect that did not ask for `secure`.
    pub is_open: bool,
    /// Rule for requests to its ports.
    pub ingress: Arc<Ingress>,
    /// Policy for its outgoing connections.
    pub egress: Egress,
    /// Volumes that are shown in it.
    pub mounts: Vec<Mount>,
    /// Checkpoint that it begins as a copy of; `None` if it begins with its template.
    pub checkpoint: Option<Checkpoint>,
    /// Time to live, counted from the moment it is ready.
    pub lifetime: std::time::Duration,
    /// Its fate when that time is over.
    pub on_timeout: OnTimeout,
    /// True if requests to it resume it when it is paused with its memory.
    pub auto_resume: bool,
}

impl SandboxSpec {
    /// The kind of the sandbox, by which a spare is found for it.
    pub fn kind(&self) -> SandboxKind {
        SandboxKind {
            template: self.template.clone(),
            tenant: self.tenant.clone(),
        }
    }
}

/// A sandbox as seen from outside its node, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxStatus {
    /// Unique id of the sandbox.
    pub id: SandboxId,
    /// Id of this run of it.
    pub execution: ExecutionId,
    /// Phase in its life.
    pub phase: Phase,
    /// Time at which it became ready.
    pub started_at: Timestamp,
    /// Time at which it will end if nobody asks for more time; for one that is paused or gone, at
    /// which it was paused or ended.
    pub ends_at: Timestamp,
    /// Its fate at that time.
    pub on_timeout: OnTimeout,
    /// Policy for its outgoing connections.
    pub egress: Egress,
    /// The parts of it that are kept, if it is paused.
    pub paused: Option<ImageKind>,
    /// The form in which it is kept if it is paused, or was kept before this run of it; `None` if it was
    /// never paused.
    pub kept_in: Option<KeptIn>,
    /// Obstacle that keeps a paused one from being written to an image, as far as that was tried.
    pub obstacle: Option<Obstacle>,
    /// True if its agent did not answer when it was paused.
    pub agent_was_silent: bool,
    /// Reason and usage of its end, if it has ended.
    pub ending: Option<Ending>,
}

/// The relation of a new deadline to the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlineMode {
    /// It replaces the old one, earlier or later.
    Set,
    /// The later of the two holds; the old one stays as it is, to the microsecond.
    Extend,
}

/// There is no such sandbox, or no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sandbox is not there")]
pub struct NotHere;

/// Failure to end a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KillError {
    /// It is gone, whoever ended it, or was never there.
    #[error(transparent)]
    NotHere(#[from] NotHere),
    /// It was killed and cannot be reached, but something of it could not be removed: its status is still
    /// published. The node tries again until nothing is left; asking again tries at once.
    #[error("something of the sandbox could not be removed")]
    Stuck,
}

/// The fate of running sandboxes when the server stops in good order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenStopped {
    /// They run on; the next server adopts them.
    Leave,
    /// They end, with the reason `server_stopped`.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_matches_itself_alone_and_never_prints() {
        let token = AccessToken::random();
        assert!(token.matches(token.reveal()));
        assert!(!token.matches(&token.reveal()[1..]));
        assert!(!token.matches(AccessToken::random().reveal()));
        assert!(!format!("{token:?}").contains(token.reveal()));
    }

    #[test]
    fn a_traffic_token_is_always_the_same_and_opens_nothing_but_traffic() {
        let token = AccessToken::from_record("secret");
        let traffic = token.traffic();
        // A change would lock out callers of sandboxes that a server has adopted.
        assert_eq!(
            traffic.reveal(),
            "e5656403d376a6b3d51b1fcec639027f29c7bb84b62de52f22440dc39a423bd5"
        );
        assert!(!token.matches(traffic.reveal()) && !traffic.matches(token.reveal()));
        assert_ne!(traffic, AccessToken::from_record("secret2").traffic());
    }
}
