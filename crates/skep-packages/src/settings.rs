//! The settings of all package clients of a host.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::logins::Logins;
use crate::{AptSettings, MirrorPlace, Registries, bundle, npm, pip, uv};

/// The directory at which a template sees the settings while a step of its build runs.
pub const BUILD_DIR: &str = "/run/skep";

/// The bundle of certificates in a template.
const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// The sources of apt in a template.
const SOURCES: &str = "/etc/apt/sources.list";

/// Failure to read the host's settings.
#[derive(Debug, thiserror::Error)]
pub enum PackageSettingsError {
    /// A settings file is there but cannot be read.
    #[error("cannot read the package settings in `{}`", path.display())]
    Unreadable {
        /// The file that could not be read.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// A settings file is there but says something else than settings.
    #[error("the package settings in `{}` are damaged", path.display())]
    Damaged {
        /// The file that is not valid TOML.
        path: PathBuf,
        /// Position and message of the parser.
        source: Box<toml::de::Error>,
    },
    /// apt is there but does not tell its settings.
    #[error("cannot run `apt-config dump`")]
    Apt(#[source] io::Error),
}

/// Settings of this host's package clients.
///
/// May contain passwords for mirrors, so its `Debug` tells no values.
#[derive(Clone)]
pub struct PackageSettings {
    bundle: Option<String>,
    proxy: Vec<(String, String)>,
    apt: AptSettings,
    pip: BTreeMap<String, String>,
    npm: BTreeMap<String, String>,
    uv: uv::Indexes,
    /// For registries, and never for a sandbox or a step of a build.
    logins: Logins,
}

/// Inputs that describe the host: its files, its environment, apt's own dump.
#[derive(Debug)]
pub(crate) struct Host<'a> {
    root: &'a Path,
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) apt_dump: &'a str,
}

impl fmt::Debug for PackageSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PackageSettings")
            .finish_non_exhaustive()
    }
}

