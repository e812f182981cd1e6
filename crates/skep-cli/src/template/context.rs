//! The directory of a build: which of its files a `COPY` means, without those that are ignored.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use skep_dockerfile::{Ignore, Pattern};

use super::files::{Content, Files, Member};
use super::unpacked;

/// The directory of a build.
#[derive(Debug)]
pub(super) struct Context {
    root: PathBuf,
    ignore: Ignore,
}

/// Reason for which files cannot be copied.
#[derive(Debug, thiserror::Error)]
pub(super) enum ContextError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// An archive cannot be unpacked.
    #[error("cannot unpack `{archive}`: {source}")]
    Unpack {
        /// The archive.
        archive: String,
        /// The reason.
        source: io::Error,
    },
    /// A rule is no pattern.
    #[error("{}:{line}: {message}", path.display())]
    Rule {
        /// The file with the rule.
        path: PathBuf,
        /// Line of the rule.
        line: usize,
        /// Description of the fault.
        message: String,
    },
    /// A source is no pattern.
    #[error("{0}")]
    Pattern(String),
    /// A source is not there.
    #[error("there is no `{0}` in the directory of the build{hint}", hint = ignored(.1))]
    NoMatch(String, bool),
    /// A link leads out.
    #[error("`{0}` is a link that leads out of the directory of the build")]
    Outside(String),
    /// Something that is no file.
    #[error("`{0}` is no file, directory or symbolic link")]
    Kind(String),
    /// Several files would become one.
    #[error(
        "several files match, so the destination `{0}` must be a directory, with a slash at its end"
    )]
    NotADirectory(String),
}

fn ignored(is_ignored: &bool) -> &'static str {
    if *is_ignored {
        ", or .dockerignore leaves it out"
    } else {
        ""
    }
}

