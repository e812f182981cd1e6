//! Routes for tests: a table that the test fills.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_types::{ExecutionId, Redacted, SandboxId, Sleeper};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{Accepts, Route, Routes, WakeError};

/// Routes kept in a map.
#[derive(Debug, Default)]
pub struct FakeRoutes {
    routes: Mutex<HashMap<SandboxId, Arc<Route>>>,
    /// Paused sandboxes that go on when somebody uses them.
    sleepers: Mutex<HashMap<SandboxId, Arc<Route>>>,
    /// Number of resumes that were asked for.
    wakes: AtomicUsize,
    /// Failure of the next resumes.
    wake_error: Mutex<Option<WakeError>>,
    /// Resumes wait until this is set.
    may_wake: Mutex<Option<Arc<Notify>>>,
    gone: Mutex<HashMap<SandboxId, Arc<Route>>>,
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
            is_open: false,
            ingress: Arc::default(),
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

    /// Pauses a sandbox that goes on when somebody uses it: its route is gone, and comes back.
    pub fn pause(&self, id: &SandboxId) {
        if let Some(route) = self.routes.lock().remove(id) {
            route.ended.cancel();
            self.sleepers.lock().insert(id.clone(), route);
        }
    }

    /// Number of resumes that were asked for.
    pub fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }

    /// Lets resumes fail from now on, or succeed again.
    pub fn fail_wakes(&self, error: Option<WakeError>) {
        *self.wake_error.lock() = error;
    }

    /// Lets resumes wait until the answer is told to go on.
    pub fn hold_wakes(&self) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        *self.may_wake.lock() = Some(Arc::clone(&notify));
        notify
    }

    /// Ends a sandbox as a kill does: it is gone from the table and its token has fired.
    pub fn kill(&self, id: &SandboxId) {
        if let Some(route) = self.routes.lock().remove(id) {
            self.gone.lock().insert(id.clone(), Arc::clone(&route));
            route.ended.cancel();
        }
    }
}

/// The first of these whose access token `accepts` says yes to.
fn of_token(routes: &HashMap<SandboxId, Arc<Route>>, accepts: Accepts<'_>) -> Option<Arc<Route>> {
    let accepted = |route: &&Arc<Route>| route.access_token.as_ref().is_some_and(accepts);
    routes.values().find(accepted).cloned()
}

impl Routes for FakeRoutes {
    fn find<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<Arc<Route>>> {
        let found = self.routes.lock().get(id).cloned();
        Box::pin(std::future::ready(found))
    }

    fn find_by_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Option<Arc<Route>>> {
        let found = of_token(&self.routes.lock(), &|known| known.matches(token));
        Box::pin(std::future::ready(found))
    }

    fn departure<'a>(
        &'a self,
        id: &'a SandboxId,
        accepts: Accepts<'a>,
    ) -> BoxFuture<'a, Option<String>> {
        let gone = self.gone.lock().get(id).cloned();
        let token = gone.as_ref().and_then(|route| route.access_token.as_ref());
        let words = || "ended 06:16 UTC: killed; create another one".to_owned();
        let departure = token.filter(|token| accepts(token)).map(|_| words());
        Box::pin(std::future::ready(departure))
    }

    fn find_by_signature<'a>(&'a self, accepts: Accepts<'a>) -> BoxFuture<'a, Option<Arc<Route>>> {
        let found = of_token(&self.routes.lock(), accepts);
        Box::pin(std::future::ready(found))
    }

    fn sleeper<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<Sleeper>> {
        let found = self.sleepers.lock().get(id).map(|route| sleeper(route));
        Box::pin(std::future::ready(found))
    }

    fn find_sleeper<'a>(&'a self, accepts: Accepts<'a>) -> BoxFuture<'a, Option<Sleeper>> {
        let found = of_token(&self.sleepers.lock(), accepts).map(|route| sleeper(&route));
        Box::pin(std::future::ready(found))
    }

    fn wake(&self, id: SandboxId) -> BoxFuture<'_, Result<Arc<Route>, WakeError>> {
        Box::pin(async move {
            self.wakes.fetch_add(1, Ordering::SeqCst);
            let held = self.may_wake.lock().clone();
            if let Some(held) = held {
                held.notified().await;
            }
            if let Some(error) = *self.wake_error.lock() {
                return Err(error);
            }
            let asleep = self.sleepers.lock().remove(&id);
            let asleep = asleep.ok_or(WakeError::NotFound)?;
            Ok(self.publish_as(|route| {
                route.id = id;
                route.address = asleep.address;
                route.access_token = asleep.access_token.clone();
                route.is_open = asleep.is_open;
                route.ingress = Arc::clone(&asleep.ingress);
            }))
        })
    }
}

fn sleeper(route: &Route) -> Sleeper {
    Sleeper {
        id: route.id.clone(),
        access_token: route.access_token.clone(),
        is_open: route.is_open,
        ingress: Arc::clone(&route.ingress),
    }
}
