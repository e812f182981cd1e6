//! Settings of apt: mirrors and proxies.

use std::path::{Path, PathBuf};

use crate::settings::{Host, PackageSettingsError, is_web_address};

/// Settings of apt about how to reach a mirror, each with everything below it.
const SETTINGS: [&str; 8] = [
    "Acquire::http::Proxy",
    "Acquire::https::Proxy",
    "Acquire::http::Timeout",
    "Acquire::https::Timeout",
    "Acquire::https::Verify-Peer",
    "Acquire::Check-Valid-Until",
    "Acquire::ForceIPv4",
    "Acquire::Retries",
];

/// Paths of Debian's keys on a host that has the package with them.
const KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
];

/// Mirrors and proxies from apt's configuration.
#[derive(Clone, Default)]
pub struct AptSettings {
    /// Lines of apt's own configuration language.
    lines: Vec<String>,
    ca_info: Option<String>,
    mirror: Option<Mirror>,
    keyring: Option<PathBuf>,
}

/// The mirrors of a Debian host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mirror {
    pub(crate) main: String,
    pub(crate) security: Option<String>,
}

impl std::fmt::Debug for AptSettings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("AptSettings")
            .finish_non_exhaustive()
    }
}

impl AptSettings {
    pub(crate) fn read(host: &Host<'_>) -> Result<Self, PackageSettingsError> {
        let concerns = |line: &&str| {
            SETTINGS.iter().any(|setting| {
                line.strip_prefix(setting)
                    .is_some_and(|rest| rest.starts_with([' ', ':']))
            })
        };
        let ca_info = host
            .apt_dump
            .lines()
            .find_map(|line| line.strip_prefix("Acquire::https::CaInfo "))
            .map(|value| value.trim_end_matches(';').trim_matches('"').to_owned());
        let keyring = KEYRINGS.iter().map(PathBuf::from);
        Ok(Self {
            lines: host
                .apt_dump
                .lines()
                .filter(concerns)
                .map(str::to_owned)
                .collect(),
            ca_info,
            mirror: Mirror::read(host)?,
            keyring: keyring.into_iter().find(|path| host.path(path).exists()),
        })
    }

    /// The same with another mirror, to which no proxy leads.
    pub(crate) fn with_mirror(mut self, host: String, mirror: Mirror) -> Self {
        self.lines
            .push(format!("Acquire::http::Proxy::{host} \"DIRECT\";"));
        self.mirror = Some(mirror);
        self.keyring = None;
        self
    }

    pub(crate) fn ca_info(&self) -> Option<&str> {
        self.ca_info.as_deref()
    }

    pub(crate) fn mirror(&self) -> Option<&Mirror> {
        self.mirror.as_ref()
    }

    /// The sources for bootstrapping a release; `None` if the host names no mirror of Debian.
    pub fn sources_for(&self, suite: &str) -> Option<String> {
        let mirror = self.mirror.as_ref()?;
        let options = match &self.keyring {
            Some(keyring) => format!("[signed-by={}] ", keyring.display()),
            None => String::new(),
        };
        let mut text = format!("deb {options}{} {suite} main\n", mirror.main);
        // The moving releases have neither.
        if !matches!(suite, "sid" | "unstable" | "experimental") {
            text.push_str(&format!(
                "deb {options}{} {suite}-updates main\n",
                mirror.main
            ));
            if let Some(security) = &mirror.security {
                text.push_str(&format!("deb {options}{security} {suite}-security main\n"));
            }
        }
        Some(text)
    }

    /// The settings in apt's configuration language.
    pub fn configuration(&self, bundle: Option<&Path>) -> String {
        let mut text = String::new();
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        if let Some(bundle) = bundle {
            text.push_str(&format!(
                "Acquire::https::CaInfo \"{}\";\n",
                bundle.display()
            ));
        }
        text
    }
}

impl Mirror {
    fn read(host: &Host<'_>) -> Result<Option<Self>, PackageSettingsError> {
        let release = host.file("/etc/os-release")?.unwrap_or_default();
        let field = |name: &str| {
            release
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
                .map(|value| value.trim_matches('"'))
        };
        // Another distribution's mirror has other packages.
        let (Some("debian"), Some(codename)) = (field("ID"), field("VERSION_CODENAME")) else {
            return Ok(None);
        };
        let mut sources = Vec::new();
        if let Some(text) = host.file("/etc/apt/sources.list")? {
            sources.extend(one_line_sources(&text));
        }
        for (name, text) in host.files_in("/etc/apt/sources.list.d", &[".list", ".sources"])? {
            if name.ends_with(".list") {
                sources.extend(one_line_sources(&text));
            } else {
                sources.extend(stanza_sources(&text));
            }
        }
        let find = |wanted: &str| {
            sources
                .iter()
                .find(|(uri, suite)| suite == wanted && is_web_address(uri))
                .map(|(uri, _)| uri.clone())
        };
        Ok(find(codename).map(|main| Self {
            main,
            security: find(&format!("{codename}-security")),
        }))
    }

    /// The mirror in words, to tell one from another.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} {}\n",
            self.main,
            self.security.as_deref().unwrap_or("-")
        )
    }

    /// A template's sources, with this mirror in the place of whatever they name.
    pub(crate) fn redirect(&self, sources: &str) -> String {
        let mut text = String::new();
        for line in sources.lines() {
            let redirected = parse_line(line).map(|(uri, suite)| {
                let own = if suite.ends_with("-security") {
                    self.security.as_deref().unwrap_or(uri)
                } else {
                    &self.main
                };
                line.replacen(uri, own, 1)
            });
            text.push_str(redirected.as_deref().unwrap_or(line));
            text.push('\n');
        }
        text
    }
}

/// Address and release of a line such as `deb [options] address release component`.
fn parse_line(line: &str) -> Option<(&str, &str)> {
    let entry = line.trim().strip_prefix("deb ")?.trim_start();
    let source = match entry.strip_prefix('[') {
        Some(options) => options.split_once(']')?.1,
        None => entry,
    };
    let mut words = source.split_whitespace();
    Some((words.next()?, words.next()?))
}

fn one_line_sources(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(parse_line)
        .map(|(uri, suite)| (uri.to_owned(), suite.to_owned()))
        .collect()
}

/// The sources of a file in stanzas of `Key: values`.
fn stanza_sources(text: &str) -> Vec<(String, String)> {
    let without_comments: String = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    let mut sources = Vec::new();
    for stanza in without_comments.split("\n\n") {
        let field = |name: &str| {
            stanza.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim())
            })
        };
        let disabled = field("Enabled").is_some_and(|value| value.eq_ignore_ascii_case("no"));
        let binary =
            field("Types").is_some_and(|types| types.split_whitespace().any(|kind| kind == "deb"));
        if disabled || !binary {
            continue;
        }
        let uri = field("URIs").and_then(|uris| uris.split_whitespace().next());
        let suites = field("Suites").unwrap_or_default().split_whitespace();
        sources.extend(uri.into_iter().flat_map(|uri| {
            suites
                .clone()
                .map(move |suite| (uri.to_owned(), suite.to_owned()))
        }));
    }
    sources
}
