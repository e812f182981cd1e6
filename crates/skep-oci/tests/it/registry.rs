//! Debian's registry, on a port of its own, and what is needed to pull from it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use skep_image::Catalog;
use skep_oci::{PullError, Puller, Registries, Unpacker};
use skep_types::{PulledImage, RegistryCredentials};
use tempfile::TempDir;

use crate::archive::{digest, gzip};

/// User name and password of a registry that wants some.
pub(crate) const USER: &str = "bee";
pub(crate) const PASSWORD: &str = "hunter2";
/// The same for the registry, hashed by bcrypt.
const HTPASSWD: &str = "bee:$2b$05$abcdefghijklmnopqrstuuoXuKqgZXLiJqzfmMXDDhSFPIvxV7t8.\n";

/// A registry that ends with the test.
pub(crate) struct Registry {
    process: Child,
    pub(crate) host: String,
    _directory: TempDir,
}

impl Registry {
    /// Starts a registry that anybody may use.
    pub(crate) fn open() -> Self {
        Self::start("")
    }

    /// Starts one that wants [`USER`] and [`PASSWORD`].
    pub(crate) fn closed() -> Self {
        Self::start("auth: {htpasswd: {realm: tests, path: HTPASSWD}}\n")
    }

    fn start(auth: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("htpasswd"), HTPASSWD).unwrap();
        let auth = auth.replace("HTPASSWD", at("htpasswd").to_str().unwrap());
        let storage = at("storage");
        let text = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: \"127.0.0.1:0\"}}\n{auth}",
            storage.display()
        );
        fs::write(at("config.yml"), text).unwrap();
        let mut process = Command::new("docker-registry")
            .arg("serve")
            .arg(at("config.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("scripts/host-packages test installs docker-registry");
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let host = lines
            .find_map(|line| {
                let line = line.ok()?;
                let (_, rest) = line.split_once("listening on ")?;
                let end = rest.find(['"', ' ']).unwrap_or(rest.len());
                Some(rest[..end].to_owned())
            })
            .expect("a registry says where it listens");
        // It must not stand still because nobody reads what it logs.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            process,
            host,
            _directory: directory,
        }
    }

    /// Puts an image of these layers there, compressed by gzip, and returns its digest.
    pub(crate) fn push(&self, repository: &str, tag: &str, layers: &[Vec<u8>]) -> String {
        let blobs: Vec<Vec<u8>> = layers.iter().map(|layer| gzip(layer)).collect();
        self.push_blobs(repository, tag, layers, &blobs)
    }

    /// The same, compressed by the caller.
    pub(crate) fn push_blobs(
        &self,
        repository: &str,
        tag: &str,
        layers: &[Vec<u8>],
        blobs: &[Vec<u8>],
    ) -> String {
        for blob in blobs {
            self.put_blob(repository, blob);
        }
        let configuration = configuration(std::env::consts::ARCH, layers);
        self.put_blob(repository, configuration.as_bytes());
        let manifest = manifest(&configuration, blobs);
        let kind = "application/vnd.oci.image.manifest.v1+json";
        self.put_manifest(repository, tag, kind, &manifest);
        digest(manifest.as_bytes())
    }

    pub(crate) fn put_manifest(&self, repository: &str, tag: &str, kind: &str, text: &str) {
        let url = format!("http://{}/v2/{repository}/manifests/{tag}", self.host);
        let status = curl(
            &["-X", "PUT", "-H", &format!("Content-Type: {kind}"), &url],
            text.as_bytes(),
        );
        assert_eq!(status.trim(), "201", "{text}");
    }

    pub(crate) fn put_blob(&self, repository: &str, blob: &[u8]) {
        let start = format!("http://{}/v2/{repository}/blobs/uploads/", self.host);
        let output = Command::new("curl")
            .args(["-s", "--noproxy", "*", "-u", &format!("{USER}:{PASSWORD}")])
            .args(["-X", "POST", "-D", "-", "-o", "/dev/null", &start])
            .output()
            .unwrap();
        let head = String::from_utf8(output.stdout).unwrap();
        let location = head
            .lines()
            .find_map(|line| line.strip_prefix("Location: "))
            .unwrap_or_else(|| panic!("no place for an upload: {head}"))
            .trim();
        let separator = if location.contains('?') { '&' } else { '?' };
        let url = format!("{location}{separator}digest={}", digest(blob));
        let kind = "Content-Type: application/octet-stream";
        let status = curl(&["-X", "PUT", "-H", kind, &url], blob);
        assert_eq!(status.trim(), "201");
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Sends a body and returns the status.
fn curl(arguments: &[&str], body: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), body).unwrap();
    let output = Command::new("curl")
        .args(["-s", "--noproxy", "*", "-u", &format!("{USER}:{PASSWORD}")])
        .args(["-o", "/dev/null", "-w", "%{http_code}", "--data-binary"])
        .arg(format!("@{}", file.path().display()))
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Configuration of an image for a machine, as Rust names that.
pub(crate) fn configuration(machine: &str, layers: &[Vec<u8>]) -> String {
    let architecture = match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let digests: Vec<String> = layers.iter().map(|layer| digest(layer)).collect();
    format!(
        r#"{{"architecture":"{architecture}","os":"linux","config":{{"Env":["PATH=/usr/bin:/bin","LANG=C.UTF-8","EMPTY="],"User":"nobody"}},"rootfs":{{"type":"layers","diff_ids":{digests:?}}}}}"#
    )
}

