//! The sandboxes of builds.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_agent_protocol::AgentConfig;
use skep_build::{
    BuildSandbox, Command, Downloads, Exit, OpenError, Output, RunError, SandboxOrder, Sandboxes,
    SealError, Stream, TransferError,
};
use skep_image::Catalog;
use skep_isolation::{ChangeError, Isolation, LaunchError, LaunchRequest, Launched};
use skep_node::{Node, Reservation};
use skep_types::{AccessToken, Egress, ExecutionId, Redacted, SandboxId, Sharing, TenantId};

use crate::build_downloads::BuildDownloads;
use crate::commands::{AgentAddress, AgentCommand, CommandError, Printed};

/// Lends sandboxes of this host to builds. They have no driver, no record and no route: a server that
/// finds one at its start sweeps it away.
#[derive(Debug)]
pub struct BuildSandboxes {
    /// The backend that launches them.
    pub isolation: Arc<dyn Isolation>,
    /// Admission, which says if there is room.
    pub node: Node,
    /// The store of layers.
    pub catalog: Arc<Catalog>,
    /// Downloads of package clients, if they are kept.
    pub downloads: Option<Arc<Downloads>>,
}

impl Sandboxes for BuildSandboxes {
    fn open(&self, order: SandboxOrder) -> BoxFuture<'_, Result<Arc<dyn BuildSandbox>, OpenError>> {
        async move {
            let id = SandboxId::random();
            let admitted = self.node.admit(&id, order.resources).await;
            let reservation = admitted.map_err(|_no_room| OpenError::NoRoom)?;
            let token = AccessToken::random();
            let downloads = match &self.downloads {
                Some(all) => {
                    let seen = BuildDownloads::of(Arc::clone(all), order.scope).await;
                    Some(seen.map_err(|error| OpenError::Failed(error.into()))?)
                }
                None => None,
            };
            let mut request = self.request(id, &order, &token)?;
            let layers = downloads.iter().flat_map(BuildDownloads::layers);
            request.layers.extend(layers);
            let launched = self
                .isolation
                .launch(request)
                .await
                .map_err(|error| match error {
                    LaunchError::NoRoom(_) => OpenError::NoRoom,
                    error @ (LaunchError::Host { .. }
                    | LaunchError::Step { .. }
                    | LaunchError::VolumePlace { .. }
                    | LaunchError::AgentSilent(_)
                    | LaunchError::AgentEnded(_)
                    | LaunchError::Unsupported(_)) => OpenError::Failed(error.into()),
                })?;
            let agent = AgentAddress {
                address: launched.address(),
                token,
            };
            let sandbox: Arc<dyn BuildSandbox> = Arc::new(LaunchedSandbox {
                agent,
                launched,
                downloads: Mutex::new(downloads),
                _reservation: reservation,
            });
            Ok(sandbox)
        }
        .boxed()
    }

    fn forget_unused(&self, before: SystemTime) -> io::Result<()> {
        match &self.downloads {
            Some(downloads) => downloads.forget_unused(before),
            None => Ok(()),
        }
    }
}

impl BuildSandboxes {
    fn request(
        &self,
        id: SandboxId,
        order: &SandboxOrder,
        token: &AccessToken,
    ) -> Result<LaunchRequest, OpenError> {
        let config = AgentConfig {
            control_token: AccessToken::random().reveal().to_owned(),
            access_token: Some(token.reveal().to_owned()),
            sandbox_id: id.to_string(),
            template_id: order.template.to_string(),
            default_user: "root".to_owned(),
            memory_mib: order.resources.memory_mib,
            ..AgentConfig::default()
        };
        let config =
            serde_json::to_vec(&config).map_err(|error| OpenError::Failed(error.into()))?;
        let layers = order.layers.iter().map(|key| self.catalog.layer_path(*key));
        Ok(LaunchRequest {
            id,
            execution: ExecutionId::random(),
            layers: layers.collect(),
            tenant: TenantId::new(&order.team, Sharing::WithinTeam),
            resources: order.resources,
            egress: Egress::default(),
            mounts: Vec::new(),
            becomes_layer: true,
            agent_config: Redacted::new(config),
        })
    }
}

