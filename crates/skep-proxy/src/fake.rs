//! Routes for tests: a table that the test fills.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_types::{AccessToken, ExecutionId, Redacted, SandboxId};
use tokio_util::sync::CancellationToken;

use crate::{Route, Routes};

/// Routes kept in a map.
#[derive(Debug, Default)]
pub struct FakeRoutes {
    routes: Mutex<HashMap<SandboxId, Arc<Route>>>,
}

impl FakeRoutes {
    /// Publishes a sandbox without tokens at 127.0.0.1.
    pub fn publish(&self) -> Arc<Route> {
        self.publish_as(|_| {})
    }

    /// Publishes a sandbox at 127.0.0.1 after `change` has had its way with it.
    pub fn publish_as(&self, change: impl FnOnce(&mut Route)) -> Arc<Route> {
        let mut route = Route {
            id: SandboxId::random(),
            execution: ExecutionId::random(),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            access_token: None,
            control_token: Redacted::new("control".to_owned()),
            ended: CancellationToken::new(),
        };
        change(&mut route);
        let route = Arc::new(route);
        self.routes
            .lock()
            .insert(route.id.clone(), Arc::clone(&route));
        route
    }

    /// Ends a sandbox as a kill does: it is gone from the table and its token has fired.
    pub fn kill(&self, id: &SandboxId) {
        if let Some(route) = self.routes.lock().remove(id) {
            route.ended.cancel();
        }
    }
}

impl Routes for FakeRoutes {
    fn find<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<Arc<Route>>> {
        let found = self.routes.lock().get(id).cloned();
        Box::pin(std::future::ready(found))
    }

    fn find_by_signature(&self, accepts: &dyn Fn(&AccessToken) -> bool) -> Option<Arc<Route>> {
        let accepted = |route: &&Arc<Route>| route.access_token.as_ref().is_some_and(accepts);
        self.routes.lock().values().find(accepted).cloned()
    }
}
