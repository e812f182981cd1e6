//! Builds of templates, as callers order them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::uuid::Uuid;
use crate::{LayerKey, LogLevel, Redacted, Resources, TeamId, TemplateId, TemplateImage};

/// A build of a template, and the version that it makes: a random UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuildId(Uuid);

/// The text is not the id of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the id of a build is a UUID")]
pub struct BuildIdError;

impl BuildId {
    /// A new id that nobody can guess.
    pub fn random() -> Self {
        Self(Uuid::random())
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for BuildId {
    type Err = BuildIdError;

    fn from_str(text: &str) -> Result<Self, BuildIdError> {
        Uuid::parse(text).map(Self).ok_or(BuildIdError)
    }
}

/// A build that a team has ordered, with everything that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOrder {
    /// The build.
    pub build: BuildId,
    /// The template that it makes a version of.
    pub template: TemplateId,
    /// The team that pays for it; layers and uploads are reused within it and nowhere else.
    pub team: TeamId,
    /// Base that it begins with.
    pub base: BuildBase,
    /// Steps that follow, in this order.
    pub steps: Vec<BuildStep>,
    /// Command that runs in every sandbox of the template; `None` if there is none, or if that of
    /// the base template is kept.
    pub start_command: Option<String>,
    /// Command that succeeds once a sandbox is ready.
    pub ready_command: Option<String>,
    /// Limits of the template's sandboxes.
    pub resources: Resources,
    /// True to make the base anew, too.
    pub force: bool,
}

/// Base of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildBase {
    /// An image of a registry, with the credentials for it. They are in no record and in no log.
    Image {
        /// Reference as the caller wrote it.
        reference: String,
        /// Credentials of the caller.
        credentials: Option<RegistryCredentials>,
    },
    /// A template, resolved for the team.
    Template {
        /// Reference as the caller wrote it.
        reference: String,
        /// The version that it meant when the build started.
        image: Box<TemplateImage>,
        /// Environment, user and directory that the steps of that version ended with.
        context: BuildContext,
    },
}

/// Credentials for a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryCredentials {
    /// A user name and a password.
    Basic {
        /// User name.
        username: String,
        /// Password or access token of that user.
        password: Redacted<String>,
    },
    /// Keys of an AWS account, for its registry.
    Aws {
        /// Id of the access key.
        access_key_id: String,
        /// The secret of it.
        secret_access_key: Redacted<String>,
        /// Region of the registry.
        region: String,
    },
    /// A service account of Google Cloud, as its JSON text.
    Gcp {
        /// The JSON text.
        service_account: Redacted<String>,
    },
}

/// One step of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildStep {
    /// Action of the step.
    pub instruction: Instruction,
    /// True to do it and all that follow, even if their layers are there.
    pub force: bool,
}

/// Action of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instruction {
    /// Runs a command in a login shell.
    Run {
        /// The command.
        command: String,
        /// The user that runs it, if not the one of the context.
        user: Option<String>,
    },
    /// Copies uploaded files.
    Copy {
        /// Source as the caller wrote it, relative to what was uploaded.
        source: String,
        /// Destination as the caller wrote it.
        destination: String,
        /// Owner, `user` or `user:group`; the user of the context if there is none.
        owner: Option<String>,
        /// Permissions, as octal digits.
        mode: Option<u32>,
        /// Name of the upload.
        files: FilesHash,
    },
    /// Copies files out of a version of a template.
    CopyFrom {
        /// Layers of that version, the lowest first.
        layers: Vec<LayerKey>,
        /// The files.
        copy: VersionCopy,
    },
    /// Sets variables, in this order.
    Environment(Vec<(String, String)>),
    /// Changes the directory.
    WorkDirectory(String),
    /// Changes the user.
    User {
        /// Name or number, perhaps with a group.
        name: String,
        /// True to let it become root without a password.
        administrator: bool,
    },
}

/// Files that are copied out of a version of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionCopy {
    /// Paths and patterns in that version, from its root on.
    pub sources: Vec<String>,
    /// Destination as the caller wrote it; a directory if it ends with a slash.
    pub destination: String,
    /// Owner, `user` or `user:group`; the numbers that they have there if there is none.
    pub owner: Option<String>,
    /// Permissions, as octal digits.
    pub mode: Option<u32>,
}

/// State that one step of a build leaves to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildContext {
    /// User that commands run as.
    pub user: String,
    /// Directory in which they run; the user's home if there is none.
    pub work_directory: Option<String>,
    /// Variables that they see.
    pub environment: BTreeMap<String, String>,
}

/// Name of an upload: the SHA-256 that its client made of it, in hexadecimal digits. What was
/// uploaded is never compared with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilesHash(String);

/// The text is not the name of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the hash of files has 64 lower-case hexadecimal digits")]
pub struct FilesHashError;

impl FilesHash {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FilesHash {
    type Err = FilesHashError;

    fn from_str(text: &str) -> Result<Self, FilesHashError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 64 && text.bytes().all(is_digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(FilesHashError)
        }
    }
}

/// Part of a build that an entry of its log, or its failure, belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BuildPhase {
    /// The image or template that it begins with.
    Base,
    /// A step, counted from 1.
    Step(usize),
    /// Start command, ready command, and the template itself.
    Finalize,
}

/// An entry in the log of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildLogEntry {
    /// Its level.
    pub level: LogLevel,
    /// The phase that it is from; `None` for what is said of the build as a whole.
    pub phase: Option<BuildPhase>,
    /// One line.
    pub message: String,
}

/// A build that has ended well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltTemplate {
    /// Layers of its sandboxes.
    pub image: TemplateImage,
    /// State for builds that take this one as their base.
    pub context: BuildContext,
    /// Bytes that it takes on the disk beyond its base.
    pub size: u64,
}

/// A build that has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BuildFailure {
    /// Step that failed; `None` if it was cancelled or the platform failed.
    pub phase: Option<BuildPhase>,
    /// The reason, in words that the caller may see.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_build_is_read_as_it_is_written() {
        let id = BuildId::random();
        let text = id.to_string();
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(text.as_bytes()[14], b'4');
        for wrong in [
            "",
            "default",
            &text.to_uppercase().replace(char::is_numeric, "A"),
            &text.replace('-', ""),
        ] {
            assert_eq!(wrong.parse::<BuildId>(), Err(BuildIdError), "{wrong}");
        }
    }

    #[test]
    fn the_hash_of_files_is_no_path() {
        let digits = "a".repeat(64);
        assert_eq!(digits.parse::<FilesHash>().unwrap().as_str(), digits);
        for wrong in ["", "../x", &"A".repeat(64), &"a".repeat(63)] {
            assert_eq!(wrong.parse::<FilesHash>(), Err(FilesHashError), "{wrong}");
        }
    }
}
