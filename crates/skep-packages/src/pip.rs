//! Settings of pip.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::settings::{Host, PackageSettingsError, is_web_address};

/// The options that say how to reach an index. Others, such as where to install, are about the
/// host itself.
const OPTIONS: [&str; 8] = [
    "index-url",
    "extra-index-url",
    "find-links",
    "trusted-host",
    "proxy",
    "timeout",
    "retries",
    "cert",
];

/// Reads pip's files and variables; the later ones win, as with pip.
pub(crate) fn read(host: &Host<'_>) -> Result<BTreeMap<String, String>, PackageSettingsError> {
    let mut options = BTreeMap::new();
    let files = [
        Some(PathBuf::from("/etc/xdg/pip/pip.conf")),
        Some(PathBuf::from("/etc/pip.conf")),
        host.home(".pip/pip.conf"),
        host.config_home("pip/pip.conf"),
        host.env.get("PIP_CONFIG_FILE").map(PathBuf::from),
    ];
    for path in files.into_iter().flatten() {
        if let Some(text) = host.file(path)? {
            read_file(&text, &mut options);
        }
    }
    for (name, value) in host.env {
        if let Some(option) = name.strip_prefix("PIP_") {
            take(&mut options, option, value);
        }
    }
    Ok(options)
}

fn read_file(text: &str, options: &mut BTreeMap<String, String>) {
    let mut relevant = false;
    let mut option: Option<String> = None;
    for line in text.lines() {
        if let Some(section) = line.trim().strip_prefix('[') {
            relevant = matches!(
                section.trim_end_matches(']'),
                "global" | "install" | "download"
            );
            option = None;
        } else if line.trim().is_empty() || line.trim_start().starts_with(['#', ';']) || !relevant {
        } else if let (true, Some(name)) = (line.starts_with([' ', '\t']), &option) {
            // An indented line goes on with the value of the line before.
            let so_far = options.get(name).cloned().unwrap_or_default();
            take(options, name, &format!("{so_far} {}", line.trim()));
        } else if let Some((name, value)) = line.split_once(['=', ':']) {
            let name = name.trim().to_owned();
            take(options, &name, value);
            option = Some(name);
        }
    }
}

fn take(options: &mut BTreeMap<String, String>, name: &str, value: &str) {
    let mut name = name.to_ascii_lowercase().replace('_', "-");
    if name == "default-timeout" {
        "timeout".clone_into(&mut name);
    }
    // A directory of the host is not there in a template.
    let local = name == "find-links" && !value.split_whitespace().all(is_web_address);
    if OPTIONS.contains(&name.as_str()) && !local {
        options.insert(name, value.trim().to_owned());
    }
}

/// The options as a file for pip.
pub(crate) fn render(options: &BTreeMap<String, String>, bundle: Option<&Path>) -> String {
    let mut text = "[global]\n".to_owned();
    for (name, value) in options {
        let value = value.split_whitespace().collect::<Vec<_>>().join("\n    ");
        text.push_str(&format!("{name} = {value}\n"));
    }
    if let Some(bundle) = bundle {
        text.push_str(&format!("cert = {}\n", bundle.display()));
    }
    text
}
