//! Settings of npm.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::settings::{Host, PackageSettingsError};

/// The options that say how to reach a registry. Credentials (`_authToken` and the like) are
/// not among them: whatever runs in a sandbox could read them.
const OPTIONS: [&str; 8] = [
    "registry",
    "proxy",
    "https-proxy",
    "noproxy",
    "strict-ssl",
    "fetch-timeout",
    "fetch-retries",
    "cafile",
];

/// Reads npm's files and variables; the later ones win, as with npm.
pub(crate) fn read(host: &Host<'_>) -> Result<BTreeMap<String, String>, PackageSettingsError> {
    let mut options = BTreeMap::new();
    let files = [
        Some(PathBuf::from("/etc/npmrc")),
        Some(PathBuf::from("/usr/etc/npmrc")),
        Some(PathBuf::from("/usr/local/etc/npmrc")),
        host.home(".npmrc"),
    ];
    for path in files.into_iter().flatten() {
        let text = host.file(path)?.unwrap_or_default();
        for line in text.lines() {
            if let Some((name, value)) = line.split_once('=') {
                take(&mut options, name, value);
            }
        }
    }
    for (name, value) in host.env {
        let lower = name.to_ascii_lowercase();
        if let Some(name) = lower.strip_prefix("npm_config_") {
            take(&mut options, &name.replace('_', "-"), value);
        }
    }
    Ok(options)
}

fn take(options: &mut BTreeMap<String, String>, name: &str, value: &str) {
    let name = name.trim();
    let value = value.trim().trim_matches('"');
    let scope = name.starts_with('@') && name.ends_with(":registry");
    // `${NAME}` refers to a variable that a sandbox does not have.
    if (scope || OPTIONS.contains(&name)) && !value.is_empty() && !value.contains("${") {
        options.insert(name.to_owned(), value.to_owned());
    }
}

/// The options as a file for npm.
pub(crate) fn render(options: &BTreeMap<String, String>, bundle: Option<&Path>) -> String {
    let mut text = String::new();
    for (name, value) in options {
        text.push_str(&format!("{name}={value}\n"));
    }
    if let Some(bundle) = bundle {
        text.push_str(&format!("cafile={}\n", bundle.display()));
    }
    text
}
