//! Downloads of package clients during builds, kept for the next ones.
//!
//! ```text
//! <scope>/<number>/root/.skep-downloads   the files that one step has added
//! ```
//!
//! A step gets what was added to its scope before as more layers of its root, below what it writes,
//! and never as a part of its own layer. Its own additions are one more of them. When there are many
//! they are merged into one, which shares their files: none is ever changed that a step may see. A
//! scope is a team and the base that its build began with, so nobody reads what code of another team,
//! or of another base, has put there.

mod trees;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use skep_image::ContentKey;

use trees::{Size, entries, has_file, link_tree, move_over, size_of};

/// Directory of downloads in the root of a step.
pub const DOWNLOADS: &str = ".skep-downloads";

/// Most files of a scope. With more it begins anew.
const MOST_FILES: u64 = 200_000;

/// Most additions that are layers of their own. With more they are merged.
const MOST_ADDITIONS: usize = 16;

/// Configuration of apt for a step. It removes what it has installed otherwise, and dpkg waits for the
/// disk after every file, though a step that is cut short leaves nothing.
const APT: &str = "Dir::Cache::archives \"/.skep-downloads/root/apt/\";\n\
                   APT::Keep-Downloaded-Packages \"true\";\n\
                   Binary::apt::APT::Keep-Downloaded-Packages \"true\";\n\
                   Binary::apt-get::APT::Keep-Downloaded-Packages \"true\";\n\
                   DPkg::Options:: \"--force-unsafe-io\";\n";

/// The downloads of all teams.
#[derive(Debug)]
pub struct Downloads {
    directory: PathBuf,
    /// Most bytes of a scope.
    limit: u64,
    /// The newest generation of each scope that was asked for. Held while another is made.
    scopes: Mutex<HashMap<ContentKey, Arc<Generation>>>,
}

/// Everything that a scope has at a time.
#[derive(Debug)]
pub struct Generation {
    /// The oldest first, and never none.
    additions: Vec<Arc<Addition>>,
    size: Size,
}

/// The downloads of one step. They go when they are replaced and no step uses them any more.
#[derive(Debug)]
struct Addition {
    directory: PathBuf,
    number: u64,
    is_replaced: AtomicBool,
}

impl Generation {
    /// The layers that a step gets, the lowest first.
    pub fn layers(&self) -> impl Iterator<Item = PathBuf> {
        let additions = self.additions.iter();
        additions.map(|addition| addition.directory.join("root"))
    }

    fn next_number(&self) -> u64 {
        let newest = self.additions.last();
        newest.map_or(0, |newest| newest.number + 1)
    }
}

impl Drop for Addition {
    fn drop(&mut self) {
        if self.is_replaced.load(Ordering::Acquire)
            && let Err(error) = fs::remove_dir_all(&self.directory)
        {
            tracing::warn!(%error, "old downloads of builds are not removed");
        }
    }
}

impl Downloads {
    /// The downloads in a directory, at most so many bytes of a scope.
    pub fn new(directory: impl Into<PathBuf>, limit: u64) -> Self {
        Self {
            directory: directory.into(),
            limit,
            scopes: Mutex::default(),
        }
    }

    /// The newest generation of a scope, for a step that begins. Blocks.
    ///
    /// # Errors
    ///
    /// Whatever the file system says.
    pub fn of(&self, scope: &ContentKey) -> io::Result<Arc<Generation>> {
        let mut scopes = self.scopes.lock();
        let newest = match scopes.get(scope) {
            Some(newest) => Arc::clone(newest),
            None => Arc::new(self.open(scope)?),
        };
        let directory = fs::File::open(self.directory.join(scope.to_string()))?;
        directory.set_modified(SystemTime::now())?;
        scopes.insert(*scope, Arc::clone(&newest));
        Ok(newest)
    }

    /// Directory for what a step of the scope has downloaded.
    ///
    /// # Errors
    ///
    /// Whatever the file system says.
    pub fn draft(&self, scope: &ContentKey) -> io::Result<tempfile::TempDir> {
        let prefix = "draft-";
        let directory = self.directory.join(scope.to_string());
        tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in(directory)
    }

    /// Adds what a step has downloaded, for the steps that begin from now on, and takes it out of the
    /// draft. Blocks.
    ///
    /// # Errors
    ///
    /// Whatever the file system says; the scope stays as it was.
    pub fn add(&self, scope: &ContentKey, draft: &Path) -> io::Result<()> {
        if !has_file(draft)? {
            return Ok(());
        }
        let added = size_of(draft)?;
        let before = self.of(scope)?;
        let mut scopes = self.scopes.lock();
        // Another build may have added something meanwhile.
        let before = scopes.get(scope).cloned().unwrap_or(before);
        let size = before.size.plus(&added);
        let is_too_large = size.bytes > self.limit || size.files > MOST_FILES;
        let newest = if is_too_large {
            self.begin_anew(scope, &before, draft)?
        } else if before.additions.len() < MOST_ADDITIONS {
            let addition = self.make(scope, before.next_number(), |root| {
                fs::rename(draft, root.join(DOWNLOADS))
            })?;
            let mut additions = before.additions.clone();
            additions.push(Arc::new(addition));
            Generation { additions, size }
        } else {
            self.merge(scope, &before, draft)?
        };
        scopes.insert(*scope, Arc::new(newest));
        Ok(())
    }

