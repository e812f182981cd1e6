//! Files by which the programs of a host's users trust its own authority.
//!
//! The authority itself is kept where only the server can look. What its users have to trust is
//! copied to a directory that they can reach: once alone, for programs that take one authority
//! more, and once together with everything that the host trusts, for those that trust nothing but
//! the file they are told.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

const AUTHORITY: &str = "ca.pem";
const BUNDLE: &str = "bundle.pem";
/// Mode bits with which group or others could change a directory.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The published files of an authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustFiles {
    /// The authority's certificate alone.
    pub authority: PathBuf,
    /// The same with every authority that the host trusts.
    pub bundle: PathBuf,
}

/// Failure to publish an authority.
#[derive(Debug, thiserror::Error)]
pub enum TrustFilesError {
    /// A file or the directory cannot be read, made or replaced.
    #[error("cannot {operation} `{}`", path.display())]
    File {
        /// The operation that was tried, as a verb.
        operation: &'static str,
        /// File or directory of the operation.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The directory is somebody else's, or others can change it: they could tell users whom to
    /// trust.
    #[error("`{}` is no directory of the server's alone", directory.display())]
    Foreign {
        /// The directory that was to hold the files.
        directory: PathBuf,
    },
}

impl TrustFiles {
    /// Publishes the certificate in the file `authority` in `directory`, which is made if it is
    /// missing, together with `host`, the certificates that the host trusts. Users who read
    /// meanwhile find the old files or the new ones.
    ///
    /// # Errors
    ///
    /// [`TrustFilesError`]; files that were published before stay.
    pub fn publish(
        directory: &Path,
        authority: &Path,
        host: &str,
    ) -> Result<Self, TrustFilesError> {
        let certificate = fs::read_to_string(authority).map_err(failed("read", authority))?;
        let server = fs::metadata(authority).map_err(failed("look at", authority))?;
        prepare(directory, server.uid())?;
        let published = Self {
            authority: directory.join(AUTHORITY),
            bundle: directory.join(BUNDLE),
        };
        // What an operator's shell trusts may have come from here.
        let host = host.replace(certificate.trim(), "");
        let bundle = format!("{}\n{}\n", certificate.trim(), host.trim());
        replace(&published.authority, &certificate)?;
        replace(&published.bundle, &bundle)?;
        Ok(published)
    }

    /// Returns true if files were published in `directory`, and nothing else is in it.
    pub fn are_in(directory: &Path) -> bool {
        let Ok(entries) = fs::read_dir(directory) else {
            return false;
        };
        let mut names = entries.map(|entry| entry.map(|entry| entry.file_name()));
        let ours = |name: io::Result<std::ffi::OsString>| {
            name.is_ok_and(|name| [AUTHORITY, BUNDLE].map(Into::into).contains(&name))
        };
        directory.join(AUTHORITY).is_file() && names.all(ours)
    }
}

/// Makes a directory that everybody can read and only the server's user can change.
fn prepare(directory: &Path, server: u32) -> Result<(), TrustFilesError> {
    match DirBuilder::new().mode(0o755).create(directory) {
        // The process may give others nothing by default.
        Ok(()) => fs::set_permissions(directory, Permissions::from_mode(0o755))
            .map_err(failed("open up", directory))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed("make", directory)(error)),
    }
    let found = fs::symlink_metadata(directory).map_err(failed("look at", directory))?;
    if found.is_dir() && found.uid() == server && found.mode() & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    Err(TrustFilesError::Foreign {
        directory: directory.to_owned(),
    })
}

fn replace(path: &Path, text: &str) -> Result<(), TrustFilesError> {
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove", &new)(error));
        }
        Ok(()) | Err(_) => {}
    }
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o644).open(&new);
    let written = opened.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(0o644))
    });
    written.map_err(failed("write", &new))?;
    fs::rename(&new, path).map_err(failed("replace", path))
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TrustFilesError {
    let path = path.to_owned();
    move |source| TrustFilesError::File {
        operation,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const OURS: &str = "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n";
    const THEIRS: &str = "-----BEGIN CERTIFICATE-----\ntheirs\n-----END CERTIFICATE-----\n";

    fn folder() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (authority, directory) = (folder.path().join("ca"), folder.path().join("public"));
        fs::write(&authority, OURS).unwrap();
        (folder, authority, directory)
    }

    #[test]
    fn everybody_can_read_what_is_published_and_nobody_can_change_it() {
        let (_folder, authority, directory) = folder();
        assert!(!TrustFiles::are_in(&directory));
        // A second time as at the next start, when the operator's shell trusts the first.
        let mut host = THEIRS.to_owned();
        for _ in 0..2 {
            let files = TrustFiles::publish(&directory, &authority, &host).unwrap();
            assert_eq!(fs::read_to_string(&files.authority).unwrap(), OURS);
            let bundle = fs::read_to_string(&files.bundle).unwrap();
            assert_eq!(bundle.matches("\nours\n").count(), 1, "{bundle}");
            assert_eq!(bundle.matches("\ntheirs\n").count(), 1, "{bundle}");
            for (path, expected) in [
                (&directory, 0o755),
                (&files.authority, 0o644),
                (&files.bundle, 0o644),
            ] {
                let mode = fs::metadata(path).unwrap().mode() & 0o777;
                assert_eq!(mode, expected, "{}", path.display());
            }
            host = bundle;
        }
        assert!(TrustFiles::are_in(&directory));
        fs::write(directory.join("thesis.tex"), "").unwrap();
        assert!(!TrustFiles::are_in(&directory));
    }

    #[test]
    fn a_directory_that_others_made_or_can_change_is_refused() {
        let (folder, authority, directory) = folder();
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
        let refused = TrustFiles::publish(&directory, &authority, THEIRS).unwrap_err();
        assert!(
            matches!(refused, TrustFilesError::Foreign { .. }),
            "{refused}"
        );
        let link = folder.path().join("link");
        fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
        symlink(&directory, &link).unwrap();
        let refused = TrustFiles::publish(&link, &authority, THEIRS).unwrap_err();
        assert!(
            matches!(refused, TrustFilesError::Foreign { .. }),
            "{refused}"
        );
        TrustFiles::publish(&directory, &authority, THEIRS).unwrap();
    }
}
