//! Routes for the server alone.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use skep_agent_protocol::AgentConfig;
use skep_telemetry::Chain;

use crate::agent::Agent;
use crate::sandbox::settings;

/// `POST /init`: the sandbox is now this one, with these variables and this token.
pub(crate) async fn init(
    State(agent): State<Arc<Agent>>,
    Json(config): Json<AgentConfig>,
) -> StatusCode {
    let directory = agent.identity_directory.clone();
    let written = {
        let config = config.clone();
        tokio::task::spawn_blocking(move || settings::write_identity(&config, &directory))
    };
    // Processes started from here on must not see the old variables beside the new files.
    agent.settings.replace(config);
    // The variables tell programs the same, so a sandbox without these files still works.
    match written.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(error = %Chain(&error), "cannot write the identity of the sandbox");
        }
        Err(error) => tracing::error!(%error, "writing the identity panicked"),
    }
    StatusCode::NO_CONTENT
}
