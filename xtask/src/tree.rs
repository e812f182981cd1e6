//! The files of the repository, read once.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// A text file of the repository.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// Path from the root of the repository, with `/` between the parts.
    pub(crate) path: String,
    /// Contents of the file.
    pub(crate) text: String,
}

impl TextFile {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The lines of the file with their numbers, from 1.
    pub(crate) fn numbered_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// Bytes that a search found, some of which happen to be text, and pages that are built of sources
/// that are read.
const NOT_WRITTEN: &[&str] = &["fuzz/corpus/", "console/dist/"];

/// Every text file that git knows or would add. Ignored files and binary ones are left out.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<TextFile>,
}

impl Tree {
    /// Reads the repository at `root`.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        // A checkout that belongs to another user is fine to list; git would refuse it.
        let output = Command::new("git")
            .args(["-c", "safe.directory=*", "ls-files", "-z"])
            .args(["--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("cannot run git")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("cannot list the files of `{}`: {said}", root.display());
        }
        let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
        let mut files = Vec::new();
        let written = |path: &&str| !NOT_WRITTEN.iter().any(|place| path.starts_with(place));
        for path in names.split_terminator('\0').filter(written) {
            let full = root.join(path);
            // Listed but deleted, or a link or submodule: there is no text to check.
            if !full.symlink_metadata().is_ok_and(|found| found.is_file()) {
                continue;
            }
            let bytes = std::fs::read(&full).with_context(|| format!("cannot read `{path}`"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(TextFile {
                    path: path.to_owned(),
                    text,
                });
            }
        }
        Ok(Self { files })
    }

    pub(crate) fn rust_files(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    pub(crate) fn find(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A tree that exists only in a test.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| TextFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        });
        Self {
            files: files.collect(),
        }
    }
}
