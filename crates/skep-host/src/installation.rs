//! This server's part of the host, shared by all its sandboxes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use skep_telemetry::{Chain, Tasks};

use crate::cgroup::{CgroupError, Cgroups};
use crate::config::HostConfig;
use crate::defence::Defence;
use crate::firewall::{self, FirewallError};
use crate::instance::{self, Instance, InstanceError, sandboxes_live};
use crate::kernel_settings::{Bystanders, KernelSettings, TASK_DUMPS};
use crate::lease::{ReleaseError, Source};
use crate::leases::Leases;
use crate::{dns, forgotten, gateway, leftovers};

/// This server's part of the host: its instance number, its packet filter, gateway and DNS
/// forwarder, and the leases of its sandboxes.
#[derive(Debug)]
pub struct Installation {
    leases: Arc<Leases>,
    instance: Instance,
    tasks: Tasks,
}

/// Failure to make the host ready. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no number for this server on this host.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// There are no cgroups to hold the limits.
    #[error("cannot use cgroups")]
    Cgroups(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The packet filter could not be set.
    #[error("cannot set the packet filter")]
    Firewall(#[source] FirewallError),
    /// Names cannot be answered, usually because another resolver listens on every address.
    #[error("cannot listen on {address} for names")]
    Dns {
        /// Address that was tried.
        address: SocketAddr,
        /// Error of the system call.
        source: io::Error,
    },
    /// Something else on the host.
    #[error("cannot {operation}")]
    Host {
        /// Operation that failed.
        operation: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
}

impl Installation {
    /// Makes this host ready for sandboxes.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub async fn start(config: HostConfig) -> Result<Self, StartError> {
        let host = tokio::task::spawn_blocking(move || set_up(config));
        let (leases, instance, bystanders) = host.await.map_err(|panic| StartError::Host {
            operation: "set the host up",
            source: io::Error::other(panic),
        })??;
        let leases = Arc::new(leases);
        let tasks = Tasks::default();
        let names = serve_names(&leases, &tasks).await?;
        (leases.proxies.open(&leases.config, names, &tasks)).map_err(|source| {
            let operation = "prepare for egress proxies";
            StartError::Host { operation, source }
        })?;
        let stop = tasks.stopping();
        let stopped = async move { stop.cancelled().await };
        let retrying = leftovers::retry(Arc::clone(&leases), stopped);
        tasks.spawn("remove leftovers", retrying);
        let stop = tasks.stopping();
        let stopped = async move { stop.cancelled().await };
        let forgetting = forgotten::keep_forgetting(Arc::clone(&leases.slots), stopped);
        tasks.spawn("forget connections", forgetting);
        let stop = tasks.stopping();
        let stopped = async move { stop.cancelled().await };
        let keeping = firewall::keep(Arc::clone(&leases), bystanders, stopped);
        tasks.spawn("keep the packet filter", keeping);
        Ok(Self {
            leases,
            instance,
            tasks,
        })
    }

    /// The leases of this server.
    pub fn leases(&self) -> &Arc<Leases> {
        &self.leases
    }

    /// Stops answering names and keeping parts of leases ready. Leases and the rules that hold
    /// sandboxes stay.
    pub async fn stop(&self) {
        self.tasks.finish().await;
        let leases = Arc::clone(&self.leases);
        let cleared = tokio::task::spawn_blocking(move || leases.clear_pools());
        if let Err(panic) = cleared.await {
            tracing::error!(error = %Chain(&panic), "draining the pools panicked");
        }
    }

    /// Takes everything of this installation off the host: sandboxes, rules, interfaces, groups.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// The first thing that could not be removed; the rest is removed.
    pub fn dismantle(self) -> Result<(), ReleaseError> {
        let Self {
            leases, instance, ..
        } = self;
        leases.forget_all();
        let swept = leases.sweep().map(drop);
        let left = |what: &str, source: Source| ReleaseError {
            what: what.into(),
            source,
        };
        let steps = [
            (leases.cgroups.remove_parent()).map_err(|error| left("cgroup", error.into())),
            gateway::take_down(leases.naming)
                .map_err(|error| left("gateway interface", error.into())),
            restore_settings(&leases, &instance)
                .map_err(|error| left("the kernel's settings", error.into())),
            // After forwarding, which it keeps from joining networks.
            firewall::remove(leases.naming)
                .map_err(|error| left("packet filter rules", error.into())),
            (instance.forget()).map_err(|error| left("instance number", error.into())),
        ];
        steps.into_iter().fold(swept, Result::and)
    }
}

fn set_up(config: HostConfig) -> Result<(Leases, Instance, Bystanders), StartError> {
    let host_error = |operation| move |source| StartError::Host { operation, source };
    let cgroup_error = |error: CgroupError| StartError::Cgroups(error.into());
    let root = config.cgroup_root.clone();
    let instance = Instance::claim(&config.data_dir, |number| sandboxes_live(&root, number))?;
    let naming = instance.naming();
    let mut cgroups = Cgroups::open(&root, &naming.cgroup()).map_err(cgroup_error)?;
    if !config.has(Defence::CountedSockets) {
        cgroups = cgroups.without_counted_sockets();
    }
    // Rules come first, so that there is never an interface without them.
    let settings = KernelSettings::open().map_err(host_error("record the kernel's settings"))?;
    let bystanders = (settings.bystanders()).map_err(host_error("record the kernel's settings"))?;
    firewall::install(naming, &config, &bystanders).map_err(StartError::Firewall)?;
    gateway::set_up(naming, &settings).map_err(host_error("set the network up"))?;
    settings.switch_off(TASK_DUMPS).map_err(host_error(
        "keep lists of processes out of the kernel's log",
    ))?;
    let boot = instance::boot().map_err(host_error("read the boot id"))?;
    tracing::info!(group = %naming.cgroup(), cgroups = cgroups.version(), "ready for sandboxes");
    let leases = Leases::open(config, naming, cgroups, boot)
        .map_err(host_error("open the data directory"))?;
    Ok((leases, instance, bystanders))
}

/// Starts the DNS forwarder at the gateway.
async fn serve_names(leases: &Arc<Leases>, tasks: &Tasks) -> Result<Arc<dns::Service>, StartError> {
    let address = SocketAddr::from((leases.gateway(), dns::PORT));
    let config = dns::DnsConfig {
        listen: address,
        upstreams: leases.config.resolvers.clone(),
        denied: if leases.config.has(Defence::CheckedNames) {
            firewall::denied()
        } else {
            Vec::new()
        },
        allowed: leases.config.allowed_ranges.clone(),
    };
    let clients = Arc::clone(leases) as Arc<dyn dns::Clients>;
    let served = dns::serve(config, clients, tasks).await;
    let (_, names) = served.map_err(|source| StartError::Dns { address, source })?;
    Ok(names)
}

/// Puts back what was changed of the kernel, if this is the last installation.
fn restore_settings(leases: &Leases, instance: &Instance) -> io::Result<()> {
    let root = &leases.config.cgroup_root;
    let is_needed = || instance.has_company(|number| sandboxes_live(root, number));
    for setting in KernelSettings::open()?.restore(is_needed)? {
        if let Some(reason) = setting.kept {
            tracing::warn!(
                setting = setting.path,
                ?reason,
                "a setting of the kernel stays"
            );
        }
    }
    Ok(())
}
