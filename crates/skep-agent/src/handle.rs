//! Interface of the agent for another service in its process.
//!
//! As the first process the agent alone can wait for children, and it alone knows who the
//! sandbox is. A side service (the interpreter) starts its kernels through a handle, so that
//! they run as the same user and see the same variables as any command.

mod processes;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use skep_kernels::{FALLBACK_DIRECTORY, SandboxSettings};
use skep_telemetry::Chain;
use skep_types::Secrets;

use crate::agent::Agent;
use crate::http::signature::equal;
use crate::options::Listen;
use crate::sandbox::settings;

/// A second service of the agent's process, on a port of its own.
pub struct SideService {
    /// Address or socket of its listener.
    pub listen: Listen,
    /// Makes its routes. Called within the runtime, before the agent says that it is ready.
    pub routes: Box<dyn FnOnce(AgentHandle) -> Router + Send>,
}

impl std::fmt::Debug for SideService {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SideService")
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

/// The agent as its side service sees it: the sandbox of its kernels.
#[derive(Debug, Clone)]
pub struct AgentHandle {
    agent: Arc<Agent>,
}

impl AgentHandle {
    pub(crate) fn new(agent: Arc<Agent>) -> Self {
        Self { agent }
    }

    /// Returns true if a caller that shows this token may use the sandbox. In constant time.
    pub fn admits(&self, token: Option<&[u8]>) -> bool {
        match &self.agent.settings.current().access_token {
            Some(secret) => token.is_some_and(|shown| equal(shown, secret.as_bytes())),
            None => true,
        }
    }

    /// Returns true if a caller that shows this traffic token may use what it opens. Where the
    /// server has set none, no caller may. In constant time.
    pub fn admits_traffic(&self, token: Option<&[u8]>) -> bool {
        let config = self.agent.settings.current();
        let secret = config.traffic_token.as_deref().filter(|it| !it.is_empty());
        secret
            .zip(token)
            .is_some_and(|(secret, shown)| equal(shown, secret.as_bytes()))
    }
}

impl SandboxSettings for AgentHandle {
    fn environment(&self) -> BTreeMap<String, String> {
        // Asked for when an execution begins, and only then.
        self.agent.spawner.renew_memory_info();
        settings::environment(&self.agent.settings.current())
    }

    fn directory(&self) -> String {
        let config = self.agent.settings.current();
        self.agent
            .spawner
            .default_directory(&config)
            .unwrap_or_else(|error| {
                tracing::debug!(error = %Chain(&error), "the sandbox has no user");
                FALLBACK_DIRECTORY.to_owned()
            })
    }

    fn secrets(&self) -> Secrets {
        Secrets::new(self.agent.settings.current().secrets.clone()).unwrap_or_else(|error| {
            // The server has checked them before it accepted them.
            tracing::error!(error = %Chain(&error), "the sandbox's secrets are not masked");
            Secrets::default()
        })
    }
}
