//! Pulling an image: its parts are found, fetched where they are missing, and unpacked.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::Client;
use reqwest::redirect::Policy;
use skep_http::{PublicNames, is_private_literal};
use skep_image::{Catalog, ContentKey, LayerDraft, LayerStart};
use skep_types::{PulledImage, RegistryCredentials, Reserve};

use crate::address::is_loopback;
use crate::credentials::{self, AuthFiles, Ecr};
use crate::digest::Digest;
use crate::error::{PullError, PullReason};
use crate::last_versions::LastVersions;
use crate::manifest::{Configuration, Document, Part, architecture};
use crate::reference::{DEFAULT_REGISTRY, Reference};
use crate::registry::{HTTP, HTTPS, Repository};
use crate::room::Room;
use crate::unpack::{UnpackError, UnpackLimits, Unpacker, inherit_directories};

/// Host that serves what `docker.io` names.
const HUB: &str = "registry-1.docker.io";
/// Time limit for a connection to a registry.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for which a registry may send nothing.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for a whole image.
const PULL_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Interval at which a layer that somebody else makes is looked for.
const GLANCE: Duration = Duration::from_millis(200);
/// Time for which the meaning of a tag is taken as it was.
const RESOLVED_FOR: Duration = Duration::from_secs(60);
/// Meanings that are kept at most; beyond that all are forgotten.
const MOST_RESOLVED: usize = 256;
/// An overlay takes more, but the steps of a build come on top.
const MOST_LAYERS: usize = 128;
const REDIRECTS: usize = 5;

/// Settings of a [`Puller`].
#[derive(Debug, Clone, Default)]
pub struct Registries {
    /// Registries of the operator, and the host that is asked in place of each, perhaps behind
    /// `http://` or `https://`. Only these may be on this host or in its network.
    pub mirrors: BTreeMap<String, String>,
    /// Files with the operator's credentials, as `podman login` and `docker login` write them. They
    /// are for callers who bring none.
    pub auth_files: Vec<PathBuf>,
    /// Largest image, compressed and unpacked.
    pub limits: UnpackLimits,
    /// The part of the host's disk that images leave free; `None` if they may fill it.
    pub reserve: Option<Reserve>,
    /// Directory that remembers what references meant, for the time when a registry does not answer.
    pub last_versions: Option<PathBuf>,
    /// Address of AWS's token service, if it is not AWS's.
    pub ecr_endpoint: Option<String>,
}

/// Gets images from registries into the store of layers.
#[derive(Debug)]
pub struct Puller {
    catalog: Catalog,
    unpacker: Unpacker,
    registries: Registries,
    auth_files: AuthFiles,
    ecr: Ecr,
    /// For registries that callers name.
    public: Client,
    /// For registries that the operator names.
    trusted: Client,
    /// Meanings of tags that anybody may read, with all their layers. The lock is held for a look or
    /// an entry.
    resolved: Mutex<HashMap<Reference, (Instant, Arc<Resolved>)>>,
}

/// The parts of an image.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) digest: Digest,
    pub(crate) layers: Vec<(Part, Digest)>,
    pub(crate) environment: Vec<(String, String)>,
}

impl Puller {
    /// A puller that puts layers into the store of `catalog`.
    ///
    /// # Errors
    ///
    /// If no HTTP client can be made.
    pub fn new(
        catalog: Catalog,
        unpacker: Unpacker,
        registries: Registries,
    ) -> Result<Self, reqwest::Error> {
        let builder = || {
            skep_http::http_client()
                .connect_timeout(CONNECT_TIMEOUT)
                .read_timeout(STALL_TIMEOUT)
        };
        let public = builder()
            .dns_resolver(PublicNames)
            .https_only(true)
            .redirect(Policy::custom(|attempt| {
                let host = attempt.url().host_str().unwrap_or_default();
                if is_private_literal(host) || attempt.previous().len() > REDIRECTS {
                    attempt.stop()
                } else {
                    attempt.follow()
                }
            }))
            .build()?;
        // Without a proxy, which is for what lies beyond the operator's network.
        let trusted = builder()
            .no_proxy()
            .redirect(Policy::limited(REDIRECTS))
            .build()?;
        let endpoint = registries.ecr_endpoint.clone();
        let ecr_client = if endpoint.is_some() {
            &trusted
        } else {
            &public
        };
        Ok(Self {
            catalog,
            unpacker,
            auth_files: AuthFiles(registries.auth_files.clone()),
            ecr: Ecr::new(ecr_client.clone(), endpoint),
            registries,
            public,
            trusted,
            resolved: Mutex::default(),
        })
    }

