//! Paths of requests, and the things that they name.

use crate::names::{ArchivePath, FileName, PackageName, ProjectName};

/// A thing that the mirror has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The files of a Python project.
    Project(ProjectName),
    /// A file of one, by its digest.
    Distribution(ProjectName, String, FileName),
    /// The document of a package of npm.
    Package(PackageName),
    /// An archive of one.
    Archive(PackageName, FileName),
    /// A file of Debian's archive.
    Debian(ArchivePath),
    /// A file of Debian's archive of security updates.
    DebianSecurity(ArchivePath),
}

impl Route {
    /// The route of a path, which is as it was sent.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let components: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        match components.as_slice() {
            ["pypi", "simple", name] | ["pypi", "simple", name, ""] => {
                ProjectName::parse(name).map(Self::Project)
            }
            ["pypi", "files", project, digest, name] => {
                let is_digest =
                    digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
                let digest = is_digest.then(|| digest.to_ascii_lowercase())?;
                let (project, name) = (ProjectName::parse(project)?, FileName::parse(name)?);
                Some(Self::Distribution(project, digest, name))
            }
            ["npm", package @ .., "-", file] if !package.is_empty() => Some(Self::Archive(
                PackageName::parse(package)?,
                FileName::parse(file)?,
            )),
            ["npm", package @ ..] => PackageName::parse(package).map(Self::Package),
            ["debian", path @ ..] => ArchivePath::parse(path).map(Self::Debian),
            ["debian-security", path @ ..] => ArchivePath::parse(path).map(Self::DebianSecurity),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_lead_somewhere() {
        let digest = "a".repeat(64);
        for known in [
            "/pypi/simple/six/".to_owned(),
            "/pypi/simple/six".to_owned(),
            format!("/pypi/files/six/{digest}/six-1%2bx.whl"),
            "/npm/left-pad".to_owned(),
            "/npm/@types%2fnode".to_owned(),
            "/npm/@types/node/-/node-1.0.0.tgz".to_owned(),
            "/debian/dists/trixie/InRelease".to_owned(),
            "/debian-security/pool/updates/main/o/x.deb".to_owned(),
        ] {
            assert!(Route::of(&known).is_some(), "{known}");
        }
        for wrong in [
            "",
            "/",
            "*",
            "http://pypi.org/simple/six/",
            "/pypi/simple/",
            "/pypi/simple/../../npm/x",
            "/pypi/simple/%2e%2e/",
            "/pypi/files/six/aa/six.whl",
            "/npm/-/v1/search",
            "/npm/-/npm/v1/security/advisories/bulk",
            "/npm/",
            "/npm/a/-/..",
            "/npm/a/-/b%2fc",
            "/debian/../etc/passwd",
            "/debian/pool/%2e%2e/%2e%2e/etc/passwd",
            "//pypi/simple/six",
        ] {
            assert_eq!(Route::of(wrong), None, "{wrong}");
        }
    }
}
