//! The authority that a sandbox trusts for hosts whose requests its owner's rules look into.
//!
//! It is put where the system's own tool finds it (`update-ca-certificates` keeps it), and into the
//! bundles that the tool would write: nobody waits for a program here. Clients that bring
//! certificates of their own are led to the bundle by their variables. Java reads neither: it has a
//! keystore.

mod keystore;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::fs::{Mode, OFlags};
use skep_telemetry::Chain;

use crate::filesystem::{FileError, make_parents};
use crate::rootfs::{self, Directory, Name};
use crate::sandbox::users::User;
use crate::sandbox::{path, settings};

/// Directory from which `update-ca-certificates` takes what it adds.
const ADDED: &str = "/usr/local/share/ca-certificates";
const NAME: &str = "skep-egress.crt";
/// Path of the authority alone.
const AUTHORITY: &str = "/usr/local/share/ca-certificates/skep-egress.crt";

/// Bundle of Debian, Ubuntu and Alpine.
const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Directories and names of all bundles that there may be: that, Fedora's and openSUSE's.
const BUNDLES: [(&str, &str); 3] = [
    ("/etc/ssl/certs", "ca-certificates.crt"),
    ("/etc/pki/ca-trust/extracted/pem", "tls-ca-bundle.pem"),
    ("/var/lib/ca-certificates", "ca-bundle.pem"),
];
/// Directories and names of the keystores that distributions make for all their Javas: of Debian and
/// Alpine, Fedora and openSUSE.
const KEYSTORES: [(&str, &str); 3] = [
    ("/etc/ssl/certs/java", "cacerts"),
    ("/etc/pki/ca-trust/extracted/java", "cacerts"),
    ("/var/lib/ca-certificates", "java-cacerts"),
];
/// Name of the authority in them: the one that Debian's hook gives to `NAME`, so that it replaces this
/// entry and adds no second one.
const NAME_IN_KEYSTORE: &str = "debian:skep-egress.pem";
/// Name of a keystore that is not complete yet, beside the one that it replaces.
const UNFINISHED: &str = ".cacerts.skep";
/// Largest bundle or keystore that is read. Those of Debian have a fifth of a mebibyte.
const LARGEST: u64 = 8 << 20;

/// Variables that name a bundle, of clients that bring their own: OpenSSL and whatever is built on
/// it (httpx, uv), requests, curl as others package it, pip, the AWS SDKs.
const OF_BUNDLE: [&str; 5] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
];
/// Variables that name what is trusted beside a client's own: Node and Deno.
const OF_AUTHORITY: [&str; 2] = ["NODE_EXTRA_CA_CERTS", "DENO_CERT"];

/// Variables by which clients trust the authority.
pub(crate) fn variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    // A template without bundle has no client that looks for one; a variable that names it would
    // break those that bring their own.
    let has_bundle = rootfs::stat(BUNDLE).is_ok();
    let of_bundle = OF_BUNDLE
        .iter()
        .filter(move |_| has_bundle)
        .map(|name| (*name, BUNDLE));
    of_bundle.chain(OF_AUTHORITY.iter().map(|name| (*name, AUTHORITY)))
}

/// Has programs of the sandbox trust an authority, in PEM. Done twice, it changes nothing more.
pub(crate) fn trust(authority: &str) -> Result<(), FileError> {
    trust_below("", authority)
}

fn trust_below(root: &str, authority: &str) -> Result<(), FileError> {
    let added = format!("{root}{ADDED}");
    let (directory, made) = make_parents(&added, &User::root())?;
    made.keep();
    settings::write_anew(&directory, NAME, authority.as_bytes())
        .map_err(|source| FileError::io("write", &path::join(&added, NAME), source))?;
    for (parent, name) in BUNDLES {
        let parent = format!("{root}{parent}");
        let added = Directory::find(&parent).and_then(|parent| add(&parent, name, authority));
        match added {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                let bundle = path::join(&parent, name);
                return Err(FileError::io("add an authority to", &bundle, source));
            }
        }
    }
    for (parent, name) in KEYSTORES {
        let parent = format!("{root}{parent}");
        let added =
            Directory::find(&parent).and_then(|parent| add_for_java(&parent, name, authority));
        match added {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // A template may keep one of another kind there, and has worked so far.
            Err(error) => tracing::warn!(
                error = %Chain(&error),
                keystore = path::join(&parent, name),
                "Java is not told whom to trust"
            ),
        }
    }
    Ok(())
}