impl Context {
    /// The directory `root` with the rules of a Dockerfile: `NAME.dockerignore` beside it, or else
    /// `.dockerignore` in the directory.
    pub(super) fn open(root: &Path, dockerfile: &Path) -> Result<Self, ContextError> {
        let mut own = dockerfile.as_os_str().to_owned();
        own.push(".dockerignore");
        for path in [PathBuf::from(own), root.join(".dockerignore")] {
            let text = match fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(ContextError::Read { path, source }),
            };
            let ignore = Ignore::read(&text).map_err(|(line, error)| ContextError::Rule {
                path,
                line,
                message: error.to_string(),
            })?;
            return Ok(Self::new(root, ignore));
        }
        Ok(Self::new(root, Ignore::default()))
    }

    fn new(root: &Path, ignore: Ignore) -> Self {
        Self {
            root: root.to_owned(),
            ignore,
        }
    }

    /// The files that sources mean, as they are to be below a destination. With `unpacks` archives
    /// are what is in them.
    pub(super) fn files(
        &self,
        sources: &[String],
        destination: &str,
        unpacks: bool,
    ) -> Result<Files, ContextError> {
        let mut found = Vec::new();
        for source in sources {
            found.extend(self.matches(source)?);
        }
        let mut archives = BTreeMap::new();
        for path in found.iter().filter(|_| unpacks) {
            archives.extend(self.unpacked(path)?.map(|members| (path.clone(), members)));
        }
        if let [one] = found.as_slice()
            && !destination.ends_with('/')
            && !archives.contains_key(one)
            && !self.real(one)?.is_dir()
        {
            let mut files = Files::single(name_of(one));
            self.add_file(&mut files, one, &name_of(one))?;
            return Ok(files);
        }
        if found.len() > 1 && !destination.ends_with('/') {
            return Err(ContextError::NotADirectory(destination.to_owned()));
        }
        let mut files = Files::together();
        for path in &found {
            if let Some(members) = archives.remove(path) {
                for (name, member) in members {
                    files.add(&name, member);
                }
            } else if self.real(path)?.is_dir() {
                self.add_directory(&mut files, path, "")?;
            } else {
                self.add_file(&mut files, path, &name_of(path))?;
            }
        }
        Ok(files)
    }

    /// The members of a source that is an archive.
    fn unpacked(&self, path: &str) -> Result<Option<BTreeMap<String, Member>>, ContextError> {
        let real = self.real(path)?;
        if !real.is_file() {
            return Ok(None);
        }
        unpacked::members(&real).map_err(|source| ContextError::Unpack {
            archive: path.to_owned(),
            source,
        })
    }

    /// Paths that a source means, relative to the root and by name.
    fn matches(&self, source: &str) -> Result<Vec<String>, ContextError> {
        let names: Vec<&str> = source
            .split('/')
            .filter(|name| !matches!(*name, "" | "."))
            .collect();
        let mut found = vec![String::new()];
        for name in names {
            let mut next = Vec::new();
            for above in &found {
                next.extend(self.step(above, name)?);
            }
            found = next;
        }
        let was_there = !found.is_empty();
        // The directory itself is never left out, nor one in which an exception may be.
        found.retain(|path| {
            path.is_empty()
                || !self.ignore.excludes(path)
                || (self.ignore.has_exceptions() && self.root.join(path).is_dir())
        });
        if found.is_empty() {
            return Err(ContextError::NoMatch(source.to_owned(), was_there));
        }
        Ok(found)
    }

    /// Paths in a directory that one name of a source means.
    fn step(&self, above: &str, name: &str) -> Result<Vec<String>, ContextError> {
        if !Pattern::is_one(name) {
            let path = joined(above, name);
            let is_there = self.root.join(&path).symlink_metadata().is_ok();
            return Ok(if is_there { vec![path] } else { Vec::new() });
        }
        // Sources have no pattern for any number of directories.
        let single = name.replace("**", "*");
        let pattern =
            Pattern::read(&single).map_err(|error| ContextError::Pattern(error.to_string()))?;
        let directory = self.root.join(above);
        if !directory.is_dir() {
            return Ok(Vec::new());
        }
        let names = self.names_in(above)?;
        let meant = names.iter().filter(|name| pattern.matches(name));
        Ok(meant.map(|name| joined(above, name)).collect())
    }

    fn names_in(&self, directory: &str) -> Result<Vec<String>, ContextError> {
        let path = self.root.join(directory);
        let failed = |source| ContextError::Read {
            path: path.clone(),
            source,
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            names.push(
                entry
                    .map_err(failed)?
                    .file_name()
                    .to_string_lossy()
                    .into_owned(),
            );
        }
        names.sort();
        Ok(names)
    }

    /// Follows the links of a source. Its target must be in the directory of the build.
    fn real(&self, path: &str) -> Result<PathBuf, ContextError> {
        let canonical = |path: PathBuf| {
            let real = fs::canonicalize(&path);
            real.map_err(|source| ContextError::Read { path, source })
        };
        let real = canonical(self.root.join(path))?;
        if real.starts_with(canonical(self.root.clone())?) {
            Ok(real)
        } else {
            Err(ContextError::Outside(path.to_owned()))
        }
    }

    /// Adds a file that a source means; one that is a link is what it leads to.
    fn add_file(&self, files: &mut Files, path: &str, name: &str) -> Result<(), ContextError> {
        let real = self.real(path)?;
        self.add(files, &real, name)
    }

    /// Adds what is in a directory that a source means; links in it stay links.
    fn add_directory(
        &self,
        files: &mut Files,
        directory: &str,
        below: &str,
    ) -> Result<(), ContextError> {
        for name in self.names_in(directory)? {
            let (path, target) = (joined(directory, &name), joined(below, &name));
            let is_excluded = self.ignore.excludes(&path);
            let full = self.root.join(&path);
            let found = fs::symlink_metadata(&full).map_err(|source| ContextError::Read {
                path: full.clone(),
                source,
            })?;
            if !is_excluded {
                self.add(files, &full, &target)?;
            }
            if found.is_dir() && (!is_excluded || self.ignore.has_exceptions()) {
                self.add_directory(files, &path, &target)?;
            }
        }
        Ok(())
    }

    fn add(&self, files: &mut Files, full: &Path, target: &str) -> Result<(), ContextError> {
        use std::os::unix::fs::MetadataExt as _;
        let failed = |source| ContextError::Read {
            path: full.to_owned(),
            source,
        };
        let found = fs::symlink_metadata(full).map_err(failed)?;
        let content = if found.is_dir() {
            Content::Directory
        } else if found.is_symlink() {
            Content::Link(fs::read_link(full).map_err(failed)?)
        } else if found.is_file() {
            Content::File(full.to_owned(), found.len())
        } else {
            return Err(ContextError::Kind(full.display().to_string()));
        };
        files.add(
            target,
            Member {
                mode: found.mode() & 0o7777,
                modified: u64::try_from(found.mtime()).unwrap_or_default(),
                content,
            },
        );
        Ok(())
    }
}

