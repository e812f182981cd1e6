//! Archives of clients, read as what strangers wrote.
//!
//! Nothing is unpacked here. An archive is written anew, with the members that are wanted, at the
//! places and with the owners and modes that they are to have; a sandbox unpacks that.

mod meter;

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tar::{Archive, Builder, EntryType, Header};

use crate::room::Careful;
use meter::{MOST_HEADER_BYTES, Meter};

/// Most members of an archive.
const MOST_MEMBERS: usize = 1_000_000;

/// Most bytes of names: an archive of nothing but names would take memory.
const MOST_NAME_BYTES: usize = 64 << 20;

const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;
/// Each name of a path may stand for a directory that is made, with all the names above it.
const DEEPEST_PATH: usize = 256;

/// A directory that no member describes.
const IMPLIED_MODE: u32 = 0o755;

/// An archive that cannot be copied from.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    #[error("the uploaded archive is damaged")]
    Damaged(#[source] io::Error),
    #[error("the uploaded archive has a member '{0}' outside of it")]
    Outside(String),
    #[error("the uploaded archive has a member '{0}' that is no file, directory or symbolic link")]
    Kind(String),
    #[error("the uploaded archive has a member '{0}' whose name is too long or too deep")]
    Name(String),
    #[error("the uploaded archive has a member whose headers take more than {} KiB", MOST_HEADER_BYTES >> 10)]
    Headers,
    #[error("the uploaded archive has too many members")]
    TooMany,
    #[error("the uploaded files take more than {} MiB", .0 >> 20)]
    TooLarge(u64),
    #[error("source path '{0}' is outside of the uploaded files")]
    SourceOutside(String),
    #[error("destination '{0}' is too long or too deep")]
    Target(String),
    #[error("source path '{0}' is not in the uploaded files")]
    NoSource(String),
    #[error("the server's disk has no room for the files of a step; try again later")]
    NoRoom,
    #[error("cannot write the files of a step")]
    Write(#[source] io::Error),
}

/// Kind of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Link,
    Directory,
}

/// The members of an archive that count.
#[derive(Debug)]
pub(crate) struct Survey {
    members: BTreeMap<PathBuf, Surveyed>,
}

/// A member of an archive.
#[derive(Debug, Clone, Copy)]
struct Surveyed {
    kind: Kind,
    mode: u32,
    uid: u64,
    gid: u64,
}

/// The owner of what is copied, by name where it has one and by number else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) user: String,
    pub(crate) uid: u64,
    pub(crate) group: String,
    pub(crate) gid: u64,
}

/// Sources of a copy, with owner and mode.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Part of the archive, as [`source`] gives it.
    pub(crate) source: PathBuf,
    /// Absolute path that the source becomes.
    pub(crate) target: PathBuf,
    /// Owner of everything; `None` to keep the numbers in the archive, which only one of ours has.
    pub(crate) owner: Option<Owner>,
    pub(crate) mode: Option<u32>,
    /// Most bytes of the archive, with everything in it.
    pub(crate) limit: u64,
    /// Seconds since 1970, which directories have been changed at.
    pub(crate) at: u64,
}

/// The part of an archive that a source means: what is before its first pattern. Empty for all.
pub(crate) fn source(text: &str) -> Result<PathBuf, ArchiveError> {
    let is_pattern = |part: &str| part.contains(['*', '?', '[', '{']);
    let parts: Vec<_> = text
        .split('/')
        .take_while(|part| !is_pattern(part))
        .collect();
    clean(Path::new(&parts.join("/"))).ok_or_else(|| ArchiveError::SourceOutside(text.to_owned()))
}

/// Returns true if a source has a pattern: what matched it is copied into the destination.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

impl Survey {
    /// Looks at all members of an archive, and refuses one that could do harm. Blocks.
    pub(crate) fn of(archive: &File, limit: u64) -> Result<Self, ArchiveError> {
        let mut members = BTreeMap::new();
        let mut names = 0;
        each_member(archive, limit, |entry| {
            let Some((path, kind)) = member(entry)? else {
                return Ok(());
            };
            names += path.as_os_str().len();
            if members.len() >= MOST_MEMBERS || names > MOST_NAME_BYTES {
                return Err(ArchiveError::TooMany);
            }
            let header = entry.header();
            let member = Surveyed {
                kind,
                mode: header.mode().map_err(ArchiveError::Damaged)? & 0o7777,
                // Clients may leave them out, and only our own are asked for them.
                uid: header.uid().unwrap_or_default(),
                gid: header.gid().unwrap_or_default(),
            };
            members.insert(path, member);
            Ok(())
        })?;
        // Some clients list what is below a link; the link is what counts.
        // They come right after it in the order of paths.
        let mut link: Option<PathBuf> = None;
        members.retain(|path, member| {
            if link.as_ref().is_some_and(|link| path.starts_with(link)) {
                return false;
            }
            if member.kind == Kind::Link {
                link = Some(path.clone());
            }
            true
        });
        Ok(Self { members })
    }