#[derive(Debug)]
struct LaunchedSandbox {
    agent: AgentAddress,
    launched: Launched,
    /// Until it is closed.
    downloads: Mutex<Option<BuildDownloads>>,
    /// It counts until it is gone.
    _reservation: Option<Reservation>,
}

impl BuildSandbox for LaunchedSandbox {
    fn run<'a>(
        &'a self,
        command: &'a Command,
        output: Arc<dyn Output>,
    ) -> BoxFuture<'a, Result<Exit, RunError>> {
        async move {
            let command = AgentCommand {
                arguments: &command.arguments,
                user: &command.user,
                directory: command.directory.as_deref(),
                environment: &command.environment,
                timeout: Some(command.timeout),
            };
            let print = |printed: Printed<'_>| match printed {
                Printed::Started => {}
                Printed::Stdout(bytes) => output.write(Stream::Stdout, bytes),
                Printed::Stderr(bytes) => output.write(Stream::Stderr, bytes),
            };
            let ended = tokio::select! {
                ended = self.agent.run(&command, print) => ended,
                // Its agent ends with it, and a connection to nobody does not always break.
                exit = self.launched.exited() => {
                    return Err(RunError::Lost(format!("the sandbox ended: {exit:?}").into()));
                }
            };
            match ended {
                Ok(ended) => Ok(Exit {
                    code: ended.code,
                    status: ended.status,
                }),
                Err(CommandError::Refused { code, message }) => {
                    Err(RunError::Refused { code, message })
                }
                Err(CommandError::TimedOut(limit)) => Err(RunError::TimedOut(limit)),
                Err(CommandError::Lost(error)) => Err(RunError::Lost(error.into())),
            }
        }
        .boxed()
    }

    fn write(&self, path: String, content: File) -> BoxFuture<'_, Result<(), TransferError>> {
        async move {
            let written = self.agent.write(&path, content).await;
            written.map_err(|error| TransferError {
                path,
                source: error.into(),
            })
        }
        .boxed()
    }

    fn seal(&self, into: PathBuf, limit: u64) -> BoxFuture<'_, Result<u64, SealError>> {
        async move {
            let downloads = self.downloads.lock().clone();
            let draft = match &downloads {
                Some(downloads) => {
                    let draft = downloads.draft().await;
                    Some(draft.map_err(|error| SealError::Failed(error.into()))?)
                }
                None => None,
            };
            let apart = draft.as_ref().map(BuildDownloads::apart);
            let copied = self.launched.copy_changes(into, limit, apart).await;
            if let (Ok(_), Some(downloads), Some(draft)) = (&copied, &downloads, draft) {
                downloads.keep(draft).await;
            }
            copied.map_err(|error| {
                let is_too_large = match &error {
                    ChangeError::Failed { source, .. } => source
                        .downcast_ref::<io::Error>()
                        .is_some_and(|error| error.kind() == io::ErrorKind::FileTooLarge),
                    ChangeError::Unsupported(_)
                    | ChangeError::Unwritable { .. }
                    | ChangeError::Damaged { .. } => false,
                };
                if is_too_large {
                    SealError::TooLarge(limit)
                } else {
                    SealError::Failed(error.into())
                }
            })
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            self.launched.dispose().await;
            let downloads = self.downloads.lock().take();
            // What nobody else sees goes with this, and that blocks.
            let dropping = tokio::task::spawn_blocking(move || drop(downloads));
            if let Err(error) = dropping.await {
                tracing::warn!(%error, "old downloads of builds are not removed");
            }
        }
        .boxed()
    }

    fn variables(&self, user: &str) -> Vec<(&'static str, String)> {
        if self.downloads.lock().is_some() {
            skep_build::variables(user)
        } else {
            Vec::new()
        }
    }
}