/// Opens and reads a file in whose place the sandbox may have put a pipe, or a link to anything.
fn read(parent: &Directory, name: &Name, access: OFlags) -> io::Result<(File, Vec<u8>)> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = parent.open(name, flags, Mode::empty())?;
    rootfs::expect_regular(&file)?;
    let mut file = File::from(file);
    let mut content = Vec::new();
    let read = (&mut file).take(LARGEST + 1).read_to_end(&mut content)?;
    if u64::try_from(read).is_ok_and(|read| read > LARGEST) {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok((file, content))
}

/// Adds the authority to a keystore of Java that is there and does not have it.
fn add_for_java(parent: &Directory, name: &str, authority: &str) -> io::Result<()> {
    let name = Name::new(name)?;
    let (_, keystore) = read(parent, &name, OFlags::RDONLY)?;
    let certificate = der(authority).ok_or(io::ErrorKind::InvalidInput)?;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before 1970 makes an odd entry, which is trusted all the same.
    let time = since_1970.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
    let changed = keystore::with_certificate(&keystore, NAME_IN_KEYSTORE, &certificate, time)
        .map_err(io::Error::other)?;
    let Some(changed) = changed else {
        return Ok(());
    };
    // A Java that starts meanwhile reads the one or the other as a whole.
    settings::write_anew(parent, UNFINISHED, &changed)?;
    parent.rename(&Name::new(UNFINISHED)?, parent, &name)
}

/// The certificate of a text in PEM that is nothing else.
fn der(authority: &str) -> Option<Vec<u8>> {
    let encoded = authority
        .trim()
        .strip_prefix("-----BEGIN CERTIFICATE-----")?
        .strip_suffix("-----END CERTIFICATE-----")?;
    let letters = encoded.split_ascii_whitespace().collect::<String>();
    BASE64_STANDARD.decode(letters).ok()
}