    /// A generation with one addition, instead of all those before.
    fn begin_anew(
        &self,
        scope: &ContentKey,
        before: &Generation,
        draft: &Path,
    ) -> io::Result<Generation> {
        let addition = self.make(scope, before.next_number(), |root| {
            make_empty(root)?;
            move_over(draft, &root.join(DOWNLOADS))
        })?;
        replace(before, addition)
    }

    /// A generation with everything of the one before in one layer, and the draft.
    fn merge(
        &self,
        scope: &ContentKey,
        before: &Generation,
        draft: &Path,
    ) -> io::Result<Generation> {
        let addition = self.make(scope, before.next_number(), |root| {
            for layer in before.layers() {
                let copy = self.draft(scope)?;
                link_tree(&layer, copy.path())?;
                move_over(copy.path(), root)?;
            }
            move_over(draft, &root.join(DOWNLOADS))
        })?;
        replace(before, addition)
    }

    /// Makes an addition, complete or not at all.
    fn make(
        &self,
        scope: &ContentKey,
        number: u64,
        fill: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<Addition> {
        let making = self.draft(scope)?;
        let root = making.path().join("root");
        fs::create_dir(&root)?;
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755))?;
        fill(&root)?;
        let scope = self.directory.join(scope.to_string());
        let directory = scope.join(number.to_string());
        fs::rename(making.keep(), &directory)?;
        Ok(Addition {
            directory,
            number,
            is_replaced: AtomicBool::new(false),
        })
    }

    /// Removes scopes that no step has used since `before`. Blocks.
    ///
    /// # Errors
    ///
    /// Whatever the file system says.
    pub fn forget_unused(&self, before: SystemTime) -> io::Result<()> {
        let mut scopes = self.scopes.lock();
        for directory in entries(&self.directory)? {
            let name = directory.file_name().unwrap_or_default().to_string_lossy();
            let Ok(scope) = name.parse::<ContentKey>() else {
                continue;
            };
            let is_used = scopes
                .get(&scope)
                .is_some_and(|newest| Arc::strong_count(newest) > 1);
            if !is_used && directory.metadata()?.modified()? < before {
                scopes.remove(&scope);
                fs::remove_dir_all(&directory)?;
            }
        }
        Ok(())
    }

    /// The additions on the disk, or an empty one. Drafts are of a server that died.
    fn open(&self, scope: &ContentKey) -> io::Result<Generation> {
        let directory = self.directory.join(scope.to_string());
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)?;
        let mut additions = Vec::new();
        for path in entries(&directory)? {
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(number) = name.and_then(|name| name.parse().ok()) else {
                fs::remove_dir_all(&path)?;
                continue;
            };
            additions.push(Arc::new(Addition {
                directory: path,
                number,
                is_replaced: AtomicBool::new(false),
            }));
        }
        additions.sort_by_key(|addition| addition.number);
        if additions.is_empty() {
            additions.push(Arc::new(self.make(scope, 0, make_empty)?));
        }
        let size = size_of(&directory)?;
        Ok(Generation { additions, size })
    }
}

/// The generation of an addition that has everything of those before.
fn replace(before: &Generation, addition: Addition) -> io::Result<Generation> {
    let size = size_of(&addition.directory)?;
    for replaced in &before.additions {
        replaced.is_replaced.store(true, Ordering::Release);
    }
    Ok(Generation {
        additions: vec![Arc::new(addition)],
        size,
    })
}

/// Variables by which package clients find the downloads: root's are its own, because clients refuse
/// those of another; all other users share theirs.
pub fn variables(user: &str) -> Vec<(&'static str, String)> {
    let owner = if user == "root" { "root" } else { "user" };
    let at = |name: &str| format!("/{DOWNLOADS}/{owner}/{name}");
    vec![
        ("PIP_CACHE_DIR", at("pip")),
        ("UV_CACHE_DIR", at("uv")),
        // A link to a file that is not in the layer would be none.
        ("UV_LINK_MODE", "copy".to_owned()),
        ("npm_config_cache", at("npm")),
        ("BUN_INSTALL_CACHE_DIR", at("bun")),
        ("APT_CONFIG", format!("/{DOWNLOADS}/apt.conf")),
    ]
}

