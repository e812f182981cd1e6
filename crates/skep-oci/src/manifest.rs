//! Manifests, indexes and configurations of images.

use serde::Deserialize;

use crate::digest::Digest;
use crate::error::PullReason;

/// Kinds of manifests that we ask for.
pub(crate) const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// Target of a reference.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// The manifest of an image.
    Image(Manifest),
    /// The digest of the manifest for this host.
    Index(Digest),
}

/// The parts of an image.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) config: Part,
    /// The lowest first.
    pub(crate) layers: Vec<Part>,
}

/// A blob, as a manifest names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

/// The fields of an image's configuration that are used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// Digests of the layers, uncompressed.
    pub(crate) diff_ids: Vec<Digest>,
    pub(crate) environment: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct RawDocument {
    manifests: Option<Vec<RawEntry>>,
    config: Option<RawPart>,
    layers: Option<Vec<RawPart>>,
}

#[derive(Deserialize)]
struct RawEntry {
    digest: String,
    platform: Option<RawPlatform>,
}

#[derive(Deserialize)]
struct RawPlatform {
    os: String,
    architecture: String,
    variant: Option<String>,
}

#[derive(Deserialize)]
struct RawPart {
    digest: String,
    size: u64,
}

#[derive(Deserialize)]
struct RawConfiguration {
    os: Option<String>,
    architecture: Option<String>,
    config: Option<RawRuntime>,
    rootfs: RawRoot,
}

#[derive(Deserialize)]
struct RawRuntime {
    #[serde(rename = "Env")]
    env: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct RawRoot {
    diff_ids: Vec<String>,
}

/// The name that images have for this host's architecture.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

impl Document {
    /// Reads a manifest, or finds the one for `architecture` in an index.
    pub(crate) fn read(bytes: &[u8], architecture: &'static str) -> Result<Self, PullReason> {
        let malformed = PullReason::Malformed;
        let raw: RawDocument =
            serde_json::from_slice(bytes).map_err(|_| malformed("its manifest cannot be read"))?;
        if let Some(entries) = raw.manifests {
            let entry = choose(&entries, architecture).ok_or(PullReason::Platform(architecture))?;
            let digest = digest(&entry.digest)?;
            return Ok(Self::Index(digest));
        }
        let (Some(config), Some(layers)) = (raw.config, raw.layers) else {
            return Err(malformed(
                "its manifest names no configuration or no layers",
            ));
        };
        Ok(Self::Image(Manifest {
            config: config.part()?,
            layers: layers.iter().map(RawPart::part).collect::<Result<_, _>>()?,
        }))
    }
}

impl Configuration {
    /// Reads the configuration of an image for `architecture` with this many layers.
    pub(crate) fn read(
        bytes: &[u8],
        architecture: &'static str,
        layers: usize,
    ) -> Result<Self, PullReason> {
        let malformed = PullReason::Malformed;
        let raw: RawConfiguration = serde_json::from_slice(bytes)
            .map_err(|_| malformed("its configuration cannot be read"))?;
        let is_ours = |found: &Option<String>, ours: &str| {
            found
                .as_deref()
                .is_none_or(|found| found.is_empty() || found == ours)
        };
        if !is_ours(&raw.os, "linux") || !is_ours(&raw.architecture, architecture) {
            return Err(PullReason::Platform(architecture));
        }
        if raw.rootfs.diff_ids.len() != layers {
            return Err(malformed(
                "manifest and configuration have different layers",
            ));
        }
        let diff_ids = raw.rootfs.diff_ids.iter().map(|text| digest(text));
        let variables = raw.config.and_then(|config| config.env).unwrap_or_default();
        Ok(Self {
            diff_ids: diff_ids.collect::<Result<_, _>>()?,
            environment: variables.iter().filter_map(|text| variable(text)).collect(),
        })
    }
}

/// The entry for this host. An index may have several of one architecture, for older and newer
/// processors; the one without a variant, or with the one that every such processor is, is first.
fn choose<'a>(entries: &'a [RawEntry], architecture: &str) -> Option<&'a RawEntry> {
    let fits = |entry: &&RawEntry, variants: &[Option<&str>]| {
        entry.platform.as_ref().is_some_and(|platform| {
            platform.os == "linux"
                && platform.architecture == architecture
                && variants.contains(&platform.variant.as_deref())
        })
    };
    let plain = [None, Some(""), Some("v1"), Some("v8")];
    entries.iter().find(|entry| fits(entry, &plain))
}

/// One `NAME=value`; those without a value say nothing.
fn variable(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    (!name.is_empty() && !value.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

impl RawPart {
    fn part(&self) -> Result<Part, PullReason> {
        Ok(Part {
            digest: digest(&self.digest)?,
            size: self.size,
        })
    }
}

fn digest(text: &str) -> Result<Digest, PullReason> {
    text.parse()
        .map_err(|_| PullReason::Malformed("a digest in it is not of SHA-256"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(letter: char) -> String {
        format!("sha256:{}", letter.to_string().repeat(64))
    }

    #[test]
    fn of_an_index_the_entry_for_this_host_is_taken() {
        let entry = |letter: char, os: &str, architecture: &str, variant: &str| {
            format!(
                r#"{{"digest":"{}","platform":{{"os":"{os}","architecture":"{architecture}"{variant}}}}}"#,
                digest_of(letter)
            )
        };
        let index = format!(
            r#"{{"schemaVersion":2,"manifests":[{},{},{},{},{{"digest":"{}"}}]}}"#,
            entry('a', "unknown", "unknown", ""),
            entry('b', "windows", "amd64", ""),
            entry('c', "linux", "arm64", r#","variant":"v8""#),
            entry('d', "linux", "amd64", ""),
            digest_of('e'),
        );
        let chosen = |architecture| match Document::read(index.as_bytes(), architecture) {
            Ok(Document::Index(digest)) => digest.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(chosen("amd64"), digest_of('d'));
        assert_eq!(chosen("arm64"), digest_of('c'));
        assert!(
            chosen("riscv64").contains("Platform"),
            "{}",
            chosen("riscv64")
        );
    }

    #[test]
    fn of_the_configuration_variables_with_a_value_are_used() {
        let text = format!(
            r#"{{"os":"linux","architecture":"amd64","config":{{"Env":["PATH=/bin:/usr/bin"," A = b=c ","EMPTY=","x"],"User":"me"}},
                "rootfs":{{"type":"layers","diff_ids":["{}"]}}}}"#,
            digest_of('a')
        );
        let found = Configuration::read(text.as_bytes(), "amd64", 1).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            found.environment,
            [pair("PATH", "/bin:/usr/bin"), pair("A", "b=c")]
        );
        let refused = |architecture, layers| {
            Configuration::read(text.as_bytes(), architecture, layers)
                .map_err(|error| error.to_string())
        };
        assert!(refused("arm64", 1).is_err_and(|text| text.contains("linux/arm64")));
        assert!(refused("amd64", 2).is_err_and(|text| text.contains("different layers")));
    }
}