pub(crate) fn manifest(configuration: &str, blobs: &[Vec<u8>]) -> String {
    let part = |kind: &str, bytes: &[u8]| {
        let (digest, size) = (digest(bytes), bytes.len());
        format!(
            r#"{{"mediaType":"application/vnd.oci.image.{kind}","digest":"{digest}","size":{size}}}"#
        )
    };
    let layers: Vec<String> = blobs
        .iter()
        .map(|blob| part("layer.v1.tar+gzip", blob))
        .collect();
    format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{},"layers":[{}]}}"#,
        part("config.v1+json", configuration.as_bytes()),
        layers.join(",")
    )
}

/// A store and a puller for it.
pub(crate) struct Shop {
    pub(crate) directory: TempDir,
    pub(crate) catalog: Catalog,
    pub(crate) puller: Puller,
    runtime: tokio::runtime::Runtime,
    pub(crate) lines: parking_lot::Mutex<Vec<String>>,
}

impl Shop {
    /// A shop whose operator allows the registry at `host` and has it asked for `docker.io`.
    pub(crate) fn new(host: &str) -> Self {
        Self::with(host, |_| {})
    }

    pub(crate) fn with(host: &str, change: impl FnOnce(&mut Registries)) -> Self {
        Self::at(host, tempfile::tempdir().unwrap(), change)
    }

    pub(crate) fn at(host: &str, directory: TempDir, change: impl FnOnce(&mut Registries)) -> Self {
        let catalog = Catalog::open(&directory.path().join("store")).unwrap();
        let mut registries = Registries {
            mirrors: BTreeMap::from(
                [host, "docker.io"].map(|name| (name.to_owned(), host.to_owned())),
            ),
            last_versions: Some(directory.path().join("last")),
            ..Registries::default()
        };
        change(&mut registries);
        let executable = std::env::current_exe().unwrap();
        let unpacker = Unpacker::new(executable, [skep_oci::UNPACK_LAYER]);
        Self {
            puller: Puller::new(catalog.clone(), unpacker, registries).unwrap(),
            catalog,
            directory,
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap(),
            lines: parking_lot::Mutex::default(),
        }
    }

    pub(crate) fn pull(
        &self,
        reference: &str,
        credentials: Option<&RegistryCredentials>,
    ) -> Result<PulledImage, PullError> {
        self.pull_with(reference, credentials, true)
    }

    /// The same, as a build does it that asks for nothing new.
    pub(crate) fn pull_remembered(&self, reference: &str) -> Result<PulledImage, PullError> {
        self.pull_with(reference, None, false)
    }

    fn pull_with(
        &self,
        reference: &str,
        credentials: Option<&RegistryCredentials>,
        force: bool,
    ) -> Result<PulledImage, PullError> {
        let tell = |line| self.lines.lock().push(line);
        self.runtime
            .block_on(self.puller.pull(reference, credentials, force, tell))
    }

    /// Directories of the layers of an image, the lowest first.
    pub(crate) fn paths(&self, image: &PulledImage) -> Vec<PathBuf> {
        let keys = image.layers.iter();
        keys.map(|key| self.catalog.layer_path(*key)).collect()
    }

    /// The text of a refusal.
    #[track_caller]
    pub(crate) fn refusal(
        &self,
        reference: &str,
        credentials: Option<&RegistryCredentials>,
    ) -> String {
        self.pull(reference, credentials).unwrap_err().to_string()
    }

    /// Names in the store's directory for layers that are being made.
    pub(crate) fn leftovers(&self) -> usize {
        let building = self.directory.path().join("store/building");
        fs::read_dir(building).unwrap().count()
    }
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}
