//! The proxy's view of the node.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use skep_control::{ChangeError, Control};
use skep_node::{Node, NodeRoute};
use skep_proxy::{Route, Routes, WakeError};
use skep_telemetry::Chain;
use skep_types::{AccessToken, Phase, SandboxId, Sleeper, TransitionError};

/// Words for holders of a paused sandbox's token.
const PAUSED: &str = "is paused; connect to it and it goes on";

/// Finds running sandboxes on the node. Those that are paused go on through control, because they
/// count for their team then.
#[derive(Debug, Clone)]
pub(crate) struct NodeRoutes {
    pub(crate) node: Node,
    pub(crate) control: Control,
}

impl Routes for NodeRoutes {
    fn find<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<Arc<Route>>> {
        std::future::ready(self.node.route(id).map(route)).boxed()
    }

    fn find_by_token(&self, token: &str) -> Option<Arc<Route>> {
        self.node
            .find_route(|candidate| candidate.matches(token))
            .map(route)
    }

    fn departure(&self, id: &SandboxId, accepts: &dyn Fn(&AccessToken) -> bool) -> Option<String> {
        if let Some(departure) = self.node.departure(id, accepts) {
            return Some(departure.words(Timestamp::now()));
        }
        let is_paused = matches!(self.node.status(id)?.phase, Phase::Pausing | Phase::Paused);
        (is_paused && self.control.is_opened(id, accepts)).then(|| PAUSED.to_owned())
    }

    fn find_by_signature(&self, accepts: &dyn Fn(&AccessToken) -> bool) -> Option<Arc<Route>> {
        self.node.find_route(accepts).map(route)
    }

    fn sleeper(&self, id: &SandboxId) -> Option<Sleeper> {
        self.node.sleeper(id)
    }

    fn find_sleeper(&self, accepts: &dyn Fn(&AccessToken) -> bool) -> Option<Sleeper> {
        self.node.find_sleeper(accepts)
    }

    fn wake(&self, id: SandboxId) -> BoxFuture<'_, Result<Arc<Route>, WakeError>> {
        async move {
            self.control.auto_resume(&id).await.map_err(wake_error)?;
            // It may have been paused or killed again in between.
            self.node.route(&id).map(route).ok_or(WakeError::Changing)
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

/// The same route for the proxy. A signal of the runtime ends it, which shared types do not know, so each
/// side has a type of its own.
fn route(route: NodeRoute) -> Arc<Route> {
    Arc::new(Route {
        id: route.id,
        execution: route.execution,
        address: route.address,
        access_token: route.access_token,
        is_open: route.is_open,
        ingress: route.ingress,
        control_token: route.control_token,
        ended: route.ended,
    })
}
