//! Keeping the sandbox of a kernel alive while somebody uses it, and forgetting it afterwards.

use std::sync::Arc;
use std::time::Duration;

use skep_client::{ClientError, LONGEST_EXTENSION, Sandbox};
use skep_telemetry::Chain;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Kernel;
use crate::activity::State;
use crate::clients::Client;
use crate::gateway::Kernels;

/// Longest interval at which the deadline of a sandbox is moved. A key that was revoked loses its
/// connections after this.
const INTERVAL: Duration = Duration::from_secs(60);

/// Moves the deadline of the sandbox as long as there are clients or code runs. Ends with the
/// kernel, which is then forgotten.
pub(super) async fn keep(kernel: Arc<Kernel>, kernels: Kernels) {
    let period = (kernel.idle / 3).clamp(Duration::from_secs(1), INTERVAL);
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut used = Instant::now();
    loop {
        tokio::select! {
            () = kernel.ended() => break,
            _ = ticks.tick() => {}
        }
        let is_there = if kernel.is_used() {
            used = Instant::now();
            kernel.prolong().await
        } else if used.elapsed() > kernel.idle + period {
            // Others may have given it more time; then it is looked for again after as long.
            used = Instant::now();
            kernel.is_there().await
        } else {
            true
        };
        if !is_there {
            kernel.end().await;
            break;
        }
    }
    let key = (kernel.team.clone(), kernel.id.clone());
    let mut kernels = kernels.lock();
    if kernels
        .get(&key)
        .is_some_and(|kept| Arc::ptr_eq(kept, &kernel))
    {
        kernels.remove(&key);
    }
}

impl Kernel {
    fn is_used(&self) -> bool {
        let is_busy = self.activity.lock().state == State::Busy;
        is_busy || !self.clients.lock().is_empty()
    }

    /// Moves the deadline, in the name of each client. Returns false if the sandbox has ended.
    async fn prolong(&self) -> bool {
        let clients: Vec<Client> = self.clients.lock().clone();
        for client in &clients {
            let sandbox = self.sandbox.through(&client.api);
            match given(&sandbox, self.idle).await {
                Ok(()) => {}
                Err(error) if has_ended(&error) => return false,
                Err(error) if matches!(error.status(), Some(401 | 403)) => client.close(),
                Err(error) => {
                    tracing::debug!(error = %Chain(&error), "a kernel is not given more time");
                }
            }
        }
        if clients.is_empty() {
            let api = self.last_user.lock().clone();
            let given = given(&self.sandbox.through(&api), self.idle).await;
            return !given.is_err_and(|error| has_ended(&error));
        }
        true
    }

    /// Returns false if the sandbox has ended.
    pub(super) async fn is_there(&self) -> bool {
        let api = self.last_user.lock().clone();
        let found = self.sandbox.through(&api).info().await;
        let has_clients = !self.clients.lock().is_empty();
        !found.is_err_and(|error| match error.status() {
            Some(404 | 410) => true,
            // A key that was revoked cannot tell. Those with another one may be at work; without
            // them, whoever has one finds the kernel again.
            Some(401 | 403) => !has_clients,
            Some(_) | None => false,
        })
    }
}

/// Gives a sandbox more time, and takes none away that somebody else has given it.
async fn given(sandbox: &Sandbox, time: Duration) -> Result<(), ClientError> {
    if time <= LONGEST_EXTENSION {
        sandbox.extend(time).await
    } else {
        sandbox.set_timeout(time).await
    }
}

fn has_ended(error: &ClientError) -> bool {
    matches!(error.status(), Some(404 | 410))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::{StatusCode, Uri};
    use parking_lot::Mutex;
    use skep_client::Client as Api;

    use super::*;
    use crate::wire::Form;

    /// The address of an API that refuses every key, and the paths that were asked for.
    async fn refusing() -> (String, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&asked);
        let routes = Router::new().fallback(async move |uri: Uri| {
            seen.lock().push(uri.path().to_owned());
            StatusCode::UNAUTHORIZED
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(skep_telemetry::spawn("fake API", async move {
            axum::serve(listener, routes).await
        }));
        (url, asked)
    }

    /// The last user's key may be revoked while others, with keys of their own, use the kernel.
    #[tokio::test]
    async fn a_revoked_key_ends_no_kernel_that_has_clients() {
        let (url, _asked) = refusing().await;
        let kernel = Kernel::at(&url);
        assert!(!kernel.is_there().await);
        let (client, _queue) = Client::new(Api::direct(&url, "e2b_b").unwrap(), Form::Object);
        let _joined = kernel.join(client).unwrap();
        assert!(kernel.is_there().await);
    }

    #[tokio::test]
    async fn a_deadline_is_only_moved_away() {
        let (url, asked) = refusing().await;
        let sandbox = Api::direct(&url, "e2b_a").unwrap().sandbox("i1");
        assert!(given(&sandbox, Duration::from_mins(10)).await.is_err());
        assert_eq!(*asked.lock(), ["/sandboxes/i1/refreshes"]);
    }
}
