//! Telling a sandbox that its caller has left.
//!
//! A lost connection does not say why it was lost: the caller may have left, or the server may
//! be restarting while a cell runs on. So the interpreter does not stop a cell when its
//! connection breaks, and the proxy says explicitly when the caller has left.
//!
//! The proxy puts an unguessable name in [`REQUEST_NAME`] of every request to the interpreter
//! and, when the caller leaves before the answer is complete, sends `POST` [`CANCEL_PATH`] with
//! the same header on a connection of its own. The name is the credential: no caller can send
//! either, and user code that took over the interpreter's port learns nothing it could use.

use std::sync::Arc;
use std::time::Duration;

use http::header::HOST;
use http::{HeaderValue, Method, Request};
use skep_types::random_bytes;
use skep_wire::headers::REQUEST_NAME;

use crate::request::request_body::RequestBody;
use crate::routing::route::Route;
use crate::shared::Shared;
use skep_wire::interpreter::{CANCEL_PATH, INTERPRETER_PORT};

/// Time limit for an interpreter to take that notice.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Notices a caller that leaves.
///
/// Dropped before [`Hangup::answered`] was called, it means that the caller has left.
pub(crate) struct Hangup {
    shared: Arc<Shared>,
    route: Arc<Route>,
    /// Set for requests that must be told.
    name: Option<HeaderValue>,
    pending: bool,
}

impl Hangup {
    pub(crate) fn watch(shared: &Arc<Shared>, route: &Arc<Route>, port: u16) -> Self {
        Self {
            shared: Arc::clone(shared),
            route: Arc::clone(route),
            name: (port == INTERPRETER_PORT).then(random_name),
            pending: true,
        }
    }

    /// Value that the request must carry in [`REQUEST_NAME`], if any.
    pub(crate) fn name(&self) -> Option<&HeaderValue> {
        self.name.as_ref()
    }

    /// The sandbox has said all it will say.
    pub(crate) fn answered(&mut self) {
        self.pending = false;
    }
}

impl Drop for Hangup {
    fn drop(&mut self) {
        // A runtime that is being dropped takes no more work.
        let stopping =
            self.shared.stopping.is_cancelled() || tokio::runtime::Handle::try_current().is_err();
        // When the sandbox ends or the server stops, it is we who break the connection: the caller
        // has not left, and a cell runs on through a restart of the server.
        if !self.pending || stopping || self.route.ended.is_cancelled() {
            return;
        }
        self.shared.metrics.hangups.add_one();
        if let Some(name) = self.name.take() {
            let cancel = cancel(Arc::clone(&self.shared), Arc::clone(&self.route), name);
            self.shared.tasks.spawn("cancel", cancel);
        }
    }
}

async fn cancel(shared: Arc<Shared>, route: Arc<Route>, name: HeaderValue) {
    let request = Request::builder()
        .method(Method::POST)
        .uri(CANCEL_PATH)
        .header(HOST, "localhost")
        .header(REQUEST_NAME, name)
        .body(RequestBody::empty())
        .expect("every part is valid");
    let send = async {
        let mut pooled = shared
            .upstreams
            .acquire(&route, INTERPRETER_PORT)
            .await
            .ok()?;
        pooled.send(request).await.ok()
    };
    match tokio::time::timeout(CANCEL_TIMEOUT, send).await {
        Ok(Some(response)) => {
            tracing::debug!(sandbox = %route.id, status = %response.status(), "execution cancelled, its caller hung up");
        }
        Ok(None) | Err(_) => {
            tracing::debug!(sandbox = %route.id, "execution could not be cancelled after its caller hung up");
        }
    }
}

fn random_name() -> HeaderValue {
    HeaderValue::try_from(hex::encode(random_bytes::<16>()))
        .expect("hexadecimal digits are a valid value")
}