impl PackageSettings {
    /// Looks at the host's files, and at `env`, which is the environment the server or command
    /// was started with.
    ///
    /// # Errors
    ///
    /// [`PackageSettingsError`] if settings are there but cannot be read: going on without them would fail
    /// later, and for a reason that is harder to see.
    pub fn detect(
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, PackageSettingsError> {
        let env = env.into_iter().collect();
        let apt_dump = match Command::new("apt-config").arg("dump").output() {
            Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
            // A host that is no Debian has no apt, and nothing to tell about it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(PackageSettingsError::Apt(error)),
        };
        Self::read(&Host {
            root: Path::new("/"),
            env: &env,
            apt_dump: &apt_dump,
        })
    }

    /// Settings of a host that has none.
    pub fn none() -> Self {
        let empty = BTreeMap::new();
        Self::assemble(
            None,
            &empty,
            AptSettings::default(),
            BTreeMap::new(),
            BTreeMap::new(),
            uv::Indexes::default(),
        )
    }

    /// The registries that this host's own clients use.
    pub fn registries(&self) -> Registries {
        Registries::of(&self.pip, &self.uv, &self.npm, &self.apt, &self.logins)
    }

    /// The same with a mirror in the place of every registry, and without what is only for those.
    #[must_use]
    pub fn through(self, mirror: &MirrorPlace) -> Self {
        let no_proxy = mirror.without_proxy(&self.proxy);
        let proxy = self
            .proxy
            .into_iter()
            .filter(|(name, _)| !name.eq_ignore_ascii_case("no_proxy"));
        Self {
            bundle: self.bundle,
            proxy: proxy.chain(no_proxy).collect(),
            apt: self.apt.with_mirror(mirror.host(), mirror.apt()),
            pip: mirror.pip(),
            npm: mirror.npm(),
            uv: uv::Indexes::only(&mirror.pypi()),
            logins: Logins::default(),
        }
    }

    fn read(host: &Host<'_>) -> Result<Self, PackageSettingsError> {
        let mut pip = pip::read(host)?;
        let mut npm = npm::read(host)?;
        let apt = AptSettings::read(host)?;
        let uv = uv::Indexes::read(host, &pip)?;
        let own_bundles = [
            pip.remove("cert"),
            npm.remove("cafile"),
            apt.ca_info().map(str::to_owned),
        ];
        let bundle = bundle::collect(host, own_bundles.into_iter().flatten())?;
        Ok(Self {
            logins: Logins::read(host)?,
            ..Self::assemble(bundle, host.env, apt, pip, npm, uv)
        })
    }

    fn assemble(
        bundle: Option<String>,
        env: &BTreeMap<String, String>,
        apt: AptSettings,
        pip: BTreeMap<String, String>,
        npm: BTreeMap<String, String>,
        uv: uv::Indexes,
    ) -> Self {
        const PROXY: [&str; 4] = ["http_proxy", "https_proxy", "no_proxy", "all_proxy"];
        let proxy = env
            .iter()
            .filter(|(name, _)| PROXY.contains(&name.to_ascii_lowercase().as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        Self {
            bundle,
            proxy,
            apt,
            pip,
            npm,
            uv,
            logins: Logins::default(),
        }
    }

    /// Everything that tells these settings from others, for a key of what was made with them.
    pub fn parts(&self) -> Vec<String> {
        let files = self.files(Path::new("/")).into_iter();
        files
            .flat_map(|(name, content)| [name.to_owned(), content])
            .chain(self.apt.mirror().map(|mirror| mirror.describe()))
            .chain(
                self.proxy
                    .iter()
                    .flat_map(|(name, value)| [name.clone(), value.clone()]),
            )
            .collect()
    }

    /// The certificates this host trusts, as PEM.
    pub fn ca_bundle(&self) -> Option<&str> {
        self.bundle.as_deref()
    }

    /// The settings of apt.
    pub fn apt(&self) -> &AptSettings {
        &self.apt
    }

    /// The variables that name proxies.
    pub fn proxy_env(&self) -> &[(String, String)] {
        &self.proxy
    }

    /// The settings as files of a directory that programs see as `dir`.
    fn files(&self, dir: &Path) -> Vec<(&'static str, String)> {
        let own = dir.join("ca.crt");
        let bundle_path = self.bundle.is_some().then_some(own.as_path());
        let mut apt = self.apt.configuration(bundle_path);
        let mut files = vec![
            ("pip.conf", pip::render(&self.pip, bundle_path)),
            ("npmrc", npm::render(&self.npm, bundle_path)),
            ("uv.toml", self.uv.render(bundle_path.is_some())),
        ];
        if let Some(bundle) = &self.bundle {
            files.push(("ca.crt", bundle.clone()));
        }
        if self.apt.mirror().is_some() {
            let sources = dir.join("sources.list");
            apt.push_str(&format!(
                "Dir::Etc::SourceList \"{}\";\n",
                sources.display()
            ));
        }
        files.push(("apt.conf", apt));
        files
    }

    /// Writes the settings into `dir`, which is then mounted at [`BUILD_DIR`] during a step,
    /// and gives the variables that point programs to them. `sources` is what the template's
    /// own apt sources say.
    ///
    /// # Errors
    ///
    /// If the directory cannot be written.
    pub fn for_build(
        &self,
        dir: &Path,
        sources: Option<&str>,
    ) -> io::Result<Vec<(String, String)>> {
        fs::create_dir_all(dir)?;
        let mut files = self.files(Path::new(BUILD_DIR));
        if let Some(mirror) = self.apt.mirror() {
            let redirected = mirror.redirect(sources.unwrap_or_default());
            files.push(("sources.list", redirected));
        }
        // Steps of other users read them too, whatever mask the server was started with.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
        for (name, content) in files {
            let path = dir.join(name);
            fs::write(&path, content)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
        }
        let mut env = self.proxy.clone();
        env.extend(
            [
                ("APT_CONFIG", "apt.conf"),
                ("PIP_CONFIG_FILE", "pip.conf"),
                ("NPM_CONFIG_GLOBALCONFIG", "npmrc"),
                ("UV_CONFIG_FILE", "uv.toml"),
            ]
            .map(|(name, file)| (name.to_owned(), format!("{BUILD_DIR}/{file}"))),
        );
        if self.bundle.is_some() {
            env.extend(bundle::env(&format!("{BUILD_DIR}/ca.crt")));
        }
        Ok(env)
    }

    /// The files in which package clients of a sandbox find the settings, as path and content.
    /// `read` reads a file of the sandbox's template. Files work for `sudo` too, which clears the
    /// environment.
    pub fn files_for_sandbox(
        &self,
        read: impl Fn(&str) -> Option<String>,
    ) -> Vec<(&'static str, String)> {
        let bundle_path = self.bundle.is_some().then_some(Path::new(BUNDLE));
        let mut files = vec![
            (
                "/etc/apt/apt.conf.d/90host-settings",
                self.apt.configuration(None),
            ),
            // pip reads this one before `/etc/pip.conf`, which belongs to the template.
            ("/etc/xdg/pip/pip.conf", pip::render(&self.pip, bundle_path)),
            ("/etc/npmrc", npm::render(&self.npm, bundle_path)),
            ("/etc/uv/uv.toml", self.uv.render(bundle_path.is_some())),
        ];
        if let Some(own) = &self.bundle {
            let below = read(BUNDLE).unwrap_or_default();
            files.push((BUNDLE, bundle::merge([below.as_str(), own].into_iter())));
        }
        if let (Some(mirror), Some(below)) = (self.apt.mirror(), read(SOURCES)) {
            files.push((SOURCES, mirror.redirect(&below)));
        }
        files
    }

    /// The variables by which programs of a sandbox find the settings.
    pub fn env_for_sandbox(&self) -> Vec<(String, String)> {
        let bundle = self.bundle.iter().flat_map(|_| bundle::env(BUNDLE));
        self.proxy.iter().cloned().chain(bundle).collect()
    }
}

impl Host<'_> {
    /// A file of the host; `None` if it is not there.
    pub(crate) fn file(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Option<String>, PackageSettingsError> {
        let path = self.path(path);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if is_absent(&error) => Ok(None),
            Err(source) => Err(PackageSettingsError::Unreadable { path, source }),
        }
    }

    /// The files of a directory with one of these endings, by name; none if it is not there.
    pub(crate) fn files_in(
        &self,
        dir: &str,
        endings: &[&str],
    ) -> Result<Vec<(String, String)>, PackageSettingsError> {
        let unreadable = |source| PackageSettingsError::Unreadable {
            path: self.path(dir),
            source,
        };
        let entries = match fs::read_dir(self.path(dir)) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry.map_err(unreadable)?.file_name().into_string().ok());
        }
        names.sort();
        names.retain(|name| endings.iter().any(|ending| name.ends_with(ending)));
        let mut files = Vec::new();
        for name in names {
            if let Some(content) = self.file(format!("{dir}/{name}"))? {
                files.push((name, content));
            }
        }
        Ok(files)
    }

    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A file below the home of whoever started us.
    pub(crate) fn home(&self, path: &str) -> Option<PathBuf> {
        self.env.get("HOME").map(|home| Path::new(home).join(path))
    }

    /// A file below the configuration directory of whoever started us.
    pub(crate) fn config_home(&self, path: &str) -> Option<PathBuf> {
        match self.env.get("XDG_CONFIG_HOME") {
            Some(dir) => Some(Path::new(dir).join(path)),
            None => self.home(&format!(".config/{path}")),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory
    )
}

/// Returns true if a value is a web address, so that it means the same elsewhere.
pub(crate) fn is_web_address(value: &str) -> bool {
    value.starts_with("http://") || value.starts_with("https://")
}

#[cfg(test)]
mod tests;
