//! Limits that can be written only when nobody is in the sandbox's own group.

use std::fs::File;

/// Files below the directory of a sandbox's group, and what is to be written there, in this order,
/// once the launcher has left the group.
#[derive(Debug)]
pub struct Settings {
    /// The directory.
    pub directory: File,
    /// Paths below it, and what is written there.
    pub files: Vec<(String, String)>,
    /// Directories below it that the sandbox's agent is to own with all their files, some of which
    /// are there only after that.
    pub given: Vec<String>,
}

#[cfg(test)]
impl Settings {
    /// Writes them as the launcher does.
    pub(crate) fn write(&self) -> std::io::Result<()> {
        use rustix::fs::{Mode, OFlags, openat};
        for (path, text) in &self.files {
            let file = openat(&self.directory, path, OFlags::WRONLY, Mode::empty())?;
            rustix::io::write(file, text.as_bytes())?;
        }
        Ok(())
    }
}
