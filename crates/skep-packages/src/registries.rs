//! The registries that this host's own clients use.

use std::collections::BTreeMap;

use skep_types::Redacted;

use crate::AptSettings;
use crate::logins::{Logins, without_login};
use crate::settings::is_web_address;
use crate::uv::Indexes;

/// Registries of those whose clients were told of no other.
const PYPI: &str = "https://pypi.org/simple/";
const NPM: &str = "https://registry.npmjs.org/";
const DEBIAN: &str = "http://deb.debian.org/debian";
const DEBIAN_SECURITY: &str = "http://deb.debian.org/debian-security";

/// A registry, and how one logs in there.
#[derive(Debug, Clone)]
pub struct Registry {
    /// Its URL, without a user or a password.
    pub url: String,
    /// Value of the `Authorization` header for it.
    pub authorization: Option<Redacted<String>>,
}

/// The registries of one host.
#[derive(Debug, Clone)]
pub struct Registries {
    /// The index of Python projects.
    pub pypi: Registry,
    /// The registry of npm.
    pub npm: Registry,
    /// Debian's archive.
    pub debian: Registry,
    /// Debian's archive of security updates.
    pub debian_security: Registry,
    logins: Logins,
}

impl Registries {
    pub(crate) fn of(
        pip: &BTreeMap<String, String>,
        uv: &Indexes,
        npm: &BTreeMap<String, String>,
        apt: &AptSettings,
        logins: &Logins,
    ) -> Self {
        let web = |url: Option<&str>| url.filter(|url| is_web_address(url)).map(str::to_owned);
        let option =
            |options: &BTreeMap<String, String>, name| web(options.get(name).map(String::as_str));
        let mirror = apt.mirror();
        let main = mirror.map(|mirror| mirror.main.as_str());
        let security = mirror.and_then(|mirror| mirror.security.as_deref());
        let index = option(pip, "index-url").or_else(|| web(uv.main()));
        let machine = |url: Option<String>, other: &str| {
            Registry::at(url.as_deref().unwrap_or(other), |url| {
                logins.of_machine(url)
            })
        };
        let registry = option(npm, "registry").unwrap_or_else(|| NPM.to_owned());
        Self {
            pypi: machine(index, PYPI),
            npm: Registry::at(&registry, |url| logins.of_npm(url)),
            debian: machine(web(main), DEBIAN),
            debian_security: machine(web(security), DEBIAN_SECURITY),
            logins: logins.clone(),
        }
    }

    /// The same with other places for some of them. What this host has for logging in there counts for
    /// them, too.
    #[must_use]
    pub fn with(self, [pypi, npm, debian, debian_security]: [Option<&str>; 4]) -> Self {
        let machine = |url: Option<&str>, other: Registry| {
            url.map_or(other, |url| {
                Registry::at(url, |url| self.logins.of_machine(url))
            })
        };
        Self {
            pypi: machine(pypi, self.pypi),
            npm: npm.map_or(self.npm, |url| {
                Registry::at(url, |url| self.logins.of_npm(url))
            }),
            debian: machine(debian, self.debian),
            debian_security: machine(debian_security, self.debian_security),
            logins: self.logins.clone(),
        }
    }
}

impl Registry {
    /// The registry of a URL that may have a login in it; otherwise the one that is known counts.
    fn at(url: &str, known: impl FnOnce(&str) -> Option<Redacted<String>>) -> Self {
        let (url, own) = without_login(url);
        let authorization = own.or_else(|| known(&url));
        Self { url, authorization }
    }
}
