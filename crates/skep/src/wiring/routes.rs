//! The proxy's view of the node.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_node::{Node, NodeRoute};
use skep_proxy::{Route, Routes};
use skep_types::{AccessToken, SandboxId};

/// Finds running sandboxes on the node.
#[derive(Debug, Clone)]
pub(crate) struct NodeRoutes(pub(crate) Node);

impl Routes for NodeRoutes {
    fn find<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<Arc<Route>>> {
        std::future::ready(self.0.route(id).map(route)).boxed()
    }

    fn find_by_token(&self, token: &str) -> Option<Arc<Route>> {
        self.0
            .find_route(|candidate| candidate.matches(token))
            .map(route)
    }

    fn find_by_signature(&self, accepts: &dyn Fn(&AccessToken) -> bool) -> Option<Arc<Route>> {
        self.0.find_route(accepts).map(route)
    }
}

fn route(route: NodeRoute) -> Arc<Route> {
    Arc::new(Route {
        id: route.id,
        execution: route.execution,
        address: route.address,
        access_token: route.access_token,
        control_token: route.control_token,
        ended: route.ended,
    })
}
