//! Archives of the directory of a build, as `ADD` unpacks them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Component, Path};
use std::process::{Command, Stdio};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry, EntryType};

use super::files::{Content, Member, Part};

/// Beginnings of compressed files, and the programs that unpack them to their output. gzip needs none.
const PROGRAMS: [(&[u8], &str); 3] = [
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
];

/// Beginning of what gzip has compressed.
const GZIP: &[u8] = b"\x1f\x8b";

/// Bytes of the longest beginning.
const LONGEST: usize = 6;

/// The members of an archive by their paths; `None` if the file is none. As in BuildKit the content
/// decides, not the name. Blocks.
pub(super) fn members(path: &Path) -> io::Result<Option<BTreeMap<String, Member>>> {
    let plain = Arc::new(decompressed(path)?);
    let mut archive = Archive::new(&*plain);
    let mut entries = archive.entries()?;
    let Some(Ok(first)) = entries.next() else {
        return Ok(None);
    };
    let mut members = BTreeMap::new();
    add(&mut members, &first, &plain)?;
    for entry in entries {
        add(&mut members, &entry?, &plain)?;
    }
    Ok(Some(members))
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else there may be is refused"
)]
fn add(
    members: &mut BTreeMap<String, Member>,
    entry: &Entry<'_, &File>,
    plain: &Arc<File>,
) -> io::Result<()> {
    let written = entry.path()?;
    let Some(path) = cleaned(&written) else {
        let text = format!("its member `{}` leads out of it", written.display());
        return Err(io::Error::other(text));
    };
    let content = match entry.header().entry_type() {
        EntryType::XGlobalHeader => return Ok(()),
        EntryType::Directory => Content::Directory,
        EntryType::Regular | EntryType::Continuous => Content::Part(Part {
            file: Arc::clone(plain),
            at: entry.raw_file_position(),
            bytes: entry.size(),
        }),
        EntryType::Symlink => Content::Link(link(entry)?),
        EntryType::Link => {
            let target = link(entry)?;
            let found = cleaned(&target).and_then(|target| members.get(&target));
            let Some(found) = found else {
                let text = format!("its link `{path}` leads to nothing in it");
                return Err(io::Error::other(text));
            };
            found.content.clone()
        }
        _ => {
            let text = format!("its member `{path}` is no file, directory or link");
            return Err(io::Error::other(text));
        }
    };
    if path.is_empty() {
        return Ok(());
    }
    let member = Member {
        mode: entry.header().mode()? & 0o7777,
        modified: entry.header().mtime()?,
        content,
    };
    members.insert(path, member);
    Ok(())
}

fn link(entry: &Entry<'_, &File>) -> io::Result<std::path::PathBuf> {
    match entry.link_name()? {
        Some(target) => Ok(target.into_owned()),
        None => Err(io::Error::other("one of its links leads nowhere")),
    }
}

/// A path below the root of the archive; `None` if it leads out.
fn cleaned(path: &Path) -> Option<String> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_string_lossy()),
            Component::ParentDir => return None,
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(names.join("/"))
}

/// The file without its compression, from its beginning.
fn decompressed(path: &Path) -> io::Result<File> {
    let mut file = File::open(path)?;
    let mut beginning = Vec::new();
    (&file).take(LONGEST as u64).read_to_end(&mut beginning)?;
    file.rewind()?;
    let program = PROGRAMS
        .iter()
        .find(|(magic, _)| beginning.starts_with(magic));
    let is_gzip = beginning.starts_with(GZIP);
    if !is_gzip && program.is_none() {
        return Ok(file);
    }
    let mut plain = tempfile::tempfile()?;
    match program {
        None => drop(io::copy(&mut MultiGzDecoder::new(file), &mut plain)?),
        Some((_, program)) => by_program(program, file, &plain)?,
    }
    plain.rewind()?;
    Ok(plain)
}

fn by_program(program: &str, compressed: File, into: &File) -> io::Result<()> {
    let ended = Command::new(program)
        .args(["-d", "-c"])
        .stdin(compressed)
        .stdout(into.try_clone()?)
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                io::Error::other(format!(
                    "`{program}`, which unpacks it, is not installed here"
                ))
            } else {
                error
            }
        })?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(io::Error::other(format!(
        "`{program}` fails: {}",
        said.trim()
    )))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The members of an archive that `tar` makes with these options.
    fn read(options: &[&str]) -> String {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("tree/bin")).unwrap();
        fs::write(at("tree/bin/tool"), "#!").unwrap();
        fs::hard_link(at("tree/bin/tool"), at("tree/bin/twin")).unwrap();
        std::os::unix::fs::symlink("tool", at("tree/bin/link")).unwrap();
        let made = Command::new("tar")
            .args(["--sort=name", "-C"])
            .arg(at("tree"))
            .args(options)
            .arg("-cf")
            .arg(at("archive"))
            .arg(".")
            .status();
        assert!(made.unwrap().success());
        let members = members(&at("archive")).unwrap().unwrap();
        let shown = members.into_iter().map(|(path, member)| {
            let content = match member.content {
                Content::Directory => "directory".to_owned(),
                Content::Link(target) => format!("-> {}", target.display()),
                Content::Part(part) => io::read_to_string(part).unwrap(),
                Content::File(..) | Content::Text(_) => unreachable!(),
            };
            format!("{path} {content}")
        });
        shown.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_archive_is_read_whatever_compresses_it() {
        let expected = "bin directory\nbin/link -> tool\nbin/tool #!\nbin/twin #!";
        for compression in [&[][..], &["-z"], &["-J"]] {
            assert_eq!(read(compression), expected, "{compression:?}");
        }
    }

    #[test]
    fn what_only_looks_like_an_archive_is_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.tar");
        for text in [String::new(), "short".to_owned(), "x".repeat(2000)] {
            fs::write(&path, text).unwrap();
            assert!(members(&path).unwrap().is_none());
        }
    }

    #[test]
    fn a_member_that_leads_out_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.tar");
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..4].copy_from_slice(b"../x");
        header.set_size(0);
        header.set_cksum();
        let mut builder = tar::Builder::new(File::create(&path).unwrap());
        builder.append(&header, io::empty()).unwrap();
        builder.finish().unwrap();
        let refused = members(&path).unwrap_err().to_string();
        assert_eq!(refused, "its member `../x` leads out of it");
    }
}
