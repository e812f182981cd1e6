//! Downloads of package clients during builds, kept for the next ones.
//!
//! ```text
//! <scope>/<generation>/root/.skep-downloads   what steps of the scope find there
//! ```
//!
//! A step gets the newest generation of its scope as one more layer of its root, below what it writes,
//! and never as a part of its own layer. What it adds is a new generation, which shares the files of the
//! one before: none is ever changed that a step may see. A scope is a team and the base that its build
//! began with, so nobody reads what code of another team, or of another base, has put there.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use skep_image::ContentKey;

/// Directory of downloads in the root of a step.
pub const DOWNLOADS: &str = ".skep-downloads";

/// Most files of a generation. With more a scope begins anew.
const MOST_FILES: u64 = 200_000;

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

/// Downloads of a scope. They go when there are newer ones and no step uses them any more.
#[derive(Debug)]
pub struct Generation {
    directory: PathBuf,
    number: u64,
    is_replaced: AtomicBool,
}

impl Generation {
    /// The layer that a step gets.
    pub fn layer(&self) -> PathBuf {
        self.directory.join("root")
    }
}

impl Drop for Generation {
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

    /// Adds what a step has downloaded, for the steps that begin from now on. Blocks.
    ///
    /// # Errors
    ///
    /// Whatever the file system says; the scope stays as it was.
    pub fn add(&self, scope: &ContentKey, draft: &Path) -> io::Result<()> {
        if !has_file(draft)? {
            return Ok(());
        }
        let before = self.of(scope)?;
        let mut scopes = self.scopes.lock();
        // Another build may have added something meanwhile.
        let before = scopes.get(scope).cloned().unwrap_or(before);
        let number = before.number + 1;
        let making = self.draft(scope)?;
        let root = making.path().join("root");
        fs::create_dir(&root)?;
        let size = size_of(&before.layer())?.plus(&size_of(draft)?);
        if size.bytes <= self.limit && size.files <= MOST_FILES {
            link_tree(&before.layer(), &root)?;
        } else {
            make_empty(&root)?;
        }
        move_over(draft, &root.join(DOWNLOADS))?;
        let directory = self.generation(scope, number);
        fs::rename(making.keep(), &directory)?;
        before.is_replaced.store(true, Ordering::Release);
        let newest = Generation {
            directory,
            number,
            is_replaced: AtomicBool::new(false),
        };
        scopes.insert(*scope, Arc::new(newest));
        Ok(())
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

    fn generation(&self, scope: &ContentKey, number: u64) -> PathBuf {
        let scope = self.directory.join(scope.to_string());
        scope.join(number.to_string())
    }

    /// The newest generation on the disk, or an empty one. Older ones and drafts are of a server that
    /// died.
    fn open(&self, scope: &ContentKey) -> io::Result<Generation> {
        let directory = self.directory.join(scope.to_string());
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)?;
        let number = |path: &Path| path.file_name()?.to_str()?.parse::<u64>().ok();
        let found = entries(&directory)?;
        let newest = found.iter().filter_map(|path| number(path)).max();
        for path in found
            .iter()
            .filter(|path| number(path) != newest || newest.is_none())
        {
            fs::remove_dir_all(path)?;
        }
        let number = newest.unwrap_or(0);
        if newest.is_none() {
            let making = self.draft(scope)?;
            let root = making.path().join("root");
            fs::create_dir(&root)?;
            make_empty(&root)?;
            fs::rename(making.keep(), self.generation(scope, number))?;
        }
        Ok(Generation {
            directory: self.generation(scope, number),
            number,
            is_replaced: AtomicBool::new(false),
        })
    }
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
    fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
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

/// Size of a tree.
struct Size {
    bytes: u64,
    files: u64,
}

impl Size {
    fn plus(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            files: self.files + other.files,
        }
    }
}

fn size_of(root: &Path) -> io::Result<Size> {
    let mut size = Size { bytes: 0, files: 0 };
    walk(root, |_, found| {
        size.bytes += found.blocks() * 512;
        size.files += 1;
        Ok(())
    })?;
    Ok(size)
}

fn has_file(root: &Path) -> io::Result<bool> {
    let mut has_file = false;
    walk(root, |_, found| {
        has_file |= found.is_file();
        Ok(())
    })?;
    Ok(has_file)
}

/// Shows everything below a directory, each directory before what is in it. No link is followed.
fn walk(root: &Path, mut see: impl FnMut(&Path, &Metadata) -> io::Result<()>) -> io::Result<()> {
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for path in entries(&directory)? {
            let found = path.symlink_metadata()?;
            see(&path, &found)?;
            if found.is_dir() {
                waiting.push(path);
            }
        }
    }
    Ok(())
}

/// Makes a tree with the same files: the content is shared.
fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    same_as(&from.symlink_metadata()?, to)?;
    walk(from, |path, found| {
        let target = to.join(path.strip_prefix(from).unwrap_or(path));
        if found.is_dir() {
            fs::create_dir(&target)?;
            same_as(found, &target)
        } else {
            // A link to a link is one of its own, and leads nowhere here.
            fs::hard_link(path, &target)
        }
    })
}

/// Gives a directory the owner and mode of another.
fn same_as(found: &Metadata, directory: &Path) -> io::Result<()> {
    std::os::unix::fs::chown(directory, Some(found.uid()), Some(found.gid()))?;
    fs::set_permissions(directory, fs::Permissions::from_mode(found.mode() & 0o7777))
}

/// Moves everything in one directory into another, over what is there.
fn move_over(from: &Path, to: &Path) -> io::Result<()> {
    for path in entries(from)? {
        let Some(name) = path.file_name() else {
            continue;
        };
        let target = to.join(name);
        let is_directory = path.symlink_metadata()?.is_dir();
        match target.symlink_metadata() {
            Ok(there) if there.is_dir() && is_directory => {
                move_over(&path, &target)?;
                continue;
            }
            Ok(there) if there.is_dir() => fs::remove_dir_all(&target)?,
            Ok(_) => fs::remove_file(&target)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        fs::rename(&path, &target)?;
    }
    Ok(())
}

/// The entries of a directory; none if there is no such directory.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let found = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?,
    };
    found.map(|entry| Ok(entry?.path())).collect()
}

#[cfg(test)]
mod tests {
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
        fs::read_to_string(generation.layer().join(DOWNLOADS).join(name)).ok()
    }

    #[test]
    fn what_a_step_has_downloaded_is_there_for_the_next_of_its_scope_alone() {
        let directory = tempfile::tempdir().unwrap();
        let downloads = Downloads::new(directory.path(), 1 << 20);
        let (ours, theirs) = (scope("ours"), scope("theirs"));
        let first = downloads.of(&ours).unwrap();
        let apt = first.layer().join(DOWNLOADS).join("apt.conf");
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
        assert!(first.layer().exists());
        let gone = first.layer();
        drop(first);
        assert!(!gone.exists());

        let again = Downloads::new(directory.path(), 1 << 20);
        assert_eq!(
            read(&again.of(&ours).unwrap(), "root/pip/b").as_deref(),
            Some("2")
        );
        drop(second);
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