/// Adds the authority to a bundle that is there and does not have it.
fn add(parent: &Directory, name: &str, authority: &str) -> io::Result<()> {
    let access = OFlags::RDWR | OFlags::APPEND;
    let (mut file, bundle) = read(parent, &Name::new(name)?, access)?;
    if contains(&bundle, authority.trim().as_bytes()) {
        return Ok(());
    }
    let before = if bundle.ends_with(b"\n") || bundle.is_empty() {
        ""
    } else {
        "\n"
    };
    let added = format!("{before}{}\n", authority.trim());
    // At once: what follows is either there or not.
    file.write_all(added.as_bytes())
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len().max(1)).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const AUTHORITY_TEXT: &str = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n";

    /// A keystore of Java with nothing in it.
    const EMPTY_KEYSTORE: &[u8; 32] = b"\
        \xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x00\
        \xe2\x68\x6e\x45\xfb\x43\xdf\xa4\xd9\x92\xdd\x41\xce\xb6\xb2\x1c\x63\x30\xd7\x92";

    /// A root with the bundle of Debian that says so.
    fn root_with(bundle: &str) -> (tempfile::TempDir, String) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().to_str().unwrap().to_owned();
        fs::create_dir_all(root.path().join("etc/ssl/certs")).unwrap();
        fs::write(root.path().join(&BUNDLE[1..]), bundle).unwrap();
        (root, path)
    }

    fn read(root: &Path, path: &str) -> String {
        fs::read_to_string(root.join(&path[1..])).unwrap()
    }

    // Those who are not root cannot make the directory root's.
    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    #[test]
    fn an_authority_is_added_once_and_where_the_systems_tool_finds_it() {
        if !is_root() {
            return;
        }
        for (before, after) in [
            ("old\n", format!("old\n{AUTHORITY_TEXT}")),
            ("old", format!("old\n{AUTHORITY_TEXT}")),
            ("", AUTHORITY_TEXT.to_owned()),
        ] {
            let (root, path) = root_with(before);
            for _again in 0..2 {
                trust_below(&path, AUTHORITY_TEXT).unwrap();
                assert_eq!(read(root.path(), AUTHORITY), AUTHORITY_TEXT);
                assert_eq!(read(root.path(), BUNDLE), after);
            }
        }
    }

    /// Puts a keystore without entries into a root.
    fn put_keystore(root: &Path) -> std::path::PathBuf {
        let keystore = root.join("etc/ssl/certs/java/cacerts");
        fs::create_dir_all(keystore.parent().unwrap()).unwrap();
        fs::write(&keystore, EMPTY_KEYSTORE).unwrap();
        keystore
    }

    #[test]
    fn java_is_told_once_and_nothing_unfinished_is_left() {
        if !is_root() {
            return;
        }
        let (root, path) = root_with("old");
        let keystore = put_keystore(root.path());
        trust_below(&path, AUTHORITY_TEXT).unwrap();
        let told = fs::read(&keystore).unwrap();
        let name = NAME_IN_KEYSTORE.as_bytes();
        assert!(told.windows(name.len()).any(|window| window == name));
        assert_eq!(told[8..12], 1_u32.to_be_bytes());
        trust_below(&path, AUTHORITY_TEXT).unwrap();
        assert_eq!(fs::read(&keystore).unwrap(), told);
        let there = fs::read_dir(keystore.parent().unwrap()).unwrap();
        assert_eq!(there.count(), 1);
    }

    #[test]
    fn a_keystore_that_nobody_here_can_read_is_left_as_it_is_and_the_rest_is_done() {
        if !is_root() {
            return;
        }
        let (root, path) = root_with("old\n");
        let keystore = put_keystore(root.path());
        let elsewhere = root.path().join("elsewhere");
        let large = vec![0; usize::try_from(LARGEST).unwrap() + 1];
        for content in [&b"0\x82of another kind"[..], &EMPTY_KEYSTORE[..31], &large] {
            fs::write(&keystore, content).unwrap();
            trust_below(&path, AUTHORITY_TEXT).unwrap();
            assert_eq!(fs::read(&keystore).unwrap(), content);
        }
        fs::remove_file(&keystore).unwrap();
        fs::write(&elsewhere, EMPTY_KEYSTORE).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &keystore).unwrap();
        trust_below(&path, AUTHORITY_TEXT).unwrap();
        assert_eq!(fs::read(&elsewhere).unwrap(), EMPTY_KEYSTORE);
        assert_eq!(read(root.path(), BUNDLE), format!("old\n{AUTHORITY_TEXT}"));
    }

    #[test]
    fn a_root_without_bundles_gets_none() {
        if !is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        trust_below(root.path().to_str().unwrap(), AUTHORITY_TEXT).unwrap();
        assert_eq!(read(root.path(), AUTHORITY), AUTHORITY_TEXT);
        assert!(!root.path().join("etc").exists());
    }

    #[test]
    fn what_the_sandbox_put_in_place_of_a_bundle_is_neither_followed_nor_waited_for() {
        if !is_root() {
            return;
        }
        let (root, path) = root_with("old");
        let bundle = root.path().join(&BUNDLE[1..]);
        let elsewhere = root.path().join("elsewhere");
        fs::write(&elsewhere, "theirs").unwrap();
        fs::remove_file(&bundle).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &bundle).unwrap();
        trust_below(&path, AUTHORITY_TEXT).unwrap_err();
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "theirs");
        fs::remove_file(&bundle).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::mkfifoat(rustix::fs::CWD, &bundle, mode).unwrap();
        trust_below(&path, AUTHORITY_TEXT).unwrap_err();
        // What was in the place of the file of our own goes.
        fs::remove_file(&bundle).unwrap();
        fs::remove_file(root.path().join(&AUTHORITY[1..])).unwrap();
        std::os::unix::fs::symlink(&elsewhere, root.path().join(&AUTHORITY[1..])).unwrap();
        trust_below(&path, AUTHORITY_TEXT).unwrap();
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "theirs");
    }
}