    /// Kind of the source.
    pub(crate) fn kind(&self, source: &Path, text: &str) -> Result<Kind, ArchiveError> {
        if source.as_os_str().is_empty() {
            return Ok(Kind::Directory);
        }
        if let Some(member) = self.members.get(source) {
            return Ok(member.kind);
        }
        let is_implied = self.members.keys().any(|path| path.starts_with(source));
        (is_implied.then_some(Kind::Directory))
            .ok_or_else(|| ArchiveError::NoSource(text.to_owned()))
    }

    /// Writes what is wanted as an archive to be unpacked at the root of a sandbox. Blocks.
    pub(crate) fn write(
        &self,
        archive: &File,
        wanted: &Wanted,
        into: Careful<&File>,
    ) -> Result<(), ArchiveError> {
        if !fits(&wanted.target) {
            let target = wanted.target.as_os_str().as_bytes();
            return Err(ArchiveError::Target(shown(target)));
        }
        let mut writer = Writer {
            survey: self,
            wanted,
            builder: Builder::new(into),
            made: HashSet::new(),
            made_bytes: 0,
        };
        if self
            .kind(&wanted.source, "")
            .is_ok_and(|kind| kind == Kind::Directory)
        {
            writer.directories(&wanted.target)?;
        }
        each_member(archive, wanted.limit, |entry| {
            let Some((path, kind)) = member(entry)? else {
                return Ok(());
            };
            // What was left out before, and what comes twice as two things.
            if self
                .members
                .get(&path)
                .is_none_or(|found| found.kind != kind)
            {
                return Ok(());
            }
            let Ok(rest) = path.strip_prefix(&wanted.source) else {
                return Ok(());
            };
            let target = wanted.target.join(rest);
            // Joining nothing would add a slash.
            let target = if rest.as_os_str().is_empty() {
                wanted.target.clone()
            } else {
                target
            };
            writer.member(entry, kind, &target)
        })?;
        writer.builder.finish().map_err(unwritten)
    }
}

struct Writer<'a> {
    survey: &'a Survey,
    wanted: &'a Wanted,
    builder: Builder<Careful<&'a File>>,
    /// Directories that are in the archive. All above one of them are in it, too.
    made: HashSet<PathBuf>,
    /// Bytes of their names.
    made_bytes: usize,
}

impl Writer<'_> {
    fn member(
        &mut self,
        entry: &mut tar::Entry<'_, impl Read>,
        kind: Kind,
        target: &Path,
    ) -> Result<(), ArchiveError> {
        if kind == Kind::Directory {
            return self.directories(target);
        }
        self.directories(target.parent().unwrap_or(Path::new("/")))?;
        let mode = entry.header().mode().map_err(ArchiveError::Damaged)? & 0o7777;
        let uid = entry.header().uid().unwrap_or_default();
        let gid = entry.header().gid().unwrap_or_default();
        let mut header = self.header(self.wanted.mode.unwrap_or(mode), (uid, gid));
        header.set_mtime(entry.header().mtime().unwrap_or_default());
        let path = relative(target);
        if kind == Kind::Link {
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            let to = entry
                .link_name()
                .map_err(ArchiveError::Damaged)?
                .unwrap_or_default()
                .into_owned();
            let added = self.builder.append_link(&mut header, path, to);
            return added.map_err(unwritten);
        }
        header.set_entry_type(EntryType::Regular);
        header.set_size(entry.size());
        let added = self.builder.append_data(&mut header, path, entry);
        added.map_err(unwritten)
    }

    /// Makes a directory and all above it, each once. Those that a sandbox has stay as they are.
    fn directories(&mut self, target: &Path) -> Result<(), ArchiveError> {
        let is_new = |path: &&Path| *path != Path::new("/") && !self.made.contains(*path);
        let new: Vec<_> = target.ancestors().take_while(is_new).collect();
        for directory in new.into_iter().rev() {
            self.made_bytes += directory.as_os_str().len();
            if self.made.len() >= MOST_MEMBERS || self.made_bytes > MOST_NAME_BYTES {
                return Err(ArchiveError::TooMany);
            }
            self.made.insert(directory.to_owned());
            let own = self.described(directory);
            let numbers = own.map_or((0, 0), |own| (own.uid, own.gid));
            let mut header = self.header(self.directory_mode(directory, own), numbers);
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            header.set_mtime(self.wanted.at);
            let added = (self.builder).append_data(&mut header, relative(directory), io::empty());
            added.map_err(unwritten)?;
        }
        Ok(())
    }

    /// The member that describes a directory of the destination.
    fn described(&self, target: &Path) -> Option<Surveyed> {
        let rest = target.strip_prefix(&self.wanted.target).ok()?;
        let own = self.survey.members.get(&self.wanted.source.join(rest));
        own.copied().filter(|own| own.kind == Kind::Directory)
    }

    fn directory_mode(&self, target: &Path, own: Option<Surveyed>) -> u32 {
        if !target.starts_with(&self.wanted.target) {
            return IMPLIED_MODE;
        }
        match self.wanted.mode {
            // What can be read can be searched, or nobody could use it.
            Some(mode) => mode | ((mode & 0o444) >> 2),
            None => own.map_or(IMPLIED_MODE, |own| own.mode),
        }
    }

    fn header(&self, mode: u32, (uid, gid): (u64, u64)) -> Header {
        let mut header = Header::new_gnu();
        header.set_mode(mode);
        let Some(owner) = &self.wanted.owner else {
            header.set_uid(uid);
            header.set_gid(gid);
            return header;
        };
        header.set_uid(owner.uid);
        header.set_gid(owner.gid);
        // A name that is too long for an archive is left to its number.
        for named in [
            header.set_username(&owner.user),
            header.set_groupname(&owner.group),
        ] {
            if let Err(error) = named {
                tracing::debug!(%error, "an owner has no name in an archive");
            }
        }
        header
    }
}

