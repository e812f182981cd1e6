//! Abilities that not every isolation backend has.

use std::fmt;

use crate::ImageKind;

/// An ability of an isolation backend beyond starting and ending sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Lets all processes of a sandbox stand, and go on.
    Freeze,
    /// Writes a sandbox with its memory to an image and makes sandboxes from such images: pauses
    /// that need no memory of the host, snapshots, forks.
    Checkpoint,
    /// Writes the files of a sandbox to an image and starts sandboxes on such files.
    FilesystemImage,
    /// Shows volumes inside a sandbox.
    Mounts,
    /// Changes the networks that a running sandbox may reach.
    EgressChange,
}

impl Capability {
    /// All capabilities, for tables and tests.
    pub const ALL: [Self; 5] = [
        Self::Freeze,
        Self::Checkpoint,
        Self::FilesystemImage,
        Self::Mounts,
        Self::EgressChange,
    ];

    /// The ability to make and to use images of this kind.
    pub fn of_image(kind: ImageKind) -> Self {
        match kind {
            ImageKind::Memory => Self::Checkpoint,
            ImageKind::Filesystem => Self::FilesystemImage,
        }
    }

    /// The stable name of the capability.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Freeze => "freeze",
            Self::Checkpoint => "checkpoint",
            Self::FilesystemImage => "filesystem_image",
            Self::Mounts => "mounts",
            Self::EgressChange => "egress_change",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The abilities of one isolation backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities(u8);

impl Capabilities {
    /// Every capability.
    pub fn all() -> Self {
        Capability::ALL.into_iter().collect()
    }

    /// Returns true if `capability` is one of them.
    pub fn has(self, capability: Capability) -> bool {
        self.0 & bit(capability) != 0
    }

    /// Checks that `capability` is one of them.
    ///
    /// # Errors
    ///
    /// [`Unsupported`].
    pub fn need(self, capability: Capability) -> Result<(), Unsupported> {
        if self.has(capability) {
            Ok(())
        } else {
            Err(Unsupported(capability))
        }
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        let bits = capabilities.into_iter().map(bit);
        Self(bits.fold(0, |all, bit| all | bit))
    }
}

fn bit(capability: Capability) -> u8 {
    match capability {
        Capability::Freeze => 1,
        Capability::Checkpoint => 2,
        Capability::Mounts => 4,
        Capability::EgressChange => 8,
        Capability::FilesystemImage => 16,
    }
}

/// The backend that holds the sandbox does not have this ability. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the isolation of this host has no {0}")]
pub struct Unsupported(pub Capability);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_told_apart() {
        for capability in Capability::ALL {
            let one: Capabilities = [capability].into_iter().collect();
            for other in Capability::ALL {
                assert_eq!(one.has(other), capability == other);
            }
            assert_eq!(
                Capabilities::default().need(capability),
                Err(Unsupported(capability))
            );
            assert!(Capabilities::all().has(capability));
        }
    }
}
