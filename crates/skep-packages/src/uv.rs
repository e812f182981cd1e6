//! Settings of uv.

use std::collections::BTreeMap;
use std::path::PathBuf;

use toml::{Table, Value};

use crate::settings::{Host, PackageSettingsError};

/// Keys of `uv.toml` that say how to reach an index.
const KEYS: [&str; 4] = [
    "index",
    "index-url",
    "extra-index-url",
    "allow-insecure-host",
];

/// Variables of the same meaning, each with its key.
const VARIABLES: [(&str, &str); 4] = [
    ("UV_INDEX_URL", "index-url"),
    ("UV_DEFAULT_INDEX", "index-url"),
    ("UV_EXTRA_INDEX_URL", "extra-index-url"),
    ("UV_INSECURE_HOST", "allow-insecure-host"),
];

/// The indexes uv takes packages from.
#[derive(Clone, Default)]
pub(crate) struct Indexes(Table);

impl Indexes {
    /// Reads uv's files and variables. A host that told only pip about its index means uv too.
    pub(crate) fn read(
        host: &Host<'_>,
        pip: &BTreeMap<String, String>,
    ) -> Result<Self, PackageSettingsError> {
        let mut table = Table::new();
        let files = [
            Some(PathBuf::from("/etc/uv/uv.toml")),
            host.config_home("uv/uv.toml"),
            host.env.get("UV_CONFIG_FILE").map(PathBuf::from),
        ];
        for path in files.into_iter().flatten() {
            let Some(text) = host.file(&path)? else {
                continue;
            };
            let file: Table =
                toml::from_str(&text).map_err(|source| PackageSettingsError::Damaged {
                    path: host.path(&path),
                    source: Box::new(source),
                })?;
            table.extend(
                file.into_iter()
                    .filter(|(key, _)| KEYS.contains(&key.as_str())),
            );
        }
        for (name, key) in VARIABLES {
            if let Some(value) = host.env.get(name) {
                table.insert(key.to_owned(), value_of(key, value));
            }
        }
        for key in ["index-url", "extra-index-url"] {
            if let (false, Some(value)) = (table.contains_key("index"), pip.get(key)) {
                table.entry(key).or_insert_with(|| value_of(key, value));
            }
        }
        Ok(Self(table))
    }

    /// One index and no other.
    pub(crate) fn only(url: &str) -> Self {
        let index = ("index-url".to_owned(), Value::String(url.to_owned()));
        Self(Table::from_iter([index]))
    }

    /// URL of the index that packages are taken from first.
    pub(crate) fn main(&self) -> Option<&str> {
        let indexes = self.0.get("index").and_then(Value::as_array);
        let is_default = |index: &&Value| {
            let default = index.get("default").and_then(Value::as_bool);
            default.unwrap_or_default()
        };
        let default = indexes.into_iter().flatten().find(is_default);
        let url = default.and_then(|index| index.get("url"));
        url.or_else(|| self.0.get("index-url"))?.as_str()
    }

    /// The settings as a file for uv. With certificates of the host, uv has to look at the
    /// system's instead of its own.
    pub(crate) fn render(&self, system_certificates: bool) -> String {
        let mut table = self.0.clone();
        if system_certificates {
            table.insert("native-tls".to_owned(), Value::Boolean(true));
        }
        table.to_string()
    }
}

fn value_of(key: &str, text: &str) -> Value {
    match key {
        "index-url" => Value::String(text.to_owned()),
        _ => Value::Array(
            text.split_whitespace()
                .map(|word| Value::String(word.to_owned()))
                .collect(),
        ),
    }
}
