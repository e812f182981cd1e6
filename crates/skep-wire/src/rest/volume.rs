//! Volumes and their files.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Body of `POST /volumes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewVolume {
    /// Name among the volumes of the team.
    pub name: String,
    /// Options of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skep: Option<VolumeOptions>,
}

/// Options of a new volume that only this server knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeOptions {
    /// Limit on its content in MiB; the server has a usual one.
    #[serde(rename = "sizeMB", default, skip_serializing_if = "Option::is_none")]
    pub size_mb: Option<u32>,
    /// Name or id of the volume that it is to be a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// `true` if nobody is to write to it: a snapshot.
    #[serde(default)]
    pub read_only: bool,
}

/// A volume in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Its id.
    #[serde(rename = "volumeID")]
    pub volume_id: String,
    /// Its name.
    pub name: String,
    /// More about it; ours.
    pub skep: VolumeDetail,
}

/// Fields of a volume that are not in the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeDetail {
    /// Limit on its content in MiB.
    #[serde(rename = "sizeMB")]
    pub size_mb: u32,
    /// `true` if nobody may write to it.
    pub read_only: bool,
    /// Id of the volume that it was copied from, which may be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Time of its making.
    pub created_at: Timestamp,
    /// Bytes in use, where one volume is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Sandboxes that have it, where one volume is asked for.
    #[serde(rename = "usedBy", default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<Vec<String>>,
}

/// A volume with the token that opens its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeAndToken {
    /// The volume.
    #[serde(flatten)]
    pub volume: Volume,
    /// The token.
    pub token: String,
}

/// Something in a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeEntry {
    /// Its name.
    pub name: String,
    /// Kind of the entry.
    #[serde(rename = "type")]
    pub kind: VolumeEntryKind,
    /// Absolute path in the volume.
    pub path: String,
    /// Bytes in it.
    pub size: u64,
    /// Permissions, as a number.
    pub mode: u32,
    /// Id of the user in sandboxes who owns it.
    pub uid: u32,
    /// Id of the group in sandboxes that owns it.
    pub gid: u32,
    /// Time of the last reading.
    pub atime: Timestamp,
    /// Time of the last writing.
    pub mtime: Timestamp,
    /// Time of the last change of anything.
    pub ctime: Timestamp,
    /// The text of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Kinds of things in a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeEntryKind {
    /// A pipe, a socket or a device.
    Unknown,
    /// A plain file, or a link to one.
    File,
    /// A directory, or a link to one.
    Directory,
    /// A link that leads nowhere in the volume.
    Symlink,
}

/// Body of `PATCH /volumecontent/{id}/path`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeEntryChange {
    /// New owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// New group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// New permissions, as a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// Failure of work on the files of a volume. Its code is a word, unlike that of all other failures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeError {
    /// A stable word.
    pub code: String,
    /// Message with a hint.
    pub message: String,
}