fn unwritten(error: io::Error) -> ArchiveError {
    if error.kind() == io::ErrorKind::StorageFull {
        ArchiveError::NoRoom
    } else {
        ArchiveError::Write(error)
    }
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Calls `look` for each member of an archive of at most `limit` bytes.
fn each_member(
    mut archive: &File,
    limit: u64,
    mut look: impl FnMut(&mut tar::Entry<'_, Meter<'_>>) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut magic = [0; 2];
    archive.rewind().map_err(ArchiveError::Damaged)?;
    let is_compressed = archive.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
    archive.rewind().map_err(ArchiveError::Damaged)?;
    let reader = io::BufReader::with_capacity(128 << 10, archive);
    let reader: Box<dyn Read + '_> = if is_compressed {
        Box::new(MultiGzDecoder::new(reader))
    } else {
        Box::new(reader)
    };
    let (meter, gauge) = Meter::new(reader);
    let mut archive = Archive::new(meter);
    let mut entries = archive.entries().map_err(ArchiveError::Damaged)?;
    loop {
        gauge.begin_headers();
        let entry = entries.next();
        if gauge.is_spent() {
            return Err(ArchiveError::Headers);
        }
        gauge.end_headers();
        let Some(entry) = entry else {
            return Ok(());
        };
        let mut entry = entry.map_err(ArchiveError::Damaged)?;
        if gauge.read().saturating_add(entry.size()) > limit {
            return Err(ArchiveError::TooLarge(limit));
        }
        look(&mut entry)?;
        // What is left of it must not count as headers of the next.
        io::copy(&mut entry, &mut io::sink()).map_err(ArchiveError::Damaged)?;
    }
}

/// Path and kind of a member; `None` for what is none, or is the root itself.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other kind, known or not, is refused"
)]
fn member(entry: &tar::Entry<'_, impl Read>) -> Result<Option<(PathBuf, Kind)>, ArchiveError> {
    let kind = match entry.header().entry_type() {
        EntryType::Regular | EntryType::Continuous => Kind::File,
        EntryType::Directory => Kind::Directory,
        EntryType::Symlink => Kind::Link,
        EntryType::XGlobalHeader => return Ok(None),
        _ => return Err(ArchiveError::Kind(shown(&entry.path_bytes()))),
    };
    let name = entry.path_bytes();
    let path = Path::new(std::ffi::OsStr::from_bytes(&name));
    let path = clean(path).ok_or_else(|| ArchiveError::Outside(shown(&name)))?;
    if !fits(&path) {
        return Err(ArchiveError::Name(shown(&name)));
    }
    Ok((!path.as_os_str().is_empty()).then_some((path, kind)))
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(256).collect()
}

/// Returns true if a file system could have the path.
fn fits(path: &Path) -> bool {
    let is_long = |name: Component<'_>| name.as_os_str().len() > LONGEST_NAME;
    path.as_os_str().len() <= LONGEST_PATH
        && path.components().count() <= DEEPEST_PATH
        && !path.components().any(is_long)
}

/// A relative path without dots; `None` if it leads out.
fn clean(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(clean)
}

#[cfg(test)]
mod tests;