    /// Gets the image that `reference` means now, with the rights of `credentials` or else the
    /// operator's, and tells about it line by line.
    ///
    /// Layers that are in the store already are not fetched again, but the registry must give them
    /// out to this caller. With `force` the registry is asked even if it was a moment ago.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves complete layers in the store and nothing else.
    ///
    /// # Errors
    ///
    /// [`PullError`], with the reference as it was written.
    pub async fn pull(
        &self,
        reference: &str,
        credentials: Option<&RegistryCredentials>,
        force: bool,
        progress: impl Fn(String) + Send + Sync,
    ) -> Result<PulledImage, PullError> {
        let pulling = self.pull_now(reference, credentials, force, &progress);
        let minutes = PULL_TIMEOUT.as_secs() / 60;
        tokio::time::timeout(PULL_TIMEOUT, pulling)
            .await
            .unwrap_or(Err(PullReason::TimedOut(minutes)))
            .map_err(|reason| PullError {
                reference: reference.to_owned(),
                reason,
            })
    }

    async fn pull_now(
        &self,
        reference: &str,
        credentials: Option<&RegistryCredentials>,
        force: bool,
        progress: &(impl Fn(String) + Send + Sync),
    ) -> Result<PulledImage, PullReason> {
        let reference: Reference = reference.parse().map_err(PullReason::Reference)?;
        let repository = self.repository(&reference, credentials).await?;
        // Whether its layers were given out before to all who bring no credentials.
        let mut is_known = true;
        let image = match self.resolved_before(&reference, credentials, force) {
            Some(image) => image,
            None => match self.resolve(&reference, &repository).await {
                Ok(image) => {
                    is_known = false;
                    Arc::new(image)
                }
                Err(reason) if credentials.is_none() && reason.may_pass() => {
                    let Some(last) = self.last_version(&reference).await? else {
                        return Err(reason);
                    };
                    progress(format!(
                        "{reason}; {reference} is taken as it was when it last did"
                    ));
                    last
                }
                Err(reason) => return Err(reason),
            },
        };
        let bytes: u64 = image.layers.iter().map(|(part, _)| part.size).sum();
        progress(format!(
            "{reference} is {} in {} layers, {}",
            image.digest,
            image.layers.len(),
            size_text(bytes)
        ));
        let mut keys: Vec<ContentKey> = Vec::with_capacity(image.layers.len());
        let mut left = self.registries.limits.bytes;
        for (part, diff_id) in &image.layers {
            let (blob, diff_id) = (part.digest.to_string(), *diff_id);
            let key = ContentKey::of_image_layer(
                &reference.registry,
                &blob,
                &diff_id.to_string(),
                keys.last(),
            );
            let bytes = match self.start_layer(key).await? {
                LayerStart::Made(record) => {
                    // Somebody else may have fetched it, with rights that this caller lacks.
                    if !is_known {
                        repository.offers(*part).await?;
                    }
                    progress(format!("layer {} is there already", part.digest.short()));
                    record.bytes
                }
                LayerStart::Busy => return Err(PullReason::TimedOut(PULL_TIMEOUT.as_secs() / 60)),
                LayerStart::Draft(draft) => {
                    let below: Vec<PathBuf> = keys
                        .iter()
                        .map(|key| self.catalog.layer_path(key.layer()))
                        .collect();
                    let limits = UnpackLimits {
                        bytes: left,
                        ..self.registries.limits
                    };
                    self.make_layer(
                        &repository,
                        draft,
                        (*part, diff_id),
                        below,
                        limits,
                        progress,
                    )
                    .await?
                }
            };
            left = left
                .checked_sub(bytes)
                .ok_or(PullReason::TooLarge(self.registries.limits.bytes))?;
            keys.push(key);
        }
        if credentials.is_none() && !is_known {
            self.remember(reference, &image).await?;
        }
        Ok(PulledImage {
            layers: keys.iter().map(ContentKey::layer).collect(),
            environment: image.environment.clone(),
            digest: image.digest.to_string(),
        })
    }

