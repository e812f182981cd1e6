//! The start of a sandbox: a spare that gets an owner, a launch, or a copy of a checkpoint.

use std::path::PathBuf;

use skep_agent_protocol::AgentConfig;
use skep_isolation::{LaunchError, LaunchRequest, Launched, RestoreRequest, RestoreTarget};
use skep_telemetry::{Chain, trace};
use skep_types::{AccessToken, Connections, Egress, ExecutionId, ImageKind, Redacted, SandboxSpec};
use tracing::debug_span;

use super::Driver;
use crate::node::Inner;
use crate::spares::Spare;

/// A sandbox whose agent accepts connections, and what its record needs to know of it.
pub(super) struct Started {
    pub(super) launched: Launched,
    pub(super) execution: ExecutionId,
    pub(super) control_token: Redacted<String>,
}

impl Driver {
    /// Takes the spare that was promised, or else launches a sandbox.
    pub(super) async fn start(&self, spec: &SandboxSpec) -> Result<Started, LaunchError> {
        let mut spare = self.policed_spare(spec).await;
        // What a spare has started does not know the variables of whoever gets it.
        let has_variables = !spec.env.reveal().is_empty();
        if has_variables
            && spec.template.start.is_some()
            && let Some(unfit) = spare.take()
        {
            unfit.launched.dispose().await;
        }
        if let Some(spare) = spare {
            let config = self.node.agent_config(spec, spare.control_token.reveal());
            let address = spare.launched.address();
            let written = Redacted::new(to_bytes(&config));
            let configuring = self.node.agents.configure(address, &config);
            let configuring = trace::step(debug_span!("configure spare"), configuring);
            // Side by side: a spare that refuses is gone, and with it what was written.
            match tokio::join!(configuring, spare.launched.reconfigured(written)) {
                (Ok(()), kept) => {
                    if let Err(error) = kept {
                        tracing::warn!(%error, "images of a sandbox will have a spare's configuration");
                    }
                    return Ok(Started {
                        launched: spare.launched,
                        execution: spare.execution,
                        control_token: spare.control_token,
                    });
                }
                (Err(error), _) => {
                    tracing::warn!(error = %Chain(&error), "spare did not take its configuration; launching another sandbox");
                    spare.launched.dispose().await;
                }
            }
        }
        match self.launch(spec).await {
            // A caller who waits goes before those who may come.
            Err(LaunchError::NoRoom(_)) if self.node.give_up_spares().await > 0 => {
                self.launch(spec).await
            }
            launched => launched,
        }
    }

    /// The spare that was promised, with the policy of its owner in force.
    async fn policed_spare(&self, spec: &SandboxSpec) -> Option<Spare> {
        let spare = self.node.spares.claim(&spec.id)?;
        if spec.egress.is_open() {
            return Some(spare);
        }
        if spec.template.start.is_some() {
            // What the template starts has had a network that its owner does not allow.
            spare.launched.dispose().await;
            return None;
        }
        let setting = spare
            .launched
            .set_egress(spec.egress.clone(), Connections::None);
        match trace::step(debug_span!("set policy of spare"), setting).await {
            Ok(()) => Some(spare),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "spare did not take its policy; launching another sandbox");
                spare.launched.dispose().await;
                None
            }
        }
    }

    async fn launch(&self, spec: &SandboxSpec) -> Result<Started, LaunchError> {
        let execution = ExecutionId::random();
        let control_token = Redacted::new(AccessToken::random().reveal().to_owned());
        let layers = self.node.layers.paths(&spec.template.layers);
        let request = self
            .node
            .launch_request(spec, layers, execution, control_token.reveal());
        let isolation = &self.node.isolation;
        // The backend starts when it is called, so it is called within the step.
        let launching = async {
            match &spec.checkpoint {
                None => isolation.launch(request).await,
                Some(checkpoint) => {
                    let request = RestoreRequest {
                        checkpoint: checkpoint.clone(),
                        kind: checkpoint.kind,
                        target: RestoreTarget::Copy(Box::new(request)),
                    };
                    let launched = isolation.restore(request).await?;
                    // Nothing of the checkpoint can be spoilt by a copy, so nothing waits.
                    match self.wake_restored(&launched).await {
                        Ok(()) => Ok(launched),
                        Err(error) => {
                            launched.dispose().await;
                            Err(LaunchError::Host {
                                operation: "let the copy go on".to_owned(),
                                source: error.into(),
                            })
                        }
                    }
                }
            }
        };
        let launched = trace::step(debug_span!("launch"), launching).await?;
        // In an image with memory what was started runs already.
        let has_memory = (spec.checkpoint.as_ref())
            .is_some_and(|checkpoint| checkpoint.kind == ImageKind::Memory);
        if !has_memory {
            self.node
                .run_start(&launched, spec, control_token.reveal())
                .await?;
        }
        Ok(Started {
            launched,
            execution,
            control_token,
        })
    }
}

impl Inner {
    /// Starts what the template of a new sandbox starts, and waits until it is ready. A sandbox that
    /// does not become ready is ended.
    pub(crate) async fn run_start(
        &self,
        launched: &Launched,
        spec: &SandboxSpec,
        control_token: &str,
    ) -> Result<(), LaunchError> {
        let Some(start) = &spec.template.start else {
            return Ok(());
        };
        let config = self.agent_config(spec, control_token);
        let starting = self.agents.start(launched.address(), &config, start);
        let started = trace::step(debug_span!("start command"), starting).await;
        if let Err(error) = started {
            launched.dispose().await;
            return Err(LaunchError::Host {
                operation: "start what the template starts".to_owned(),
                source: error.into(),
            });
        }
        Ok(())
    }
}

impl Inner {
    pub(crate) fn launch_request(
        &self,
        spec: &SandboxSpec,
        layers: Vec<PathBuf>,
        execution: ExecutionId,
        control_token: &str,
    ) -> LaunchRequest {
        let config = self.agent_config(spec, control_token);
        LaunchRequest {
            id: spec.id.clone(),
            execution,
            layers,
            tenant: spec.tenant.clone(),
            resources: spec.template.resources,
            egress: spec.egress.clone(),
            mounts: spec.mounts.clone(),
            becomes_layer: false,
            agent_config: Redacted::new(to_bytes(&config)),
        }
    }

    fn agent_config(&self, spec: &SandboxSpec, control_token: &str) -> AgentConfig {
        let template = &spec.template;
        let caller = spec.env.reveal().iter();
        let token = spec.access_token.as_ref();
        AgentConfig {
            control_token: control_token.to_owned(),
            access_token: token.map(|token| token.reveal().to_owned()),
            traffic_token: token.map(|token| token.traffic().reveal().to_owned()),
            sandbox_id: spec.id.to_string(),
            template_id: template.id.to_string(),
            env: template.env.iter().chain(caller).cloned().collect(),
            secrets: spec.secrets.reveal().map(str::to_owned).collect(),
            default_user: template.user.clone(),
            default_workdir: template.workdir.clone(),
            authority: self.authority_for(&spec.egress).map(str::to_owned),
            memory_mib: template.resources.memory_mib,
        }
    }

    /// The authority that a sandbox with this policy has to trust. Others trust nobody whom their
    /// template does not: who has the authority's key could speak for every host.
    pub(super) fn authority_for(&self, egress: &Egress) -> Option<&str> {
        let authority = self.authority.as_deref();
        authority.filter(|_| egress.request_rules().look_inside())
    }
}

fn to_bytes(config: &AgentConfig) -> Vec<u8> {
    serde_json::to_vec(config).expect("strings and maps of strings serialise")
}
