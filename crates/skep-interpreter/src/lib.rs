//! Runs code for the callers of a sandbox: the routes that the `code-interpreter` SDKs use.
//!
//! The contract is HTTP with one JSON object per line (`line.rs`). An exception of the code is
//! data. A failure before the first line is a status; after it, an `error` line and the end.
//! An answer never just stops: clients take that for success.

mod answer;
mod cancellation;
mod copies;
mod failure;
mod line;
mod notebook;
mod options;
mod outcome;
mod questions;
mod request;
mod routes;
mod timestamp;

use std::sync::Arc;

use axum::Router;
use skep_kernels::{Contexts, Launcher, SandboxSettings};

use cancellation::Cancellations;

/// Languages whose contexts are listed from the start: by contract, where there are kernels for
/// them.
const DEFAULT_LANGUAGES: [&str; 2] = ["python", "javascript"];

/// Authorization of the interpreter's callers, which its sandbox decides.
pub trait Authorizer: Send + Sync + 'static {
    /// Returns true if a caller that shows this access token may run code. In constant time.
    fn admits(&self, token: Option<&[u8]>) -> bool;

    /// Returns true if a caller that shows this traffic token may list, make, restart and remove
    /// contexts, as one that may run code may. In constant time.
    fn admits_traffic(&self, token: Option<&[u8]>) -> bool;
}

/// State that all requests share.
pub(crate) struct Interpreter {
    pub(crate) contexts: Contexts,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) cancellations: Cancellations,
}

/// The routes where there is no interpreter, because the template has no kernels.
///
/// They must be served all the same: callers show the sandbox's tokens on the interpreter's
/// port, and any program that listened there instead would be given them.
pub fn absent() -> Router {
    routes::absent()
}

/// Makes the contexts of a sandbox, with those that callers expect from the start. Must be called
/// within the runtime.
pub fn contexts(launcher: Arc<dyn Launcher>, settings: Arc<dyn SandboxSettings>) -> Contexts {
    let installed = launcher.languages();
    let defaults: Vec<&str> = DEFAULT_LANGUAGES
        .into_iter()
        .filter(|language| installed.iter().any(|name| name == language))
        .collect();
    Contexts::new(launcher, settings, &defaults)
}

/// The routes of an interpreter.
pub fn routes(contexts: Contexts, authorizer: Arc<dyn Authorizer>) -> Router {
    routes::routes(Arc::new(Interpreter {
        contexts,
        authorizer,
        cancellations: Cancellations::default(),
    }))
}