/// Makes the directories of a scope in which nothing was downloaded yet.
fn make_empty(root: &Path) -> io::Result<()> {
    let downloads = root.join(DOWNLOADS);
    for (name, mode) in [
        ("", 0o755),
        ("root", 0o755),
        ("root/apt", 0o755),
        ("user", 0o1777),
    ] {
        let path = downloads.join(name);
        fs::create_dir(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    let apt = downloads.join("apt.conf");
    fs::write(&apt, APT)?;
    // Whatever the server's mask is: apt of any user fails if it cannot read it.
    fs::set_permissions(&apt, fs::Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn scope(name: &str) -> ContentKey {
        ContentKey::of("test", [name.as_bytes()])
    }

    /// Downloads that a step leaves which was given one file of them.
    fn draft(name: &str, content: &str) -> tempfile::TempDir {
        let draft = tempfile::tempdir().unwrap();
        let file = draft.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
        draft
    }

    fn read(generation: &Generation, name: &str) -> Option<String> {
        let layers: Vec<_> = generation.layers().collect();
        let files = layers.iter().map(|layer| layer.join(DOWNLOADS).join(name));
        files.rev().find_map(|file| fs::read_to_string(file).ok())
    }

    #[test]
    fn what_a_step_has_downloaded_is_there_for_the_next_of_its_scope_alone() {
        let directory = tempfile::tempdir().unwrap();
        let downloads = Downloads::new(directory.path(), 1 << 20);
        let (ours, theirs) = (scope("ours"), scope("theirs"));
        let first = downloads.of(&ours).unwrap();
        let lowest = first.layers().next().unwrap();
        let apt = lowest.join(DOWNLOADS).join("apt.conf");
        assert_eq!(apt.metadata().unwrap().mode() & 0o777, 0o644);
        downloads
            .add(&ours, draft("root/pip/a", "1").path())
            .unwrap();
        downloads
            .add(&ours, draft("root/pip/b", "2").path())
            .unwrap();
        let second = downloads.of(&ours).unwrap();
        assert_eq!(read(&second, "root/pip/a").as_deref(), Some("1"));
        assert_eq!(read(&second, "root/pip/b").as_deref(), Some("2"));
        assert_eq!(read(&downloads.of(&theirs).unwrap(), "root/pip/a"), None);
        // A step that runs sees what it saw, until it is over.
        assert_eq!(read(&first, "root/pip/a"), None);
        for number in 0..MOST_ADDITIONS {
            let content = number.to_string();
            let more = draft("root/pip/a", &content);
            downloads.add(&ours, more.path()).unwrap();
        }
        let merged = downloads.of(&ours).unwrap();
        assert!(merged.layers().count() < MOST_ADDITIONS);
        assert_eq!(read(&merged, "root/pip/a").as_deref(), Some("15"));
        assert_eq!(read(&merged, "root/pip/b").as_deref(), Some("2"));
        assert_eq!(read(&second, "root/pip/a").as_deref(), Some("1"));
        drop(first);
        assert!(lowest.exists(), "another step sees it");
        drop(second);
        assert!(!lowest.exists());

        let again = Downloads::new(directory.path(), 1 << 20);
        assert_eq!(
            read(&again.of(&ours).unwrap(), "root/pip/b").as_deref(),
            Some("2")
        );
        drop(merged);
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        again.forget_unused(later).unwrap();
        assert!(entries(directory.path()).unwrap().is_empty());
    }

    #[test]
    fn a_link_that_a_step_has_left_leads_nobody_out() {
        let directory = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let downloads = Downloads::new(directory.path(), 1 << 20);
        let trap = draft("root/x", "x");
        std::os::unix::fs::symlink(outside.path(), trap.path().join("root/out")).unwrap();
        downloads.add(&scope("a"), trap.path()).unwrap();
        downloads
            .add(&scope("a"), draft("root/out/passwd", "x").path())
            .unwrap();
        assert!(entries(outside.path()).unwrap().is_empty());
        let newest = downloads.of(&scope("a")).unwrap();
        assert_eq!(read(&newest, "root/out/passwd").as_deref(), Some("x"));
    }

    #[test]
    fn a_scope_that_is_too_large_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let downloads = Downloads::new(directory.path(), 64 << 10);
        let large = "x".repeat(40 << 10);
        downloads
            .add(&scope("a"), draft("root/pip/a", &large).path())
            .unwrap();
        downloads
            .add(&scope("a"), draft("root/pip/b", &large).path())
            .unwrap();
        let newest = downloads.of(&scope("a")).unwrap();
        assert_eq!(read(&newest, "root/pip/a"), None);
        assert!(read(&newest, "root/pip/b").is_some());
        assert!(read(&newest, "apt.conf").is_some());
    }
}
