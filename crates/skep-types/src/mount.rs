//! Volumes in a sandbox.

use crate::{VolumeId, VolumeName};

/// A volume that is shown inside a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The volume. The host knows where it is.
    pub volume: VolumeId,
    /// The name by which it was asked for.
    pub name: VolumeName,
    /// Place at which it is shown.
    pub target: MountTarget,
    /// True if the sandbox may not write to it.
    pub read_only: bool,
}

/// An absolute path at which a sandbox may have a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MountTarget(Box<str>);

/// Reason for which a path is not a place for a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MountTargetError {
    /// There is none.
    #[error("path cannot be empty")]
    Empty,
    /// It begins nowhere.
    #[error("path must be absolute")]
    Relative,
    /// It could mean another one.
    #[error("path must not contain any '.' or '..' components")]
    Dots,
    /// The platform's own files are there.
    #[error("path '{0}' belongs to the system; choose another, such as /mnt/data")]
    System(String),
    /// No file has such a name.
    #[error("path is not a path: it is too long or has a zero byte")]
    Unusable,
}

impl MountTarget {
    /// Directories that are the platform's, with all that is below them.
    const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];
    /// Directories in which a launch writes files of its own.
    const WRITTEN: [&str; 1] = ["/etc"];
    const LONGEST: usize = 1024;

    /// The path: absolute, without empty components and without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads a path.
    ///
    /// # Errors
    ///
    /// [`MountTargetError`].
    pub fn new(path: &str) -> Result<Self, MountTargetError> {
        if path.is_empty() {
            return Err(MountTargetError::Empty);
        }
        if !path.starts_with('/') {
            return Err(MountTargetError::Relative);
        }
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if parts.iter().any(|part| *part == "." || *part == "..") {
            return Err(MountTargetError::Dots);
        }
        if path.len() > Self::LONGEST || path.contains('\0') || parts.iter().any(|p| p.len() > 255)
        {
            return Err(MountTargetError::Unusable);
        }
        let clean = format!("/{}", parts.join("/"));
        let first = parts.first().map(|part| format!("/{part}"));
        let is_system = first.is_none_or(|first| Self::SYSTEM.contains(&first.as_str()));
        if is_system || Self::WRITTEN.contains(&clean.as_str()) {
            return Err(MountTargetError::System(clean));
        }
        Ok(Self(clean.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_clean_absolute_path_outside_the_system() {
        for (path, clean) in [
            ("/mnt/a", "/mnt/a"),
            ("//mnt//a/", "/mnt/a"),
            ("/run/x", "/run/x"),
            ("/process", "/process"),
        ] {
            assert_eq!(MountTarget::new(path).unwrap().as_str(), clean);
        }
        for (path, reason) in [
            ("", "path cannot be empty"),
            ("mnt", "path must be absolute"),
            (
                "/a/../b",
                "path must not contain any '.' or '..' components",
            ),
            ("/./a", "path must not contain any '.' or '..' components"),
        ] {
            assert_eq!(MountTarget::new(path).unwrap_err().to_string(), reason);
        }
        for path in [
            "/",
            "//",
            "/proc",
            "/proc/self",
            "/sys/fs",
            "/dev/shm",
            "/etc/",
        ] {
            assert!(matches!(
                MountTarget::new(path),
                Err(MountTargetError::System(_))
            ));
        }
        for path in [format!("/{}", "x".repeat(256)), "/a\0".to_owned()] {
            assert_eq!(MountTarget::new(&path), Err(MountTargetError::Unusable));
        }
    }
}
