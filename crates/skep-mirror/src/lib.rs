//! A caching mirror of package registries, for sandboxes, at their gateway.
//!
//! Clients in sandboxes ask it instead of PyPI, npm and Debian. It asks the registries that the operator
//! has named, with the operator's credentials, which no sandbox sees, and keeps what came. Sandboxes and
//! registries are both taken to be hostile: a request can name a package and a file and nothing else, a
//! file is what the index of its registry promises or it is nothing, and everything has an end: sizes,
//! times, connections.
//!
//! What is called by its digest is kept until it makes room; an index is asked for again after a while.

mod body;
mod debian;
mod digest;
mod error;
mod fetch;
mod metrics;
mod names;
mod npm;
mod pypi;
mod route;
mod serve;
mod store;
mod upstream;

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use skep_telemetry::Tasks;
use tokio::net::TcpListener;

use fetch::Fetcher;
pub use metrics::Metrics;
use serve::Service;
use store::Store;
use upstream::{Clients, Upstream};
pub use upstream::{Registry, RegistryError};

/// Share of a sandbox in a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// All that the registry has.
    Everything,
    /// The part that the mirror has already: nothing is asked for it, so nothing gets out.
    Cached,
    /// Refused, whatever is asked for.
    Nothing,
}

/// The sandboxes that may ask.
pub trait Sandboxes: std::fmt::Debug + Send + Sync + 'static {
    /// Share of the sandbox at this address in the registry at this host.
    fn access(&self, address: Ipv4Addr, registry: &str) -> Access;
}

/// The registries that are mirrored.
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
}

/// Configuration of a mirror.
#[derive(Debug)]
pub struct MirrorOptions {
    /// Listener to which sandboxes connect.
    pub listener: TcpListener,
    /// The registries.
    pub registries: Registries,
    /// Certificates that registries are trusted by beside those of the system, as PEM.
    pub certificates: Option<String>,
    /// Directory of the cache.
    pub directory: PathBuf,
    /// Most bytes of the cache.
    pub cache_bytes: u64,
    /// Time for which an index is not asked for again.
    pub freshness: Duration,
    /// The sandboxes.
    pub sandboxes: Arc<dyn Sandboxes>,
}

/// A mirror that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A registry cannot be one.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Its cache cannot be opened.
    #[error("cannot open the mirror's cache in `{}`", directory.display())]
    Cache {
        /// Directory of the cache.
        directory: PathBuf,
        /// Failure of the system call.
        source: io::Error,
    },
    /// Its socket cannot be used.
    #[error("cannot listen for sandboxes")]
    Listener(#[source] io::Error),
}

/// A running mirror.
#[derive(Debug)]
pub struct Mirror {
    metrics: Arc<Metrics>,
    tasks: Tasks,
}

impl Mirror {
    /// Opens the cache and answers sandboxes from now on.
    ///
    /// # Errors
    ///
    /// [`StartError`]
    pub async fn start(options: MirrorOptions) -> Result<Self, StartError> {
        let metrics = Arc::<Metrics>::default();
        let tasks = Tasks::default();
        let upstream = |registry: &Registry| Upstream::new(registry).map(Arc::new);
        let registries = serve::Upstreams {
            pypi: upstream(&options.registries.pypi)?,
            npm: upstream(&options.registries.npm)?,
            debian: upstream(&options.registries.debian)?,
            debian_security: upstream(&options.registries.debian_security)?,
        };
        let clients = Clients::new(options.certificates.as_deref())?;
        let address = options
            .listener
            .local_addr()
            .map_err(StartError::Listener)?;
        let (directory, counted) = (options.directory.clone(), Arc::clone(&metrics));
        let bytes = options.cache_bytes;
        let opening = tokio::task::spawn_blocking(move || Store::open(directory, bytes, counted));
        let opened = opening.await.map_err(io::Error::other).flatten();
        let store = opened.map_err(|source| StartError::Cache {
            directory: options.directory,
            source,
        })?;
        let fetcher = Fetcher::new(
            Arc::new(store),
            clients,
            options.freshness,
            tasks.clone(),
            Arc::clone(&metrics),
        );
        let service = Arc::new(Service::new(
            Arc::new(fetcher),
            registries,
            options.sandboxes,
            format!("http://{address}"),
            Arc::clone(&metrics),
        ));
        serve::serve(service, options.listener, &tasks);
        Ok(Self { metrics, tasks })
    }

    /// Numbers of what it does.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Ends all connections and fetches.
    pub async fn finish(&self) {
        self.tasks.finish().await;
    }
}
