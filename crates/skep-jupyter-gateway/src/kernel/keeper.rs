//! Keeping the sandbox of a kernel alive while somebody uses it, and forgetting it afterwards.

use std::sync::Arc;
use std::time::Duration;

use skep_client::ClientError;
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
            match sandbox.set_timeout(self.idle).await {
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
            let given = self.sandbox.through(&api).set_timeout(self.idle).await;
            return !given.is_err_and(|error| has_ended(&error));
        }
        true
    }

    /// Returns false if the sandbox has ended.
    pub(super) async fn is_there(&self) -> bool {
        let api = self.last_user.lock().clone();
        let found = self.sandbox.through(&api).info().await;
        // A key that was revoked cannot tell; whoever has one finds the kernel again.
        !found.is_err_and(|error| matches!(error.status(), Some(401 | 403 | 404 | 410)))
    }
}

fn has_ended(error: &ClientError) -> bool {
    matches!(error.status(), Some(404 | 410))
}
