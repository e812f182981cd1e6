//! The proxy's view of the node.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use skep_control::{ChangeError, Control};
use skep_node::Node;
use skep_proxy::{Accepts, Route, Routes, WakeError};
use skep_telemetry::Chain;
use skep_types::{Phase, SandboxId, Sleeper, TransitionError};

/// Words for holders of a paused sandbox's token.
const PAUSED: &str = "is paused; connect to it and it goes on";

/// Finds running sandboxes on the node. Those that are paused go on through control, because they
/// count for their team then.
#[derive(Debug, Clone)]
pub(crate) struct NodeRoutes {
    pub(crate) node: Node,
    pub(crate) control: Control,
}

impl NodeRoutes {
    fn paused(&self, id: &SandboxId, accepts: Accepts<'_>) -> Option<String> {
        let is_paused = matches!(self.node.status(id)?.phase, Phase::Pausing | Phase::Paused);
        (is_paused && self.control.is_opened(id, accepts)).then(|| PAUSED.to_owned())
    }
}

impl Routes for NodeRoutes {
    fn find<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<Arc<Route>>> {
        std::future::ready(self.node.route(id).map(Arc::new)).boxed()
    }

    fn find_by_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Option<Arc<Route>>> {
        let found = self.node.find_route(|candidate| candidate.matches(token));
        std::future::ready(found.map(Arc::new)).boxed()
    }

    fn departure<'a>(
        &'a self,
        id: &'a SandboxId,
        accepts: Accepts<'a>,
    ) -> BoxFuture<'a, Option<String>> {
        let ended = self.node.departure(id, accepts);
        let words = ended.map(|departure| departure.words(Timestamp::now()));
        std::future::ready(words.or_else(|| self.paused(id, accepts))).boxed()
    }

    fn find_by_signature<'a>(&'a self, accepts: Accepts<'a>) -> BoxFuture<'a, Option<Arc<Route>>> {
        std::future::ready(self.node.find_route(accepts).map(Arc::new)).boxed()
    }

    fn sleeper<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<Sleeper>> {
        std::future::ready(self.node.sleeper(id)).boxed()
    }

    fn find_sleeper<'a>(&'a self, accepts: Accepts<'a>) -> BoxFuture<'a, Option<Sleeper>> {
        std::future::ready(self.node.find_sleeper(accepts)).boxed()
    }

    fn wake(&self, id: SandboxId) -> BoxFuture<'_, Result<Arc<Route>, WakeError>> {
        async move {
            self.control.auto_resume(&id).await.map_err(wake_error)?;
            // It may have been paused or killed again in between.
            self.node
                .route(&id)
                .map(Arc::new)
                .ok_or(WakeError::Changing)
        }
        .boxed()
    }
}

fn wake_error(error: ChangeError) -> WakeError {
    match &error {
        ChangeError::NotFound(_) | ChangeError::Blocked(_) => WakeError::NotFound,
        ChangeError::QuotaReached(_) => WakeError::LimitReached,
        ChangeError::Conflict { .. }
        | ChangeError::StartInFlight(_)
        | ChangeError::Unsettled(_)
        | ChangeError::Node(TransitionError::NotHere(_) | TransitionError::Refused(_)) => {
            WakeError::Changing
        }
        ChangeError::BrokeOff
        | ChangeError::LostVolumes { .. }
        | ChangeError::UnknownToken(_)
        | ChangeError::Node(
            TransitionError::Unsupported(_)
            | TransitionError::NoRoom(_)
            | TransitionError::AgentSilent
            | TransitionError::AgentWasSilent
            | TransitionError::Unwritable(_)
            | TransitionError::Failed(_),
        ) => {
            tracing::warn!(error = %Chain(&error), "a request did not wake its sandbox");
            WakeError::Failed
        }
    }
}
