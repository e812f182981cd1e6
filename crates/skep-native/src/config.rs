//! Configuration of the native backend.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use skep_checkpoint::{Criu, ImageKey};
use skep_host::{HostConfig, ProxyCommand};
use skep_isolation::VolumeMounts;
use skep_launch::Launcher;
use skep_types::Redacted;

use crate::Defence;

/// Configuration of the native backend. Everything is decided by the caller; nothing is read from
/// the environment.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// Settings of what the host lends.
    pub host: HostConfig,
    /// The executable and arguments that start the launcher.
    pub launcher: Launcher,
    /// The executable that is the first process of every sandbox.
    pub agent: PathBuf,
    /// Arguments of the agent, the zeroth included; `--fds` with the table of its descriptors is
    /// added.
    pub agent_arguments: Vec<String>,
    /// Time limit for an agent to start listening.
    pub agent_deadline: Duration,
    /// Settings for forking kernels into sandboxes; with `None`, kernels are started there instead.
    pub zygotes: Option<ZygoteConfig>,
    /// Settings for images with memory; with `None`, none are made.
    pub checkpoints: Option<CheckpointConfig>,
    /// Keeper of volumes; with `None`, no sandbox has any.
    pub volumes: Option<Arc<dyn VolumeMounts>>,
    /// Key by which images are encrypted that are made from now on; with `None`, none are.
    pub image_key: Option<ImageKey>,
    /// Defences that are left out, so that the attack suite can show what each of them holds.
    #[doc(hidden)]
    pub without: Vec<Defence>,
}

impl NativeConfig {
    /// The usual settings for an installation in `data_dir` that runs `executable` as the
    /// launcher (`launch`), as the agent (`agent`) and as egress proxies (`egress-proxy`).
    pub fn new(data_dir: impl Into<PathBuf>, executable: impl Into<PathBuf>) -> Self {
        let executable = executable.into();
        let mut host = HostConfig::new(data_dir);
        host.egress_proxy = Some(ProxyCommand::new(&executable));
        Self {
            host,
            launcher: Launcher::new(&executable, ["launch"]),
            agent: executable,
            agent_arguments: vec!["skep".into(), "agent".into()],
            agent_deadline: Duration::from_secs(10),
            zygotes: None,
            checkpoints: None,
            volumes: None,
            image_key: None,
            without: Vec::new(),
        }
    }

    /// Returns true unless this defence is left out, which only controls of the attack suite do.
    pub(crate) fn has(&self, defence: Defence) -> bool {
        !self.without.contains(&defence)
    }

    /// The settings of the host, without the defences of the host that are left out.
    pub(crate) fn host_config(&self) -> HostConfig {
        let without = self.without.iter().filter_map(|defence| defence.of_host());
        HostConfig {
            without: without.collect(),
            ..self.host.clone()
        }
    }
}

/// Settings for images of sandboxes with their memory.
#[derive(Debug, Clone)]
pub struct CheckpointConfig {
    /// The CRIU that makes and restores them.
    pub criu: Criu,
    /// Way to the agents, which take part in both.
    pub agents: Arc<dyn CheckpointedAgents>,
}

/// The agents of sandboxes, as far as images with memory concern them. An agent is known by its
/// address and by the configuration that it has.
pub trait CheckpointedAgents: fmt::Debug + Send + Sync {
    /// Tells an agent that it is about to be written to an image: it lets go of what ties it to the
    /// host, and can be looked into by whoever writes the image, until it is told that it goes on.
    ///
    /// # Errors
    ///
    /// If it does not answer; it is then as it was.
    fn prepare<'a>(
        &'a self,
        address: IpAddr,
        config: &'a Redacted<Vec<u8>>,
    ) -> BoxFuture<'a, io::Result<()>>;

    /// Tells an agent that it goes on, with another configuration if it is one of another sandbox now.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    fn go_on<'a>(
        &'a self,
        address: IpAddr,
        config: &'a Redacted<Vec<u8>>,
        new: Option<&'a Redacted<Vec<u8>>>,
    ) -> BoxFuture<'a, io::Result<()>>;
}

/// Settings for the fork servers of kernels.
#[derive(Debug, Clone)]
pub struct ZygoteConfig {
    /// Limit on the number of zygotes, for all templates and tenants together; up to
    /// [`Self::MOST`]. When there are so many, the one goes that was used longest ago and has no
    /// sandboxes; if all have some, further sandboxes start their kernels themselves.
    pub most: u16,
    /// Number of sandboxes that one zygote serves. It is born with ids for so many.
    pub sandboxes: u16,
    /// Age at which a zygote gets no new sandboxes any more: all kernels forked from one share
    /// their address layout and their hash seed.
    pub rotate_after: Duration,
    /// Time after which a zygote that answers no request is ended. On a busy host a fork waits
    /// for others, so this is longer than anybody waits for one.
    pub give_up_after: Duration,
    /// Time that a zygote without sandboxes is kept.
    pub idle_after: Duration,
}

impl ZygoteConfig {
    /// More would share the host's ids so that each serves hardly any sandbox.
    pub const MOST: u16 = 64;
}

impl Default for ZygoteConfig {
    fn default() -> Self {
        Self {
            most: 8,
            sandboxes: 127,
            rotate_after: Duration::from_secs(3600),
            give_up_after: Duration::from_secs(30),
            idle_after: Duration::from_mins(30),
        }
    }
}