fn joined(above: &str, name: &str) -> String {
    if above.is_empty() {
        name.to_owned()
    } else {
        format!("{above}/{name}")
    }
}

fn name_of(path: &str) -> String {
    let name = path.rsplit('/').next();
    name.unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(ignore: &str) -> (tempfile::TempDir, Context) {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        };
        for path in [
            "a.txt",
            "b.txt",
            "src/main.rs",
            "src/lib/x.rs",
            "target/big",
        ] {
            write(path);
        }
        std::os::unix::fs::symlink("a.txt", directory.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("out")).unwrap();
        fs::write(directory.path().join(".dockerignore"), ignore).unwrap();
        let context = Context::open(directory.path(), Path::new("/nowhere/Dockerfile")).unwrap();
        (directory, context)
    }

    #[track_caller]
    fn check(ignore: &str, sources: &[&str], destination: &str, expected: &str) {
        let (_directory, context) = directory(ignore);
        let sources: Vec<_> = sources.iter().map(|&source| source.to_owned()).collect();
        let found = match context.files(&sources, destination, true) {
            Ok(files) => format!("{} {}", files.source(), files.names().join(" ")),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{sources:?}");
    }

    #[test]
    fn a_file_keeps_its_name_and_a_directory_gives_its_contents() {
        check("", &["a.txt"], "/x", "a.txt a.txt");
        check("", &["a.txt"], "/x/", ". a.txt");
        check("", &["./src"], "/x", ". lib lib/x.rs main.rs");
        check("", &["*.txt"], "/x/", ". a.txt b.txt");
        check(
            "",
            &["*.txt", "src"],
            "/x/",
            ". a.txt b.txt lib lib/x.rs main.rs",
        );
        check("", &["a*"], "/x", "a.txt a.txt");
        check("", &["src/*/x.rs"], "/y", "x.rs x.rs");
        check("", &["link"], "/y", "link link");
    }

    #[test]
    fn an_archive_is_a_directory_for_add_and_a_file_for_copy() {
        let (directory, context) = directory("");
        let path = directory.path().join("a.tgz");
        let mut archive = Files::inline(&[("in/x".to_owned(), "1".to_owned())], "/x/").pack();
        let mut file = fs::File::create(path).unwrap();
        io::copy(&mut archive.as_mut().unwrap().file, &mut file).unwrap();
        let found = |unpacks| {
            let files = context.files(&["a.tgz".to_owned()], "/x", unpacks).unwrap();
            format!("{} {}", files.source(), files.names().join(" "))
        };
        assert_eq!(
            (found(true), found(false)),
            (". in/x".into(), "a.tgz a.tgz".into())
        );
    }

    #[test]
    fn what_is_ignored_is_not_there() {
        let all = ". .dockerignore a.txt b.txt link out src src/lib src/lib/x.rs src/main.rs";
        check("target", &["."], "/x", all);
        check("*\n!src/main.rs", &["."], "/x", ". src/main.rs");
        check(
            "target",
            &["target/big"],
            "/x",
            "there is no `target/big` in the directory of the build, or .dockerignore leaves it out",
        );
    }

    #[test]
    fn what_cannot_be_copied_is_named() {
        check(
            "",
            &["none"],
            "/x",
            "there is no `none` in the directory of the build",
        );
        check(
            "",
            &["out"],
            "/x",
            "`out` is a link that leads out of the directory of the build",
        );
        check(
            "",
            &["*.txt"],
            "/x",
            "several files match, so the destination `/x` must be a directory, with a slash at its end",
        );
    }
}
