//! Jupyter's door: a kernel gateway whose kernels are sandboxes.
//!
//! JupyterLab, papermill and whatever else speaks Jupyter's REST API and its messages over
//! WebSockets find here what a server of Jupyter would offer. A kernel is a sandbox of the caller's
//! team with this kernel's name among its metadata, so that it is found again by a server that was
//! restarted; what is kept in memory beside it are its clients and the requests that wait.
//!
//! It is a client of the API and may do what the key of its caller may do; nothing here knows the
//! server.

mod activity;
mod clients;
mod failure;
mod gateway;
mod kernel;
mod kernelspecs;
mod message;
mod rest;
mod socket;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{any, get, post};
use skep_client::Client;

use gateway::Gateway;

/// The caller of a request, as the wiring has recognised them: put among the extensions of a
/// request.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// A client of the API that acts as they may.
    pub client: Client,
    /// Their team.
    pub team: String,
}

/// Settings of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Template of kernels whose kernelspec names none.
    pub template: String,
    /// Time that a kernel lives without a client and without code that runs.
    pub idle: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            template: "code-interpreter-v1".to_owned(),
            idle: Duration::from_mins(10),
        }
    }
}

/// The routes below `/skep/jupyter/api`, for callers who were let in and are told by a [`Visitor`].
pub fn routes(settings: Settings) -> Router {
    let below = |path: &str| format!("/skep/jupyter/api{path}");
    Router::new()
        .route(&below(""), get(rest::version))
        .route(&below("/"), get(rest::version))
        .route(&below("/status"), get(rest::status))
        .route(&below("/kernelspecs"), get(rest::kernelspecs))
        .route(&below("/kernelspecs/{name}"), get(rest::kernelspec))
        .route(&below("/kernels"), get(rest::list).post(rest::start))
        .route(
            &below("/kernels/{id}"),
            get(rest::get).delete(rest::shut_down),
        )
        .route(&below("/kernels/{id}/interrupt"), post(rest::interrupt))
        .route(&below("/kernels/{id}/restart"), post(rest::restart))
        .route(&below("/kernels/{id}/channels"), any(socket::open))
        .route(&below("/{*rest}"), any(rest::unknown))
        .with_state(Arc::new(Gateway::new(settings)))
}
