//! The authority that a sandbox trusts for hosts whose requests its owner's rules look into.
//!
//! It is put where the system's own tool finds it (`update-ca-certificates` keeps it), and into the
//! bundles that the tool would write: nobody waits for a program here. Clients that bring
//! certificates of their own are led to the bundle by their variables.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use rustix::fs::{Mode, OFlags};

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
/// Largest bundle that is read. That of Debian has a fifth of a mebibyte.
const LARGEST_BUNDLE: u64 = 8 << 20;

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
    let of_bundle = OF_BUNDLE.iter().filter(move |_| has_bundle);
    let of_bundle = of_bundle.map(|name| (*name, BUNDLE));
    of_bundle.chain(OF_AUTHORITY.iter().map(|name| (*name, AUTHORITY)))
}

/// Has programs of the sandbox trust an authority, in PEM. Done twice, it changes nothing more.
pub(crate) fn trust(authority: &str) -> Result<(), FileError> {
    let (directory, made) = make_parents(ADDED, &User::root())?;
    made.keep();
    settings::write_anew(&directory, NAME, authority.as_bytes())
        .map_err(|source| FileError::io("write", AUTHORITY, source))?;
    for (parent, name) in BUNDLES {
        let added = Directory::find(parent).and_then(|parent| add(&parent, name, authority));
        match added {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(FileError::io("add to", &path::join(parent, name), source)),
        }
    }
    Ok(())
}

/// Adds the authority to a bundle that is there and does not have it.
fn add(parent: &Directory, name: &str, authority: &str) -> io::Result<()> {
    // What the sandbox has put in its place may be a pipe, or a link to anything.
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = parent.open(&Name::new(name)?, flags, Mode::empty())?;
    rootfs::expect_regular(&file)?;
    let mut file = File::from(file);
    let mut bundle = Vec::new();
    let read = (&mut file)
        .take(LARGEST_BUNDLE + 1)
        .read_to_end(&mut bundle)?;
    if u64::try_from(read).is_ok_and(|read| read > LARGEST_BUNDLE) {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
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
