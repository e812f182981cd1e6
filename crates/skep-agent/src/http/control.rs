//! Routes for the server alone.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use skep_agent_protocol::AgentConfig;
use skep_telemetry::Chain;

use crate::agent::Agent;
use crate::sandbox::{settings, trust};

/// `POST /init`: the sandbox is now this one, with these variables and this token.
pub(crate) async fn init(
    State(agent): State<Arc<Agent>>,
    Json(config): Json<AgentConfig>,
) -> StatusCode {
    let written = write_identity(&agent, &config);
    let trusted = trust(config.authority.clone());
    // Processes started from here on must not see the old variables beside the new files.
    agent.settings.replace(config);
    written.await;
    trusted.await
}

/// `POST /skep/trust`: programs of the sandbox are to trust this authority from now on.
pub(crate) async fn set_trust(
    State(agent): State<Arc<Agent>>,
    Json(authority): Json<String>,
) -> StatusCode {
    let trusted = trust(Some(authority.clone())).await;
    if trusted.is_success() {
        agent.settings.trust(authority);
    }
    trusted
}

/// `POST /skep/checkpoint/prepare`: this process is about to be written to an image. It lets go of the
/// server's socket, and can be looked into from the host until it is told that it goes on: the
/// image is written from within its namespaces. Nobody inside can, for want of its capabilities.
pub(crate) async fn prepare_checkpoint(State(agent): State<Arc<Agent>>) -> StatusCode {
    if let Some(keeper) = &agent.spawner.memory_keeper {
        keeper.stop_watching().await;
    }
    let closing = tokio::task::spawn_blocking(move || {
        if let Some(server) = &agent.spawner.fork_client {
            server.close();
        }
        // The last thing: a thread that opens a file as somebody else takes it back.
        skep_linux::open_first_process()
    });
    match closing.await {
        Ok(Ok(())) => StatusCode::NO_CONTENT,
        Ok(Err(error)) => {
            tracing::error!(%error, "cannot prepare for an image");
            StatusCode::INTERNAL_SERVER_ERROR
        }
        Err(panic) => {
            tracing::error!(%panic, "preparing for an image panicked");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// `POST /skep/checkpoint/go-on`: this process goes on, after an image was made of it or it was made
/// of one; as that of another sandbox if the body says so.
pub(crate) async fn go_on(
    State(agent): State<Arc<Agent>>,
    Json(new): Json<Option<AgentConfig>>,
) -> StatusCode {
    if let Some(config) = new {
        let written = write_identity(&agent, &config);
        let trusted = trust(config.authority.clone());
        agent.settings.become_another(config);
        written.await;
        let trusted = trusted.await;
        if !trusted.is_success() {
            return trusted;
        }
    }
    if let Some(keeper) = &agent.spawner.memory_keeper {
        keeper.watch_again();
    }
    match skep_linux::close_first_process() {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(error) => {
            tracing::error!(%error, "cannot make the agent undumpable again");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// Has programs trust an authority, if there is one. Without it all requests would fail that its
/// owner's rules look into, so a failure is told.
fn trust(authority: Option<String>) -> impl Future<Output = StatusCode> + use<> {
    let trusting =
        authority.map(|authority| tokio::task::spawn_blocking(move || trust::trust(&authority)));
    async {
        let Some(trusting) = trusting else {
            return StatusCode::NO_CONTENT;
        };
        match trusting.await {
            Ok(Ok(())) => StatusCode::NO_CONTENT,
            Ok(Err(error)) => {
                tracing::error!(error = %Chain(&error), "cannot have the sandbox trust an authority");
                StatusCode::INTERNAL_SERVER_ERROR
            }
            Err(error) => {
                tracing::error!(%error, "trusting an authority panicked");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }
}

/// Writes the files by which programs learn in which sandbox they run.
fn write_identity(agent: &Agent, config: &AgentConfig) -> impl Future<Output = ()> + use<> {
    let directory = agent.identity_directory.clone();
    let config = config.clone();
    let written =
        tokio::task::spawn_blocking(move || settings::write_identity(&config, &directory));
    async {
        // The variables tell programs the same, so a sandbox without these files still works.
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(error = %Chain(&error), "cannot write the identity of the sandbox");
            }
            Err(error) => tracing::error!(%error, "writing the identity panicked"),
        }
    }
}
