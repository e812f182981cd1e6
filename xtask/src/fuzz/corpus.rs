//! The corpus of one target: an archive in the repository, a directory while it is used.
//!
//! Inputs are thousands of small files with meaningless names. One archive per target keeps them
//! out of listings and searches of the source tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// A committed archive, and the directory that it is unpacked to.
#[derive(Debug)]
pub(crate) struct Corpus {
    archive: PathBuf,
    directory: PathBuf,
}

impl Corpus {
    pub(crate) fn new(archive: PathBuf, directory: PathBuf) -> Self {
        Self { archive, directory }
    }

    /// Unpacks the archive, replacing what an earlier one left. A target without an archive has
    /// an empty corpus.
    pub(crate) fn unpack(&self) -> anyhow::Result<&Path> {
        super::campaign::remove(&self.directory)?;
        super::campaign::make(&self.directory)?;
        if self.archive.exists() {
            tar(Command::new("tar")
                .args(["--extract", "--gzip", "--file"])
                .arg(&self.archive)
                .arg("--directory")
                .arg(&self.directory))?;
        }
        Ok(&self.directory)
    }

    /// Replaces the archive by the files in `directory`. The same files make the same bytes.
    pub(crate) fn pack(&self, directory: &Path) -> anyhow::Result<()> {
        let parent = self.archive.parent().expect("an archive is in a directory");
        super::campaign::make(parent)?;
        let new = self.archive.with_extension("new");
        tar(Command::new("tar")
            .args(["--create", "--sort=name", "--mtime=@0", "--mode=0644"])
            .args(["--owner=0", "--group=0", "--numeric-owner"])
            // Without its own name and time in the head, which gzip would write by default.
            .args(["--use-compress-program=gzip --no-name --best", "--file"])
            .arg(&new)
            .arg("--directory")
            .arg(directory)
            .arg("--")
            .args(file_names(directory)?))?;
        fs::rename(&new, &self.archive)
            .with_context(|| format!("cannot replace `{}`", self.archive.display()))
    }
}

fn file_names(directory: &Path) -> anyhow::Result<Vec<std::ffi::OsString>> {
    let list = || -> std::io::Result<Vec<_>> {
        fs::read_dir(directory)?
            .map(|entry| Ok(entry?.file_name()))
            .collect()
    };
    list().with_context(|| format!("cannot list `{}`", directory.display()))
}

fn tar(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().context("cannot start tar")?;
    ensure!(
        output.status.success(),
        "tar failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corpus_comes_out_of_its_archive_as_it_went_in() {
        let directory = tempfile::tempdir().unwrap();
        let inputs = directory.path().join("inputs");
        fs::create_dir(&inputs).unwrap();
        for (name, content) in [("a", &b"\0\xff"[..]), ("b", b""), ("-c", b"--help")] {
            fs::write(inputs.join(name), content).unwrap();
        }
        let corpus = |name: &str| {
            Corpus::new(
                directory.path().join(format!("archives/{name}.tar.gz")),
                directory.path().join(name),
            )
        };
        let first = corpus("first");
        first.pack(&inputs).unwrap();
        let unpacked = first.unpack().unwrap();
        for name in ["a", "b", "-c"] {
            assert_eq!(
                fs::read(unpacked.join(name)).unwrap(),
                fs::read(inputs.join(name)).unwrap(),
                "{name}"
            );
        }
        let again = corpus("again");
        again.pack(unpacked).unwrap();
        assert_eq!(
            fs::read(&first.archive).unwrap(),
            fs::read(&again.archive).unwrap()
        );
    }

    #[test]
    fn a_target_without_an_archive_has_an_empty_corpus() {
        let directory = tempfile::tempdir().unwrap();
        let corpus = Corpus::new(
            directory.path().join("none.tar.gz"),
            directory.path().join("none"),
        );
        assert_eq!(fs::read_dir(corpus.unpack().unwrap()).unwrap().count(), 0);
    }
}