    /// Waits until the layer is there or nobody makes it.
    async fn start_layer(&self, key: ContentKey) -> Result<LayerStart, PullReason> {
        let deadline = Instant::now() + PULL_TIMEOUT;
        loop {
            let catalog = self.catalog.clone();
            let start = blocking(move || catalog.start_layer(&key)).await??;
            if !matches!(start, LayerStart::Busy) || Instant::now() > deadline {
                return Ok(start);
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Fetches a layer, unpacks it in a process of its own and puts it into the store.
    async fn make_layer(
        &self,
        repository: &Repository,
        draft: LayerDraft,
        (part, diff_id): (Part, Digest),
        below: Vec<PathBuf>,
        limits: UnpackLimits,
        progress: &(impl Fn(String) + Send + Sync),
    ) -> Result<u64, PullReason> {
        let started = Instant::now();
        let layer = part.digest.short();
        let blob = draft.scratch().join("blob");
        let mut file = tokio::fs::File::create(&blob)
            .await
            .map_err(PullReason::system("make the file of a layer"))?;
        let whole = size_text(part.size);
        let tell =
            |received: u64| progress(format!("layer {layer}: {} of {whole}", received >> 20));
        let room = Room(self.registries.reserve);
        repository.download(part, &mut file, room, &tell).await?;
        drop(file);
        let seconds = started.elapsed().as_secs_f32();
        progress(format!("layer {layer}: {whole} in {seconds:.1} s"));
        let unpacker = self.unpacker.clone();
        let failed = move |cause: String| PullReason::Layer {
            layer: part.digest.short(),
            cause,
        };
        let cancel = crate::unpack::Cancel::default();
        let guard = cancel.on_drop();
        let limit = self.registries.limits.bytes;
        let unpacking = blocking(move || {
            let done = unpacker.unpack(&blob, &draft.root(), limits, room, &cancel);
            let unpacked = done.map_err(|error| match error {
                UnpackError::NoRoom => PullReason::NoRoom,
                UnpackError::Failed(cause) if cause.contains(crate::unpack::TOO_LARGE) => {
                    PullReason::TooLarge(limit)
                }
                UnpackError::Failed(cause) => failed(cause),
            })?;
            if unpacked.diff_id != diff_id.to_string() {
                return Err(PullReason::Digest(diff_id.to_string()));
            }
            inherit_directories(&draft.root(), &below, &unpacked.implied)
                .map_err(PullReason::system("set the owners of directories"))?;
            let record = draft.commit(&format!("layer {} of an image", part.digest.short()))?;
            Ok((record, unpacked.devices))
        });
        let (record, devices) = unpacking.await??;
        drop(guard);
        if devices > 0 {
            progress(format!("layer {layer}: {devices} devices are left out"));
        }
        Ok(record.bytes)
    }

    /// The repository of a reference, as this caller may see it.
    async fn repository(
        &self,
        reference: &Reference,
        credentials: Option<&RegistryCredentials>,
    ) -> Result<Repository, PullReason> {
        let named = reference.registry.as_str();
        let mirror = self
            .registries
            .mirrors
            .get(named)
            .map(|text| Mirror::read(text));
        let (host, credentials) = match credentials {
            // A caller's password goes to whom it is for.
            Some(given) => (named, Some(credentials::of_caller(given, &self.ecr).await?)),
            None => {
                let host = mirror.as_ref().map_or(named, |mirror| mirror.host);
                let files = self.auth_files.clone();
                let (of, name) = (host.to_owned(), reference.repository.clone());
                (host, blocking(move || files.find(&of, &name)).await?)
            }
        };
        let is_trusted = mirror.is_some();
        if is_loopback(host) && !is_trusted {
            return Err(PullReason::PrivateRegistry(host.to_owned()));
        }
        let client = if is_trusted {
            &self.trusted
        } else {
            &self.public
        };
        // What the operator says of a mirror is not said of the registry that it stands for.
        let said = mirror.filter(|mirror| mirror.host == host);
        let usual = if is_loopback(host) { HTTP } else { HTTPS };
        let scheme = said.and_then(|mirror| mirror.scheme).unwrap_or(usual);
        let host = if host == DEFAULT_REGISTRY { HUB } else { host };
        Ok(Repository {
            client: client.clone(),
            scheme,
            host: host.to_owned(),
            is_trusted,
            name: reference.repository.clone(),
            credentials,
            authorization: Mutex::default(),
        })
    }

    /// Meaning of a reference when its registry last answered, for callers without credentials.
    async fn last_version(
        &self,
        reference: &Reference,
    ) -> Result<Option<Arc<Resolved>>, PullReason> {
        let Some(directory) = self.registries.last_versions.clone() else {
            return Ok(None);
        };
        let reference = reference.clone();
        let found = blocking(move || LastVersions(directory).find(&reference)).await?;
        Ok(found.map(Arc::new))
    }

    /// Notes what a reference means whose layers the registry gives out to all who bring no
    /// credentials.
    async fn remember(
        &self,
        reference: Reference,
        image: &Arc<Resolved>,
    ) -> Result<(), PullReason> {
        {
            let mut resolved = self.resolved.lock();
            if resolved.len() >= MOST_RESOLVED {
                resolved.clear();
            }
            resolved.insert(reference.clone(), (Instant::now(), Arc::clone(image)));
        }
        let Some(directory) = self.registries.last_versions.clone() else {
            return Ok(());
        };
        let image = Arc::clone(image);
        let written =
            blocking(move || LastVersions(directory).remember(&reference, &image)).await?;
        if let Err(error) = written {
            tracing::warn!(%error, "what an image means now is not remembered");
        }
        Ok(())
    }

    fn resolved_before(
        &self,
        reference: &Reference,
        credentials: Option<&RegistryCredentials>,
        force: bool,
    ) -> Option<Arc<Resolved>> {
        if force || credentials.is_some() {
            return None;
        }
        let resolved = self.resolved.lock();
        let (when, image) = resolved.get(reference)?;
        (when.elapsed() < RESOLVED_FOR).then(|| Arc::clone(image))
    }

    /// Asks the registry what the reference means.
    async fn resolve(
        &self,
        reference: &Reference,
        repository: &Repository,
    ) -> Result<Resolved, PullReason> {
        let architecture = architecture();
        let (mut digest, mut bytes) = repository.manifest(&reference.version()).await?;
        let mut document = Document::read(&bytes, architecture)?;
        if let Document::Index(chosen) = document {
            (digest, bytes) = repository.manifest(&chosen.to_string()).await?;
            document = Document::read(&bytes, architecture)?;
        }
        let Document::Image(manifest) = document else {
            return Err(PullReason::Malformed("its index leads to another index"));
        };
        if manifest.layers.len() > MOST_LAYERS {
            return Err(PullReason::TooManyLayers(MOST_LAYERS));
        }
        let limit = self.registries.limits.bytes;
        let sizes = manifest.layers.iter().map(|part| part.size);
        let bytes = sizes.fold(0_u64, u64::saturating_add);
        if bytes > limit {
            return Err(PullReason::TooLarge(limit));
        }
        let text = repository.document_blob(manifest.config).await?;
        let configuration = Configuration::read(&text, architecture, manifest.layers.len())?;
        Ok(Resolved {
            digest,
            layers: manifest
                .layers
                .into_iter()
                .zip(configuration.diff_ids)
                .collect(),
            environment: configuration.environment,
        })
    }
}

/// The host that is asked in place of a registry, and how, if the operator says so.
#[derive(Clone, Copy)]
struct Mirror<'a> {
    scheme: Option<&'static str>,
    host: &'a str,
}

impl<'a> Mirror<'a> {
    fn read(text: &'a str) -> Self {
        let schemes = [HTTP, HTTPS].into_iter();
        let mut said = schemes.filter_map(|scheme| {
            let host = text.strip_prefix(scheme)?.strip_prefix("://")?;
            let scheme = Some(scheme);
            Some(Self { scheme, host })
        });
        said.next().unwrap_or(Self {
            scheme: None,
            host: text,
        })
    }
}

/// Runs `work` where blocking is allowed.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PullReason> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| PullReason::system("run a task")(error.into()))
}

fn size_text(bytes: u64) -> String {
    if bytes < 1 << 20 {
        format!("{} KiB", bytes.div_ceil(1 << 10))
    } else {
        format!("{} MiB", bytes.div_ceil(1 << 20))
    }
}
