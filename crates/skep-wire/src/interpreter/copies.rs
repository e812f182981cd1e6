//! Copies of a context's memory: the bodies of `POST /contexts/{id}/fork`, `/checkpoints` and
//! `/rollback`.

use serde::{Deserialize, Serialize};

/// The body of `POST /contexts/{id}/fork` and of `POST /contexts/{id}/checkpoints`, which may be
/// left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyRequest {
    /// True if files are to be copied too, which is refused: only whole sandboxes have copies of
    /// their files.
    #[serde(default)]
    pub files: bool,
}

/// The body of `POST /contexts/{id}/rollback`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// The checkpoint to go back to.
    pub checkpoint_id: String,
    /// True if files are to be taken back too, which is refused as in [`CopyRequest`].
    #[serde(default)]
    pub files: bool,
}

/// A state of a context that can be gone back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Id of the checkpoint, unique within its context.
    pub id: String,
    /// The checkpoint that its state descends from.
    pub parent_id: Option<String>,
    /// Time at which it was made, in RFC 3339.
    pub created_at: String,
    /// True if the present state of the context descends from this one directly.
    pub current: bool,
    /// Reason for which it cannot be gone back to any more, in the words of an outcome.
    pub lost: Option<String>,
}
